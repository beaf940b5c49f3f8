"""Debezium's events: what the events of a topic look like, and the rows that they speak of.

An event is JSON, with its Connect schema beside the payload or without one.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from singer_spark.errors import SchemaError
from singer_spark.names import literal, quote
from singer_spark.types import parse_datatype, to_ddl
from tap_spark_source.plan.read_plan import DELETED_AT
from tap_spark_source.sources.kafka.connect import Field, field_of

HAS_ROW = (
    "coalesce(get_json_object(cast(value as string), '$.payload.after'), "
    "get_json_object(cast(value as string), '$.after')) is not null"
)
_LARGE = "lacks a large value that did not change (set REPLICA IDENTITY FULL in the database)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event as Python reads it: only to learn what the events of a topic look like."""

    schema: Mapping[str, Any] | None
    payload: Mapping[str, Any]
    keys: tuple[str, ...]

    def image(self, name: str) -> Mapping[str, Any]:
        """Return the row before or after the event, empty where that is not told."""
        found = self.payload.get(name)
        return found if isinstance(found, dict) else {}


def read_event(key: str | None, value: str | None) -> Event | None:
    """Return an event, or None where the value is a tombstone or something else."""
    document = _object(value)
    schema = document.get("schema") if "payload" in document else None
    payload = document.get("payload", document)
    if not isinstance(payload, dict) or "op" not in payload or "after" not in payload:
        return None
    names = _object(key)
    names = names["payload"] if isinstance(names.get("payload"), dict) else names
    schema = schema if isinstance(schema, dict) else None
    return Event(schema=schema, payload=payload, keys=tuple(names))


def _object(text: str | None) -> dict[str, Any]:
    try:
        document = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def have_schema(events: Sequence[Event]) -> bool:
    """Say whether the events tell the types of their columns."""
    return any(event.schema for event in events)


def tell_types(events: Sequence[Event]) -> bool:
    """Say whether there is more than keys of deleted rows to learn types from."""
    rows = [(event, event.image("before")) for event in events]
    others = [row[name] for event, row in rows for name in row if name not in event.keys]
    is_told = have_schema(events) or any(event.image("after") for event in events)
    return is_told or not others or any(value is not None for value in others)


def keys_of(events: Sequence[Event]) -> tuple[str, ...]:
    """Return the names of the key, as the newest event has it."""
    return next((event.keys for event in events), ())


def fields_of(events: Sequence[Event], topic: str = "the topic") -> list[Field]:
    """Return the columns: by the newest schema, or guessed where no event carries one."""
    try:
        for event in events:
            for part in (event.schema or {}).get("fields", ()):
                if part.get("field") == "after":
                    return [field_of(one) for one in part["fields"]]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SchemaError(
            f"{topic}: the schema of an event is none of a table's rows ({type(error).__name__} "
            f"{error}); name the columns' types in the option schema, or leave the topic out"
        ) from error
    if any(not isinstance(event.payload.get("after"), (dict, NoneType)) for event in events):
        raise SchemaError(f"{topic}: the events hold no rows of a table; leave the topic out")
    return guessed_fields([event.image(name) for event in events for name in ("after", "before")])


def guessed_fields(rows: Sequence[Mapping[str, Any]]) -> list[Field]:
    """Guess the columns from rows without a schema: whole numbers, numbers, truths, or texts."""
    kinds: dict[str, set[type]] = {}
    for row in rows:
        for name, value in row.items():
            kinds.setdefault(name, set())
            if value is not None:
                kinds[name].add(type(value))
    return [Field(name=name, json_type=_guess(found)) for name, found in kinds.items()]


def _guess(kinds: set[type]) -> str:
    if kinds in ({bool}, {int}):
        return "boolean" if bool in kinds else "bigint"
    return "double" if kinds and kinds <= {int, float} else "string"


