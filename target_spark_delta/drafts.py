"""Drafts of JSON Schema: which one a schema is written in, and what is rewritten for the validator.

Nothing is ever fetched: what a schema refers to must stand in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import jsonschema_rs

_KNOWN = re.compile(r"https?://json-schema\.org/draft(-0[467]|/2019-09|/2020-12)/schema#?")
_DRAFT_4 = "http://json-schema.org/draft-04/schema#"
_OLDER_DRAFTS = ("http://json-schema.org/draft-07/schema#", _DRAFT_4)


def dated(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Name the draft that a JSON Schema is written in, where it is an older one and does not.

    One that it names and nobody knows is left out.
    """
    named = schema.get("$schema")
    if isinstance(named, str) and _KNOWN.fullmatch(named):
        return dict(schema)
    plain = {name: part for name, part in schema.items() if name != "$schema"}
    older = ({**plain, "$schema": draft} for draft in _OLDER_DRAFTS)
    return next(filter(jsonschema_rs.meta.is_valid, [plain, *older]), plain)


def is_draft_4(schema: Mapping[str, Any]) -> bool:
    """Say whether a JSON Schema is written in draft 4."""
    return "/draft-04/" in str(schema.get("$schema"))


def with_whole_numbers(schema: dict[str, Any]) -> dict[str, Any]:
    """Let 1.0 be an integer, as in all drafts since, where draft 4 asks how it is written."""
    kinds = schema.get("type")
    listed = kinds if isinstance(kinds, list) else [kinds]
    if "integer" not in listed or "number" in listed:
        return schema
    wider = ["number" if kind == "integer" else kind for kind in listed]
    return {**schema, "type": wider, "multipleOf": 1}


def never_fetch(url: str) -> Any:
    """Refuse what a schema refers to elsewhere."""
    raise LookupError(f"{url} is not in it")
