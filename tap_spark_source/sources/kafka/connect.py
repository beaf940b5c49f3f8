"""Kafka Connect's types: what a schema says of a value in JSON, and the SQL that reads it.

Numbers and texts stand for richer types, which only the schema names: days since 1970, bytes of a
decimal, ….
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import types as T

from singer_spark.errors import SchemaError
from singer_spark.names import literal, quote
from singer_spark.shown import A_VALUE, shows_values
from singer_spark.types import MAX_STRUCT_DEPTH, parse_datatype, to_ddl
from tap_spark_source.dialects.base import (
    DECIMAL_HINT,
    NO_SCALE,
    OTHER_KIND,
    OUT_OF_RANGE,
    PLAIN,
    TOO_FINE,
    Reading,
    exact_time,
)

MOST_DIGITS = 38
# PostgreSQL's is the largest: 16383 digits behind the point.
_MOST_SCALE = 16_383
_HEX = "0123456789ABCDEF"
# Microseconds of the years 1 and 9999.
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999


Value = Callable[[str], str]


def as_it_is(held: str) -> str:
    """Take a value as the JSON holds it."""
    return held


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A column of the events: its type in their JSON, and what its value means.

    `value` returns the SQL of the value, of the SQL of what the JSON holds. Names come from
    whoever writes to the topic: no text that holds one is ever filled in as a template.
    """

    name: str
    json_type: str
    value: Value = as_it_is
    native: str = ""


def _is_plain(value: Value) -> bool:
    return value("v") == "v"


def _exact_time(datatype: str) -> Value:
    return lambda held: exact_time(datatype).replace("{}", held)


def _date(held: str) -> str:
    return f"cast({held} as date)"


def _binary(held: str) -> str:
    return f"unbase64({held})"


def _days(held: str) -> str:
    return (
        f"if({held} not between -719162 and 2932896, "
        f"raise_error(concat({held}, ' {OUT_OF_RANGE}')), date_from_unix_date({held}))"
    )


def _moment(micros: str, held: str) -> str:
    """Return a point in time of no zone, from the microseconds since 1970."""
    return (
        f"if({micros} not between {_FIRST} and {_LAST}, "
        f"raise_error(concat({held}, ' {OUT_OF_RANGE}')), "
        f"cast(timestamp_micros({micros}) as timestamp_ntz))"
    )


def _whole_micros(nanos: str, result: str) -> str:
    return f"if({nanos} % 1000 <> 0, raise_error(concat({nanos}, ' ns {TOO_FINE}')), {result})"


def _time_of_day(micros: str) -> str:
    # Not by a calendar: MySQL's times can be negative, or longer than a day.
    hours = "cast(t div 3600000000 as string)"
    parts = (
        f"lpad({hours}, greatest(2, length({hours})), '0'), ':', "
        f"{_padded('(t div 60000000) % 60', 2)}, ':', "
        f"{_padded('(t div 1000000) % 60', 2)}, '.', {_padded('t % 1000000', 6)}"
    )
    signed = f"concat(if({micros} < 0, '-', ''), {parts})"
    return f"transform(array(abs({micros})), t -> {signed})[0]"


def _padded(number: str, digits: int) -> str:
    return f"lpad(cast({number} as string), {digits}, '0')"


_SEMANTIC: dict[str, tuple[str, Value]] = {
    "io.debezium.time.Date": ("int", _days),
    "org.apache.kafka.connect.data.Date": ("int", _days),
    "io.debezium.time.Timestamp": ("bigint", lambda held: _moment(f"{held} * 1000", held)),
    "org.apache.kafka.connect.data.Timestamp": (
        "bigint",
        lambda held: _moment(f"{held} * 1000", held),
    ),
    "io.debezium.time.MicroTimestamp": ("bigint", lambda held: _moment(held, held)),
    "io.debezium.time.NanoTimestamp": (
        "bigint",
        lambda held: _whole_micros(held, _moment(f"({held} div 1000)", held)),
    ),
    "io.debezium.time.Time": ("bigint", lambda held: _time_of_day(f"({held} * 1000)")),
    "org.apache.kafka.connect.data.Time": (
        "bigint",
        lambda held: _time_of_day(f"({held} * 1000)"),
    ),
    "io.debezium.time.MicroTime": ("bigint", _time_of_day),
    "io.debezium.time.NanoTime": (
        "bigint",
        lambda held: _whole_micros(held, _time_of_day(f"({held} div 1000)")),
    ),
    "io.debezium.time.ZonedTimestamp": ("string", _exact_time("timestamp")),
    "io.debezium.time.IsoDate": ("string", _date),
    "io.debezium.time.IsoTimestamp": ("string", _exact_time("timestamp_ntz")),
}
_VARIABLE_SCALE = "io.debezium.data.VariableScaleDecimal"
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_PLAIN: dict[str, tuple[str, Value]] = {
    "int8": ("tinyint", as_it_is),
    "int16": ("smallint", as_it_is),
    "int32": ("int", as_it_is),
    "int64": ("bigint", as_it_is),
    "float": ("float", as_it_is),
    "double": ("double", as_it_is),
    "boolean": ("boolean", as_it_is),
    "string": ("string", as_it_is),
    "bytes": ("string", _binary),
}