def changes(
    events: DataFrame,
    fields: Sequence[Field],
    keys: Sequence[str],
    where: str | None = None,
    *,
    has_own_key: bool = False,
    selected: Container[str] | None = None,
) -> DataFrame:
    """Return the rows that events put in place, and the keys of those that they removed.

    A row that an update leaves without the condition is gone for those who asked for it. A
    tombstone for which `is_orphan` is set is a deletion. An event that cannot be read is an error
    that says where it is. Where the key is not that of the messages, Debezium does not tell a
    change of it as a deletion and a row, and so it is made of the row before the update. A large
    value is missed only in columns that are selected, in any of them where there is a condition.
    """
    row = ", ".join(f"{quote(field.name)}: {field.json_type}" for field in fields)
    inside = (
        f"before: struct<{row}>, after: struct<{row}>, op: string, ts_ms: bigint, "
        "source: struct<ts_ms: bigint>"
    )
    key = ", ".join(f"{quote(one.name)}: {one.json_type}" for one in fields if one.name in keys)
    parsed = events.selectExpr(
        *("topic", "partition", "offset", "timestamp", "value is null as is_tombstone"),
        "is_orphan" if "is_orphan" in events.columns else "false as is_orphan",
        f"{_from_json('value', f'payload: struct<{inside}>, {inside}')} as j",
        f"{_from_json('key', f'payload: struct<{key}>, {key}')} as k" if key else "null as k",
    )
    plain = "if(j.op is null, null, struct(j.before, j.after, j.op, j.ts_ms, j.source))"
    found = parsed.selectExpr("*", f"coalesce(j.payload, {plain}) as e")
    place = "concat('event ', offset, ' of partition ', partition, ' of topic ', topic, ' ', p)"
    needed = [one for one in fields if where or selected is None or one.name in selected]
    checked = found.selectExpr("*", f"{_problem(needed, keys)} as p").selectExpr(
        f"if(p is null, e, raise_error({place})) as e",
        "k",
        "timestamp",
        f"{_is_told_by_key(keys)} as is_orphan",
    )
    images = f"if({_moves(keys)}, array(true, false), array(false))"
    is_old = f"explode({images})" if has_own_key else "false"
    checked = checked.selectExpr("*", f"{is_old} as is_old")
    raw = checked.selectExpr(
        *(f"{_raw(field, keys)} as _{number}" for number, field in enumerate(fields)),
        "coalesce(timestamp_millis(coalesce(e.source.ts_ms, e.ts_ms)), timestamp) as _sdc_told_at",
        "if(is_orphan or is_old, 'd', e.op) as _sdc_op",
    )
    values = (f"{one.value(f'_{at}')} as {quote(one.name)}" for at, one in enumerate(fields))
    rows = raw.selectExpr(*values, "_sdc_told_at", "_sdc_op")
    wanted = f"coalesce(({where}), false)" if where else "true"
    # Other tombstones and messages are passed over only here: Spark may check a condition before
    # another, and so raise the error of an event that an earlier one would have left out.
    told = f"_sdc_op in ('d', 'u') or _sdc_op in ('c', 'r') and {wanted}"
    own = DELETED_AT if any(field.name == DELETED_AT for field in fields) else "null"
    return rows.where(told).selectExpr(
        *(quote(field.name) for field in fields if field.name != DELETED_AT),
        f"coalesce({own}, if(_sdc_op = 'd' or not {wanted}, _sdc_told_at, null)) as {DELETED_AT}",
    )


def look(events: DataFrame) -> DataFrame:
    """Return where the events of a partition begin to have another schema, and lonely tombstones.

    Of the first the hash of the schema is told. Debezium writes a tombstone right behind a
    deletion; where a topic is compacted the deletion goes, and the tombstone alone tells of it.
    """
    text = "cast(value as string)"
    op = f"coalesce(get_json_object({text}, '$.payload.op'), get_json_object({text}, '$.op'))"
    narrow = events.selectExpr(
        *("partition", "offset", "key", "value is null and key is not null as is_tombstone"),
        f"{op} as op",
        f"if({op} in ('c', 'u', 'd', 'r'), md5(get_json_object({text}, '$.schema')), null) schema",
    )
    order = "over (partition by partition order by offset"
    before = f"last(schema, true) {order} rows between unbounded preceding and 1 preceding)"
    follows = f"lag(key) {order}) <=> key and lag(op) {order}) <=> 'd'"
    found = narrow.selectExpr(
        "cast(partition as string) as part",
        "offset",
        f"if(schema is distinct from {before}, schema, null) as schema",
        f"is_tombstone and not ({follows}) as is_orphan",
    )
    return found.where("schema is not null or is_orphan")


def _from_json(column: str, fields: str) -> str:
    schema = literal(f"struct<{fields}, _corrupt: string>")
    options = "map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '_corrupt')"
    return f"from_json(cast({column} as string), {schema}, {options})"


def _raw(field: Field, keys: Sequence[str]) -> str:
    """Return a value as the event holds it; of a deleted row there is only the key."""
    name = quote(field.name)
    if field.name not in keys:
        return f"if(is_old, null, e.after.{name})"
    return f"if(is_orphan or is_old or e.op = 'd', {_gone(field.name)}, e.after.{name})"


