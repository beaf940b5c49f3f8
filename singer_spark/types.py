"""JSON Schema to Spark types and back, one table in two directions; and Spark types as text.

`x-sql-datatype` carries the exact Spark type and wins over everything else, so a table goes from
tap to target unchanged. Nothing here needs a running session.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from pyspark.sql import types as T

from singer_spark.errors import SchemaError
from singer_spark.names import literal, quote

SQL_DATATYPE = "x-sql-datatype"
MAX_DEPTH = 500
# So many levels become structs and arrays, and what is deeper text: each is an iteration of Spark's
# analyzer, which gives up after 100; other readers of Delta fail beyond 41 levels, and the client
# of Spark Connect at some 32 (three messages a level, and protobuf reads 100).
MAX_STRUCT_DEPTH = 30
# Schemas are walked by recursion, and Python's own limit ends at a third of that depth.
sys.setrecursionlimit(max(sys.getrecursionlimit(), 20 * MAX_DEPTH))
_BIG_INTEGER = T.DecimalType(38, 0)
_DECIMAL_FORMATS = {"singer.decimal", "x-singer.decimal"}
_STRING_FORMATS: dict[str, T.DataType] = {
    "date-time": T.TimestampType(),
    "date": T.DateType(),
}
_SIMPLE: dict[str, T.DataType] = {"boolean": T.BooleanType(), "string": T.StringType()}

# Spark type -> the JSON Schema that describes its values on the wire.
_WIRE: dict[type[T.DataType], dict[str, Any]] = {
    T.BooleanType: {"type": "boolean"},
    T.ByteType: {"type": "integer"},
    T.ShortType: {"type": "integer"},
    T.IntegerType: {"type": "integer"},
    T.LongType: {"type": "integer"},
    T.FloatType: {"type": "number"},
    T.DoubleType: {"type": "number"},
    T.DecimalType: {"type": "number"},
    T.StringType: {"type": "string"},
    T.BinaryType: {"type": "string", "contentEncoding": "base64"},
    T.DateType: {"type": "string", "format": "date"},
    T.TimestampType: {"type": "string", "format": "date-time"},
    # No format: `date-time` demands an offset, and validators refuse a text without one.
    T.TimestampNTZType: {"type": "string"},
}
_ATOMS = {kind().simpleString(): kind() for kind in _WIRE if kind is not T.DecimalType}
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|[A-Za-z_][\w$-]*|\d+|[<>(),:])")


def parse_datatype(text: str) -> T.DataType | None:
    """Return the Spark type that the text names, or None where it names none of ours."""
    tokens = _TOKEN.findall(text)[::-1]  # so that pop() takes them in order
    try:
        datatype = _datatype(tokens)
    except (IndexError, KeyError, ValueError):
        return None
    return None if tokens or _TOKEN.sub("", text).strip() else datatype


def _take(tokens: list[str], *wanted: str | Callable[[list[str]], Any]) -> list[Any]:
    """Take tokens: a text must be the next one, a function reads what stands there."""
    values = []
    for one in wanted:
        if not isinstance(one, str):
            values.append(one(tokens))
        elif tokens.pop() != one:
            raise ValueError(one)
    return values


def _datatype(tokens: list[str]) -> T.DataType:
    name = tokens.pop().lower()
    if name == "decimal":
        precision, scale = _take(tokens, "(", _digits, ",", _digits, ")")
        if not 0 <= scale <= precision <= 38:
            raise ValueError(precision)
        return T.DecimalType(precision, scale)
    if name == "array":
        return T.ArrayType(*_take(tokens, "<", _datatype, ">"))
    if name == "map":
        key, value = _take(tokens, "<", _datatype, ",", _datatype, ">")
        if isinstance(key, (T.StructType, T.ArrayType, T.MapType)):
            raise ValueError(name)  # JSON has no such names
        return T.MapType(key, value)
    return _struct(tokens) if name == "struct" else _ATOMS[name]


def _digits(tokens: list[str]) -> int:
    return int(tokens.pop())


def _struct(tokens: list[str]) -> T.StructType:
    _take(tokens, "<")
    fields: list[T.StructField] = []
    while True:
        name = tokens.pop()
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        fields.append(T.StructField(name, *_take(tokens, ":", _datatype)))
        if tokens.pop() == ">":
            return T.StructType(fields)


def to_ddl(datatype: T.DataType, *, comments: bool = False) -> str:
    """Write a Spark type as SQL; the only way, because here every nested name is quoted."""
    write = partial(to_ddl, comments=comments)
    if isinstance(datatype, T.StructType):
        fields = ",".join(
            f"{quote(field.name)}:{write(field.dataType)}{comment_ddl(field) if comments else ''}"
            for field in datatype
        )
        return f"struct<{fields}>"
    if isinstance(datatype, T.ArrayType):
        return f"array<{write(datatype.elementType)}>"
    if isinstance(datatype, T.MapType):
        return f"map<{write(datatype.keyType)},{write(datatype.valueType)}>"
    return datatype.simpleString()


def comment_ddl(field: T.StructField) -> str:
    """Write a field's comment as SQL, if it has one."""
    comment = field.metadata.get("comment")
    return f" comment {literal(comment)}" if comment else ""