def field_of(schema: Mapping[str, Any], *, name: str | None = None, depth: int = 0) -> Field:
    """Read one field of a Connect schema."""
    json_type, value = _reading(schema, depth)
    native = str(schema.get("name") or schema.get("type"))
    return Field(name=name or str(schema["field"]), json_type=json_type, value=value, native=native)


def _reading(schema: Mapping[str, Any], depth: int) -> tuple[str, Value]:
    """Return the type of a value in JSON, and what it means."""
    semantic, kind = schema.get("name"), schema.get("type")
    if semantic == _DECIMAL:
        return "string", _decimal(schema.get("parameters") or {})
    if semantic == _VARIABLE_SCALE:
        # Written out, a number of any scale at all would fill Spark's memory.
        problem = f"concat(v.scale, ' {NO_SCALE}')"
        number = (
            f"if(v.scale not between -{_MOST_SCALE} and {_MOST_SCALE}, raise_error({problem}), "
            f"if(v is null, null, {_pointed(_unscaled('v.value'), 'v.scale')}))"
        )
        return "struct<scale: int, value: string>", lambda held: _bound(held, number)
    if semantic in _SEMANTIC:
        return _SEMANTIC[semantic]
    if kind in _PLAIN:
        return _PLAIN[str(kind)]
    if depth >= MAX_STRUCT_DEPTH:
        raise SchemaError(
            f"an event is nested deeper than {MAX_STRUCT_DEPTH} levels; leave the topic out, or "
            "name its columns in the option schema"
        )
    return _nested(schema, depth + 1)


def _nested(schema: Mapping[str, Any], depth: int) -> tuple[str, Value]:
    kind = schema.get("type")
    if kind == "struct":
        return _struct([field_of(one, depth=depth) for one in schema["fields"]])
    if kind == "array":
        item, value = _reading(schema["items"], depth)
        each = value("v")
        made: Value = lambda held: f"transform({held}, v -> {each})"  # noqa: E731
        return f"array<{item}>", as_it_is if _is_plain(value) else made
    if kind == "map":
        item, value = _reading(schema["values"], depth)
        each = value("v")
        made = lambda held: f"transform_values({held}, (k, v) -> {each})"  # noqa: E731
        return f"map<string, {item}>", as_it_is if _is_plain(value) else made
    raise SchemaError(f"type {kind} of an event is unknown; name it in the option schema")


def _struct(fields: Sequence[Field]) -> tuple[str, Value]:
    inner = ", ".join(f"{quote(field.name)}: {field.json_type}" for field in fields)
    if all(_is_plain(field.value) for field in fields):
        return f"struct<{inner}>", as_it_is
    parts = ", ".join(
        f"{field.value(f'v.{quote(field.name)}')} as {quote(field.name)}" for field in fields
    )
    made = f"if(v is null, null, struct({parts}))"
    return f"struct<{inner}>", lambda held: _bound(held, made)


def _bound(expression: str, body: str) -> str:
    """Give a value the name v, so that it is computed once."""
    return f"transform(array({expression}), v -> {body})[0]"


def _decimal(parameters: Mapping[str, Any]) -> Value:
    scale = int(parameters.get("scale", 0))
    precision = int(parameters.get("connect.decimal.precision", MOST_DIGITS))
    if precision < 1 or not 0 <= scale <= MOST_DIGITS:
        raise ValueError(f"a decimal of {precision} digits, {scale} of them behind the point")
    kind = f"decimal({max(min(precision, MOST_DIGITS), scale)},{scale})"
    return lambda held: f"cast({_pointed(_unscaled(held), str(scale))} as {kind})"


