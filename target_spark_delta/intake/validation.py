"""Does a record fit its schema? A compiled validator decides, jsonschema explains the failures."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jsonschema_rs
import msgspec
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError, best_match
from jsonschema.validators import extend, validator_for
from pyspark.sql import types as T
from singer_sdk.exceptions import MissingKeyPropertiesError

from singer_spark.errors import RecordError, SchemaError
from singer_spark.shown import shows_values
from singer_spark.types import to_spark_type, value_kinds
from target_spark_delta.intake.json_schema import (
    CHECKS,
    LISTED_SCHEMAS,
    NAMED_SCHEMAS,
    dated,
    is_text,
    never_fetch,
    nullable,
    resolved_schema,
    with_whole_numbers,
)

logger = logging.getLogger(__name__)
DELETED_AT = "_sdc_deleted_at"
TOO_MANY_DIGITS = "a whole number has too many digits for any column; fix the data"
_NULL = msgspec.Raw(b"null")
_NOT_FINITE = {"enum": ["NaN", "Infinity", "-Infinity"]}
# Keywords that lead from a value to one inside of it.
_STEPS = ("properties", "additionalProperties", "patternProperties", "items", "prefixItems")
# Rules whose breach is told by names of the schema alone.
_NAME_RULES = ("required", "dependentRequired")
_KINDS: dict[type, str] = {
    bool: "a boolean",
    int: "a whole number",
    float: "a number",
    str: "a text",
    type(None): "null",
    list: "an array",
    object: "an object",
}


class InvalidRecordError(RecordError):
    """A record that its schema forbids; `reason` says why, without the place.

    `told` says it without values of the record. What stands beside the record itself may have them.
    """

    def __init__(self, stream: str, number: int, reason: str, told: str | None = None) -> None:
        self.reason = reason
        self.told = reason if told is None or shows_values() else told
        super().__init__(f"stream {stream}, line {number}: {self.told}")


class MissingKeyError(InvalidRecordError, MissingKeyPropertiesError):
    """A record lacks a property of its key."""


class Validator:
    """Checks the records of one stream: in `full`, or only what the table cannot do without."""

    def __init__(
        self, stream: str, schema: Mapping[str, Any], keys: Sequence[str], *, full: bool
    ) -> None:
        self._stream = stream
        self._keys = tuple(keys)
        self._warned: set[str] = set()
        properties = resolved_schema(schema)["properties"]
        self._properties = frozenset((*properties, DELETED_AT))
        self._never_null = tuple(key for key in keys if not nullable(properties[key]))
        rules = _rules(dated(schema), keys) if full else {"required": list(keys)}
        self._rules = rules
        self._partial_rules = {**rules, "required": list(keys)}
        try:
            self._is_valid = _compiled(rules)
            self._is_valid_partially = _compiled(self._partial_rules)
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise SchemaError(
                f"stream {stream}: its SCHEMA is no valid JSON Schema "
                f"({_schema_problem(schema, error)}); look at the tap"
            ) from error
        self._full = full
        decoder = msgspec.json.Decoder() if full else msgspec.json.Decoder(dict[str, msgspec.Raw])
        self._decode: Callable[[Any], Any] = decoder.decode

    def check(self, raw: msgspec.Raw, number: int, *, partial: bool) -> tuple[dict[str, Any], bool]:
        """Return the record, decoded as far as needed, and whether it is a deletion."""
        try:
            record = self._decode(raw)
        except msgspec.ValidationError:
            record = self._decode_lossy(raw, number) if self._full else None
        if type(record) is not dict:
            raise InvalidRecordError(self._stream, number, "the record is no object")
        deleted_at = record.get(DELETED_AT)
        is_deletion = deleted_at is not None and deleted_at != _NULL
        if not self._full:
            self._check_keys(record, number)
        elif not (self._is_valid_partially if partial or is_deletion else self._is_valid)(record):
            raise self._explain(record, number, partial=partial or is_deletion)
        if not record.keys() <= self._properties:
            self._warn(record)
        return record, is_deletion

    def _decode_lossy(self, raw: msgspec.Raw, number: int) -> Any:
        """Decode a record with numbers beyond every double; their column will judge them."""
        try:
            return msgspec.json.Decoder(float_hook=_nearest_double).decode(raw)
        except msgspec.ValidationError as error:
            raise InvalidRecordError(self._stream, number, TOO_MANY_DIGITS) from error

    def _warn(self, record: Mapping[str, Any]) -> None:
        if unknown := sorted(set(record) - self._properties - self._warned):
            self._warned.update(unknown)
            logger.warning(
                "Stream %s: left out, because its SCHEMA does not declare it: %s",
                self._stream,
                ", ".join(unknown),
            )

    def _check_keys(self, record: Mapping[str, Any], number: int) -> None:
        for key in self._keys:
            if key not in record:
                raise self._missing_key(key, number)
        for key in self._never_null:
            if record[key] == _NULL:
                reason = f"key property {key} is null, which its schema forbids; look at the tap"
                raise InvalidRecordError(self._stream, number, reason)

    def _missing_key(self, key: str, number: int) -> MissingKeyError:
        reason = f"key property {key} is missing; look at the tap"
        return MissingKeyError(self._stream, number, reason)

    def _explain(
        self, record: Mapping[str, Any], number: int, *, partial: bool
    ) -> InvalidRecordError:
        for key in self._keys:
            if key not in record:
                return self._missing_key(key, number)
        broken = _broken_rule(self._partial_rules if partial else self._rules, record)
        fix = "fix the data or its schema"
        reason = f"{broken.path} breaks the rule {broken.rule}: {_shortened(broken.said)}; {fix}"
        keys = f" (key {', '.join(self._keys)})" if self._keys else ""
        told = f"{broken.column} breaks the rule {broken.rule}: {broken.told}{keys}; {fix}"
        return InvalidRecordError(self._stream, number, reason, told)


def _nearest_double(text: str) -> float:
    return max(-sys.float_info.max, min(float(text), sys.float_info.max))


@lru_cache(maxsize=256)
def _matcher(pattern: str) -> Callable[[Any], bool]:
    """Return the engine that decides, for one pattern: its time grows with the text alone.

    That of Python's `re` may double with every letter.
    """
    return jsonschema_rs.validator_for({"pattern": pattern}).is_valid


def _pattern(_: Any, pattern: str, instance: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _matcher(pattern)(instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, Any], instance: Any, _: Any
) -> Iterator[ValidationError]:
    for pattern, rules in patterns.items() if isinstance(instance, dict) else ():
        for name in filter(_matcher(pattern), instance):
            yield from validator.descend(instance[name], rules, path=name, schema_path=pattern)


def _additional(
    validator: Any, rules: Any, instance: Any, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    if "patternProperties" not in schema:
        check: Any = Draft202012Validator.VALIDATORS["additionalProperties"]
        yield from check(validator, rules, instance, schema)


def _left_out(*_: Any) -> Iterator[ValidationError]:
    """Say nothing: the time would grow with the square of the items, or by a foreign pattern."""
    return iter(())


_LINEAR: dict[str, Any] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "unevaluatedProperties": _left_out,
    "uniqueItems": _left_out,
}


class _Broken(NamedTuple):
    """Where a record breaks which rule, and how; and the same in the schema's words alone."""

    path: str
    rule: str
    said: str
    column: str
    told: str