def column_names(datatype: T.DataType) -> Iterable[str]:
    """Name all columns, those inside structs too."""
    if isinstance(datatype, T.StructType):
        for column in datatype:
            yield column.name
            yield from column_names(column.dataType)
    elif isinstance(datatype, T.ArrayType):
        yield from column_names(datatype.elementType)
    elif isinstance(datatype, T.MapType):
        yield from column_names(datatype.valueType)


def to_spark_type(schema: Mapping[str, Any], *, where: str = "", depth: int = 0) -> T.DataType:
    """Return the Spark type of a JSON Schema property, `$ref` already resolved.

    `where` names it in messages, `depth` is how many levels of nesting are above it.
    """
    if depth > MAX_DEPTH:
        raise SchemaError(
            f"{where[:40]}…: nested deeper than {MAX_DEPTH} levels; flatten it in the tap"
        )
    exact = schema.get(SQL_DATATYPE)
    if isinstance(exact, str) and (parsed := parse_datatype(exact)) is not None:
        return parsed
    union = _nullable_union(schema)
    if union is not None:
        return to_spark_type(union, where=where, depth=depth)
    kinds = _kinds(schema)
    nested = _nested(kinds, schema, where=where, depth=depth + 1)
    if nested is None:
        return _scalar(kinds, schema)
    return nested if depth < MAX_STRUCT_DEPTH else T.StringType()


def _nested(
    kinds: set[str], schema: Mapping[str, Any], *, where: str, depth: int
) -> T.DataType | None:
    """Return the type of an object with properties or of an array, None for anything else."""
    properties, items = schema.get("properties"), schema.get("items")
    if kinds == {"object"} and properties and isinstance(properties, Mapping):
        return to_struct(schema, where=where, depth=depth)
    if kinds != {"array"}:
        return None
    if not isinstance(items, Mapping):
        return T.ArrayType(T.StringType())
    return T.ArrayType(to_spark_type(items, where=f"{where}[]", depth=depth))


def to_struct(schema: Mapping[str, Any], *, where: str = "", depth: int = 0) -> T.StructType:
    """Return the struct of a JSON Schema object; descriptions become comments."""
    struct, prefix = T.StructType(), f"{where}." if where else ""
    for name, value in schema["properties"].items():
        known = _as_mapping(value)
        datatype = to_spark_type(known, where=f"{prefix}{name}", depth=depth)
        comment = comment_of(known)
        told = None if comment is None else {"comment": comment}
        struct.add(T.StructField(name, datatype, metadata=told))
    return struct


def comment_of(schema: Mapping[str, Any]) -> str | None:
    """Return the description of a JSON Schema, or else its title."""
    text = schema.get("description") or schema.get("title")
    return text if isinstance(text, str) else None