def _unscaled(text: str) -> str:
    """Return the whole number whose two's complement the base64 text holds, at most 38 digits."""
    folded = (
        "aggregate(regexp_extract_all(d, '(.)', 1), cast(0 as decimal(38,0)), "
        f"(a, x) -> cast(a * 16 + (instr('{_HEX}', x) - 1) as decimal(38,0)))"
    )
    # A negative number is turned over bit by bit, so that 38 digits suffice for it as well; not
    # by a minus sign, which Spark rounds to 34 digits.
    number = (
        f"transform(array(if(h >= '8', translate(h, '{_HEX}', '{_HEX[::-1]}'), h)), "
        f"d -> if(h >= '8', cast(-1 as decimal(38,0)) - {folded}, {folded}))[0]"
    )
    return f"transform(array(hex(unbase64({text}))), h -> {number})[0]"


def _pointed(number: str, scale: str) -> str:
    """Write a whole number with a decimal point before its last digits."""
    plain = "ltrim('-', cast(u as string))"
    digits = f"lpad({plain}, greatest(length({plain}), {scale} + 1), '0')"
    text = (
        f"concat(if(u < 0, '-', ''), if({scale} > 0, concat("
        f"left({digits}, length({digits}) - {scale}), '.', right({digits}, {scale})), "
        f"concat({plain}, repeat('0', -{scale}))))"
    )
    return f"transform(array({number}), u -> {text})[0]"


def given_field(name: str, datatype: str) -> Field:
    """Read a column that the user describes, by a Spark type or by Connect's name of a type."""
    if datatype in _SEMANTIC:
        return field_of({"type": "", "name": datatype}, name=name)
    parsed = parse_datatype(datatype)
    if parsed is None:
        raise SchemaError(
            f"{name}: {datatype} is neither a Spark type nor one that Debezium names; correct it "
            "in the option schema"
        )
    if datatype == "binary":
        return Field(name=name, json_type="string", value=_binary, native=datatype)
    if datatype in ("timestamp", "timestamp_ntz"):
        return Field(name=name, json_type="string", value=_exact_time(datatype), native=datatype)
    if datatype == "date":
        return Field(name=name, json_type="string", value=_date, native=datatype)
    if isinstance(parsed, T.DecimalType) and parsed.precision < MOST_DIGITS:
        return _given_decimal(name, parsed)
    return Field(name=name, json_type=to_ddl(parsed), native=datatype)


def _given_decimal(name: str, wanted: T.DecimalType) -> Field:
    """Read all digits that there is room for: Spark would round those that the type lacks."""
    native = to_ddl(wanted)
    wide = f"decimal({MOST_DIGITS},{MOST_DIGITS - wanted.precision + wanted.scale})"
    return Field(name=name, json_type=wide, value=_exactly(as_it_is, native, name), native=native)


def carried(
    newest: Sequence[Field], older: Sequence[Field], types: Mapping[str, str]
) -> tuple[Field, ...]:
    """Read events of an older schema as values of the newest one's types.

    Args:
        newest: The columns as they are now.
        older: The columns as the events tell them.
        types: The Spark types of the columns as they are now.
    """
    told = {field.name: field for field in older}
    return tuple(_carried(field, told.get(field.name, field), types) for field in newest)


def _carried(newest: Field, older: Field, types: Mapping[str, str]) -> Field:
    if (older.json_type, older.value("v")) == (newest.json_type, newest.value("v")):
        return newest
    value = _exactly(older.value, types[newest.name], newest.name)
    return replace(newest, json_type=older.json_type, value=value)


def _exactly(value: Value, datatype: str, name: str) -> Value:
    """Cast a value where that loses nothing; else it is an error."""
    told = "cast(v as string)" if shows_values() else literal(A_VALUE)
    problem = f"concat({literal(f'{name}: ')}, {told}, {literal(f' {OTHER_KIND}')})"
    cast = f"try_cast(v as {datatype})"
    exact = f"if(v is null or {cast} = v, {cast}, raise_error({problem}))"
    return lambda held: _bound(value(held), exact)


def hint_of(native: str) -> Reading:
    """Say what a text stands for, where it is a number without bounds."""
    return Reading(hint=DECIMAL_HINT) if native == _VARIABLE_SCALE else PLAIN