def _broken_rule(rules: Mapping[str, Any], record: Mapping[str, Any]) -> _Broken:
    """Return where a record breaks which rule, and how."""
    validator = extend(  # type: ignore[no-untyped-call]
        validator_for(rules), {**_LINEAR, "additionalProperties": _additional}
    )
    checker = FormatChecker(())
    checker.checkers = {
        **validator.FORMAT_CHECKER.checkers,
        **{name: (check, ()) for name, check in CHECKS.items()},
    }
    checker.checkers.pop("regex", None)
    try:
        error = best_match(validator(rules, format_checker=checker).iter_errors(record))
    except RecursionError:
        error = None
    if error is not None:
        path, rule = error.json_path.removeprefix("$").removeprefix("."), str(error.validator)
        column = _declared_path(error.absolute_schema_path, error.absolute_path)
        found, said, limit = error.instance, error.message, error.validator_value
    else:
        # A rule that is left to the one who decides, or a format that jsonschema checks only with
        # packages that are not installed.
        first = next(iter(_fast_validator(rules).iter_errors(record)))
        path, rule = ".".join(map(str, first.instance_path)), str(first.schema_path[-1])
        column = _declared_path(first.schema_path, first.instance_path)
        found, said, limit = first.instance, first.message, None
    told = said if rule in _NAME_RULES else _told(found, limit)
    return _Broken(path or "the record", rule, said, column or "the record", told)