def to_json_schema(datatype: T.DataType, *, singer_decimal: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of a column's values, nullable, with the exact Spark type.

    With `singer_decimal` decimals are texts, for readers that know `x-singer.decimal`.
    """
    inner = partial(to_json_schema, singer_decimal=singer_decimal)
    if isinstance(datatype, T.StructType):
        properties = {field.name: inner(field.dataType) for field in datatype}
        return {"type": ["object", "null"], "properties": properties}
    if isinstance(datatype, T.ArrayType):
        return {"type": ["array", "null"], "items": inner(datatype.elementType)}
    if isinstance(datatype, T.MapType):
        values = inner(datatype.valueType)
        schema: dict[str, Any] = {"type": "object", "additionalProperties": values}
    elif isinstance(datatype, T.DecimalType) and singer_decimal:
        sizes = {"precision": datatype.precision, "scale": datatype.scale}
        schema = {"type": "string", "format": "x-singer.decimal", **sizes}
    else:
        schema = dict(_WIRE.get(type(datatype), {"type": "string"}))
    return {**schema, "type": [schema["type"], "null"], SQL_DATATYPE: to_ddl(datatype)}


def _as_mapping(value: Any) -> Mapping[str, Any]:
    """Read the boolean schemas `true` and `false`, and null, as a property of any type."""
    return value if isinstance(value, Mapping) else {}


def value_kinds(schema: Any) -> set[str]:
    """Name the JSON types that a property allows beside null; none where it allows any."""
    schema = _as_mapping(schema)
    union = _nullable_union(schema)
    return _kinds(schema) if union is None else value_kinds(union)


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    kinds = schema.get("type")
    listed = kinds if isinstance(kinds, list) else [kinds]
    return {kind for kind in listed if isinstance(kind, str)} - {"null"}


def _nullable_union(schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the one alternative of a union that is not null, if there is just one."""
    for keyword in ("anyOf", "oneOf", "allOf"):
        options = schema.get(keyword)
        if "type" in schema or not isinstance(options, list):
            continue
        real = [
            option
            for option in options
            if isinstance(option, Mapping) and option.get("type") not in ("null", ["null"])
        ]
        if len(real) == 1:
            return real[0]
    return None


def _scalar(kinds: set[str], schema: Mapping[str, Any]) -> T.DataType:
    if kinds == {"integer"}:
        return _integer(schema)
    if kinds == {"number"} or kinds == {"number", "integer"}:
        return _number(schema)
    if kinds == {"string"}:
        form = str(schema.get("format"))
        if form in _DECIMAL_FORMATS:
            return _singer_decimal(schema)
        return _STRING_FORMATS.get(form, T.StringType())
    (kind,) = kinds if len(kinds) == 1 else ("string",)
    return _SIMPLE.get(kind, T.StringType())


def _integer(schema: Mapping[str, Any]) -> T.DataType:
    bounds = (schema.get(name, 0) for name in ("minimum", "maximum"))
    known = [one for one in bounds if isinstance(one, (int, float))]
    return T.LongType() if all(-(2**63) <= one < 2**63 for one in known) else _BIG_INTEGER


def _number(schema: Mapping[str, Any]) -> T.DataType:
    step = schema.get("multipleOf")
    if not isinstance(step, (int, float)) or step <= 0:
        return T.DoubleType()
    for scale in range(39):
        if abs(step * 10**scale - 1) < 1e-9:
            # As taps declare numbers without limits: no decimal has room for all of them.
            fits = not any(_is_beyond(schema.get(name), scale) for name in ("minimum", "maximum"))
            return T.DecimalType(38, scale) if fits else T.StringType()
    return T.DoubleType()


def _is_beyond(bound: object, scale: int) -> bool:
    return isinstance(bound, (int, float)) and abs(bound) > 10 ** (38 - scale)


def _singer_decimal(schema: Mapping[str, Any]) -> T.DataType:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision <= 38:
        return T.DecimalType(precision, scale)
    return T.StringType()
