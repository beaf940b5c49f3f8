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


def never_fetch(url: str) -> Any:
    """Refuse what a schema refers to elsewhere."""
    raise LookupError(f"{url} is not in it")