def _declared_path(rule: Iterable[str | int], instance: Iterable[str | int]) -> str:
    """Name the column that a rule stands at; the keys of a map are values and are left out.

    Args:
        rule: The way through the schema.
        instance: The way through the record, which says where in an array.
    """
    path, steps, places = "", iter(rule), iter(instance)
    for step in steps:
        if step not in _STEPS or (place := next(places, None)) is None:
            continue
        if step == "properties":
            path += f"{'.' if path else ''}{next(steps, '')}"
        else:
            path += f"[{place}]" if step in ("items", "prefixItems") else "{}"
    return path


def _told(found: Any, limit: Any) -> str:
    kind = next(name for kind, name in _KINDS.items() if isinstance(found, kind))
    wanted = "" if limit is None or isinstance(limit, (Mapping, bool)) else f" {json.dumps(limit)}"
    return f"{kind} does not satisfy{_shortened(wanted) or ' it'}"


def _compiled(rules: Mapping[str, Any]) -> Callable[[Any], bool]:
    return _fast_validator(rules).is_valid


def _fast_validator(rules: Mapping[str, Any]) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(
        dict(rules), validate_formats=True, formats=CHECKS, retriever=never_fetch
    )


def _schema_problem(schema: Mapping[str, Any], found: Exception) -> str:
    """Say where a JSON Schema is none, and why; `found` is what its rules gave."""
    try:
        jsonschema_rs.meta.validate(dated(schema))
    except ValueError as error:
        found = error
    path = ".".join(map(str, getattr(found, "instance_path", ())))
    said = getattr(found, "message", str(found))
    return f"{path}: {said}" if path else said


def _shortened(text: str, most: int = 200) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _rules(schema: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Return the schema as it is to be enforced."""
    rules: dict[str, Any] = _relaxed(schema, draft_4="/draft-04/" in str(schema.get("$schema")))
    required = rules.get("required", [])
    if isinstance(required, list):
        rules["required"] = list(dict.fromkeys([*required, *keys]))
    if rules.get("additionalProperties") is False:
        rules["properties"] = {DELETED_AT: {}, **rules["properties"]}
    return rules


def _relaxed(schema: Any, *, draft_4: bool, in_text: bool = False) -> Any:
    """Drop what is checked elsewhere, and let the numbers that JSON lacks into double columns.

    Alternatives of a column of texts are not cast, so their formats are checked here.
    """
    within = partial(_relaxed, draft_4=draft_4)
    if isinstance(schema, list):
        return [within(item, in_text=in_text) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    declares = "format" in schema or any(name in schema for name in LISTED_SCHEMAS)
    in_text = in_text or (declares and is_text(schema))
    relaxed = {
        name: {key: within(value) for key, value in part.items()}
        if name in NAMED_SCHEMAS and isinstance(part, Mapping)
        else part
        if name in ("enum", "const", "default", "examples")
        else within(part, in_text=in_text and name in LISTED_SCHEMAS)
        for name, part in schema.items()
        if name != "multipleOf"
        and not (name == "format" and (part == "time" or (part in tuple(CHECKS) and not in_text)))
    }
    if draft_4:
        relaxed = with_whole_numbers(relaxed)
    is_double = isinstance(to_spark_type(schema), (T.DoubleType, T.FloatType))
    if "number" in value_kinds(schema) and "type" in schema and is_double:
        return {"anyOf": [relaxed, _NOT_FINITE]}
    return relaxed
