"""What a JSON Schema says: its references, its draft, what may be null, which texts are times.

Nothing is ever fetched: what a schema refers to must stand in it. How large it may be is limited,
so that a small message cannot grow without end.
"""

from __future__ import annotations

import copy
import datetime as dt
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jsonschema_rs
from pyspark.sql import types as T
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from singer_spark.errors import SchemaError
from singer_spark.types import to_spark_type

NAMED_SCHEMAS = ("properties", "patternProperties", "$defs", "definitions")
LISTED_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SHAPES: dict[str, type] = {
    "$ref": str,
    **dict.fromkeys(NAMED_SCHEMAS, Mapping),
    **dict.fromkeys(LISTED_SCHEMAS, list),
}
_SINGLE_SCHEMAS = ("items", "contains", "propertyNames", "not", "if", "then", "else")
_TYPE_KEYWORDS = {
    "type",
    "properties",
    "items",
    "format",
    "multipleOf",
    "precision",
    "scale",
    "contentEncoding",
    "title",
    "description",
    "default",
    "examples",
    "$schema",
    "$id",
    "$comment",
}
_TYPE_FORMATS = {"date-time", "date", "time", "singer.decimal", "x-singer.decimal"}
# Of JSON; a struct is two, and 500 of them is what the type mapping takes.
MOST_LEVELS = 1200
# Of a JSON Schema, where every reference counts as all that it refers to.
MOST_PARTS = 300_000
# Of a table, those inside structs included.
MOST_COLUMNS = 30_000
# Of the name of a column, in characters.
LONGEST_NAME = 1000
_MAYBE_SCHEMAS = ("additionalProperties", "unevaluatedProperties", "unevaluatedItems")
_KNOWN = re.compile(r"https?://json-schema\.org/draft(-0[467]|/2019-09|/2020-12)/schema#?")
_DRAFT_4 = "http://json-schema.org/draft-04/schema#"
_OLDER_DRAFTS = ("http://json-schema.org/draft-07/schema#", _DRAFT_4)
_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9](:([0-5][0-9]|60)([.][0-9]+)?)?"
_OFFSET = r" ?([Zz]|[+-][0-9]{2}(:?[0-9]{2}(:[0-9]{2})?)?)"
_MOMENT = re.compile(f"{_DAY}([Tt ]{_TIME}({_OFFSET})?)?")
_MIDNIGHT = re.compile(f"{_DAY}([Tt ]00:00(:00([.]0+)?)?([Zz]|[+-]00:?00)?)?")


class TooLargeError(SchemaError):
    """A JSON Schema that is beyond a limit."""


def check_depth(stream: str, schema: Mapping[str, Any]) -> None:
    """Refuse a JSON Schema that is nested too deeply to be walked by recursion."""
    waiting: list[tuple[Any, int]] = [(schema, 1)]
    while waiting:
        node, level = waiting.pop()
        if level > MOST_LEVELS:
            raise too_deep(f"stream {stream}: its SCHEMA")
        waiting.extend((part, level + 1) for part in parts_in(node).values())


def too_deep(what: str) -> TooLargeError:
    """Return the error of what is nested too deeply."""
    return TooLargeError(
        f"{what} is nested deeper than {MOST_LEVELS} levels of JSON; flatten it in the tap"
    )


def parts_in(node: Any) -> Mapping[Any, Any]:
    """Return what an object or a list of JSON holds, nothing for anything else."""
    if isinstance(node, list):
        return dict(enumerate(node))
    return node if isinstance(node, Mapping) else {}


def _replaced(node: Any, resolver: Any, seen: tuple[str, ...]) -> Any:
    if not isinstance(node, Mapping):
        return node
    reference = node.get("$ref")
    if reference is not None:
        rest = {name: part for name, part in node.items() if name != "$ref"}
        if reference in seen:
            return rest
        found = resolver.lookup(reference).contents
        merged = {**rest, **(found if isinstance(found, Mapping) else {})}
        return _replaced(merged, resolver, (*seen, reference))
    within = partial(_replaced, resolver=resolver, seen=seen)
    return {name: _replaced_part(name, part, within) for name, part in node.items()}


def _replaced_part(name: str, part: Any, within: Callable[[Any], Any]) -> Any:
    if name in ("properties", "patternProperties") and isinstance(part, Mapping):
        return {key: within(value) for key, value in part.items()}
    if name in LISTED_SCHEMAS and isinstance(part, list):
        return [within(value) for value in part]
    return within(part) if name in (*_SINGLE_SCHEMAS, *_MAYBE_SCHEMAS) else part