def _moves(keys: Sequence[str]) -> str:
    """Say whether an update gives a row another key, and tells the old one."""
    names = [quote(key) for key in keys]
    told = [f"e.before.{name} is not null" for name in names]
    same = " and ".join(f"e.before.{name} <=> e.after.{name}" for name in names)
    conditions = " and ".join(["e.op = 'u'", *told])
    return f"coalesce({conditions} and not ({same}), false)"


def _gone(key: str) -> str:
    """Return a part of the key of a deleted row."""
    name = quote(key)
    return f"coalesce(e.before.{name}, k.payload.{name}, k.{name})"


def _is_told_by_key(keys: Sequence[str]) -> str:
    """Say whether a tombstone is a deletion whose key can be read."""
    known = (f"coalesce(k.payload.{quote(key)}, k.{quote(key)}) is not null" for key in keys)
    return f"coalesce({' and '.join(['is_orphan', *known])}, false)" if keys else "false"


def _keyless(keys: Sequence[str]) -> tuple[str, str]:
    if not keys:
        return "e.op = 'd'", "deletes a row, and the stream has no key"
    unknown = " or ".join(f"{_gone(key)} is null" for key in keys)
    return f"e.op = 'd' and ({unknown})", "deletes a row, and does not tell its whole key"


def _problem(fields: Sequence[Field], keys: Sequence[str]) -> str:
    """Return SQL that says what is wrong with an event, null where nothing is."""
    missing = is_unavailable([(f"e.after.{quote(one.name)}", one.json_type) for one in fields])
    rules = [
        ("j is null or j._corrupt is not null", "is no JSON of the columns' types"),
        ("e.op is null", "is no event of Debezium"),
        ("e.op = 't'", "empties the table, which records cannot say"),
        ("e.op not in ('c', 'u', 'd', 'r')", "has an operation that is unknown"),
        ("e.op <> 'd' and e.after is null", "carries no row"),
        *([(missing, _LARGE)] if missing else []),
        _keyless(keys),
    ]
    cases = " ".join(f"when {condition} then {literal(text)}" for condition, text in rules)
    return f"case when is_tombstone or e.op = 'm' then null {cases} end"


_TEXT = "__debezium_unavailable_value"
_BYTES = _TEXT.encode()
# One text as it is, as bytes, and as the UUID that Java makes of a name.
_TEXTS = (
    _TEXT,
    base64.b64encode(_BYTES).decode(),
    str(uuid.UUID(bytes=hashlib.md5(_BYTES, usedforsecurity=False).digest(), version=3)),
)
_ARRAYS = (*([text] for text in _TEXTS), list(_BYTES))
# Without a schema, arrays and maps are read as the JSON that they are.
_ALL_TEXTS = (
    *_TEXTS[:2],
    *(json.dumps(value, separators=(",", ":")) for value in (*_ARRAYS, {_TEXT: _TEXT})),
)


def is_unavailable(values: Sequence[tuple[str, str]]) -> str | None:
    """Return SQL that is true where one of the values is missing, None where none can be.

    Each value is SQL, and has its type in the event's JSON.
    """
    parsed = [(value, parse_datatype(kind)) for value, kind in values]
    texts = [value for value, kind in parsed if isinstance(kind, T.StringType)]
    missing = (_is_missing(value, kind) for value, kind in parsed if kind)
    conditions = [condition for condition in missing if condition]
    if texts:
        marks = ", ".join(map(literal, _ALL_TEXTS))
        conditions.append(f"arrays_overlap(array({', '.join(texts)}), array({marks}))")
    return " or ".join(conditions) or None


def _is_missing(value: str, kind: T.DataType) -> str | None:
    if isinstance(kind, T.ArrayType):
        if isinstance(kind.elementType, T.StringType):
            marks = ", ".join(f"array({literal(text)})" for text in _TEXTS)
            return f"{value} in ({marks})"
        if isinstance(kind.elementType, T.IntegralType):
            codes = ", ".join(map(str, _BYTES))
            return f"{value} = cast(array({codes}) as {to_ddl(kind)})"
    is_of_texts = isinstance(kind, T.MapType) and isinstance(kind.valueType, T.StringType)
    return f"{value}[{literal(_TEXT)}] = {literal(_TEXT)}" if is_of_texts else None
