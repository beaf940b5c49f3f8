"""References of a JSON Schema, replaced by what they refer to.

Every place gets a copy of its own: where places shared one, a schema could hold itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from target_spark_delta.limits import MOST_LEVELS, MOST_PARTS, TooLargeError, parts_in, too_deep

_SINGLE = ("items", "contains", "propertyNames", "not", "if", "then", "else")
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "patternProperties")
_MAYBE = ("additionalProperties", "unevaluatedProperties", "unevaluatedItems")

_Waiting = list[tuple[Any, int, tuple[str, ...]]]


def with_references(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON Schema with its references replaced; one to itself becomes any value."""
    check_references(schema)
    resolved: dict[str, Any] = _replaced(schema, _resolver(schema), ())
    return resolved


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
    return {name: _part(name, part, within) for name, part in node.items()}


def _part(name: str, part: Any, within: Any) -> Any:
    if name in _NAMED and isinstance(part, Mapping):
        return {key: within(value) for key, value in part.items()}
    if name in _LISTED and isinstance(part, list):
        return [within(value) for value in part]
    return within(part) if name in (*_SINGLE, *_MAYBE) else part


def _resolver(schema: Mapping[str, Any]) -> Any:
    return Registry().with_resource("", DRAFT202012.create_resource(schema)).resolver()


def check_references(schema: Mapping[str, Any]) -> None:
    """Refuse a JSON Schema whose references, each replaced by what it refers to, are too much."""
    resolver = _resolver(schema)
    known: dict[str, Any] = {}
    waiting: _Waiting = [(_without_definitions(schema), 1, ())]
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


def _without_definitions(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what counts only where it is referred to."""
    return {name: part for name, part in schema.items() if name not in ("definitions", "$defs")}