def _resolver(schema: Mapping[str, Any]) -> Any:
    return Registry().with_resource("", DRAFT202012.create_resource(schema)).resolver()


def check_references(schema: Mapping[str, Any]) -> None:
    """Refuse a JSON Schema whose references, each replaced by what it refers to, are too much."""
    resolver = _resolver(schema)
    known: dict[str, Any] = {}
    # Definitions count only where they are referred to.
    used = {name: part for name, part in schema.items() if name not in ("definitions", "$defs")}
    waiting: list[tuple[Any, int, tuple[str, ...]]] = [(used, 1, ())]
    count = 0
    while waiting:
        node, level, seen = waiting.pop()
        count += 1
        if count > MOST_PARTS:
            raise TooLargeError(
                f"its SCHEMA has more than {MOST_PARTS} parts, where every $ref counts as all that "
                "it refers to; declare fewer columns, or look at the tap"
            )
        if level > MOST_LEVELS:
            raise too_deep("its SCHEMA, with all that it refers to,")
        reference = node.get("$ref") if isinstance(node, Mapping) else None
        if isinstance(reference, str) and reference not in seen:
            if reference not in known:
                known[reference] = _referred(resolver, reference)
            waiting.append((known[reference], level + 1, (*seen, reference)))
        waiting.extend((part, level + 1, seen) for part in parts_in(node).values())


def _referred(resolver: Any, reference: str) -> Any:
    try:
        return resolver.lookup(reference).contents
    except Unresolvable:
        # An error of its own, where the reference is needed.
        return None


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


def _is_day(pattern: re.Pattern[str], value: object) -> bool:
    """Say whether a text is a day in this form; a format says nothing of what is no text."""
    if not isinstance(value, str):
        return True
    try:
        dt.date.fromisoformat(value[:10])
    except ValueError:
        return False
    return pattern.fullmatch(value) is not None


# A date is also the midnight at which it begins.
CHECKS: dict[str, Callable[..., bool]] = {
    "date-time": partial(_is_day, _MOMENT),
    "date": partial(_is_day, _MIDNIGHT),
}


def is_text(schema: Mapping[str, Any]) -> bool:
    """Say whether a property's values stay text."""
    return isinstance(to_spark_type(schema), T.StringType)


def resolved_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON Schema with its references replaced; one to itself becomes any value."""
    whole = _copied(schema)
    check_references(whole)
    resolved: dict[str, Any] = _replaced(whole, _resolver(whole), ())
    return resolved


def _copied(schema: Any) -> Any:
    """Copy a JSON Schema; the schemas `true` and `false` become one of any value."""
    if not isinstance(schema, Mapping):
        return copy.deepcopy(schema) if isinstance(schema, list) else {}
    return {
        name: {key: _copied(value) for key, value in part.items()}
        if name in NAMED_SCHEMAS and isinstance(part, Mapping)
        else [_copied(value) for value in part]
        if name in LISTED_SCHEMAS and isinstance(part, list)
        else _copied(part)
        if name in _SINGLE_SCHEMAS
        else copy.deepcopy(part)
        for name, part in schema.items()
        if isinstance(part, _SHAPES.get(name, object))
    }


def nullable(schema: Any) -> bool:
    """Say whether a JSON Schema allows null."""
    if not isinstance(schema, Mapping):
        return True
    options = schema.get("anyOf") or schema.get("oneOf")
    options = options if isinstance(options, list) else []
    kinds = schema.get("type", "null" if not options else "")
    listed = kinds if isinstance(kinds, list) else [kinds]
    return "null" in listed or any(map(nullable, options))


def required_names(schema: Mapping[str, Any]) -> list[str]:
    """Name what a JSON Schema requires of an object."""
    required = schema.get("required")
    return (
        [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    )


def has_only_types(schema: Any) -> bool:
    """Say whether a JSON Schema states types and nothing else that could be broken."""
    if not isinstance(schema, Mapping):
        return schema is not False
    alternatives = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    children = [*schema.get("properties", {}).values(), schema.get("items", True), *alternatives]
    return (
        all(
            name in _TYPE_KEYWORDS or name in ("anyOf", "oneOf") or name.startswith("x-")
            for name in schema
            if name != "additionalProperties" or schema[name] is False
        )
        and schema.get("format", "date") in _TYPE_FORMATS
        # No cast checks a date or a time that stays text.
        and not (schema.get("format") in tuple(CHECKS) and is_text(schema))
        and len([one for one in alternatives if one != {"type": "null"}]) <= 1
        and all(map(has_only_types, children))
    )
