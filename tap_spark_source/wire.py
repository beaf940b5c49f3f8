"""A row as the JSON text of its record: the types that travel, and how they are written."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import types as T

from singer_spark.names import literal, quote
from singer_spark.types import to_ddl

_OPTIONS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSxxx",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "dateFormat": "yyyy-MM-dd",
    "ignoreNullFields": "false",
}
_DATED = (T.DateType, T.TimestampType, T.TimestampNTZType)


def record_json(fields: Iterable[T.StructField], *, singer_decimal: bool) -> str:
    """Return the Spark SQL of a record with these columns."""
    wire = ", ".join(wire_columns(fields, singer_decimal=singer_decimal))
    options = ", ".join(f"{literal(key)}, {literal(value)}" for key, value in _OPTIONS.items())
    return f"to_json(struct({wire}), map({options}))"


def wire_columns(fields: Iterable[T.StructField], *, singer_decimal: bool) -> list[str]:
    """Return the Spark SQL of the columns of a record, each under its own name."""
    return [_wire(field.name, field.dataType, singer_decimal) for field in fields]


def _wire(name: str, datatype: T.DataType, singer_decimal: bool) -> str:
    """Return the column as it travels, under its own name."""
    wanted = _wire_type(datatype, singer_decimal)
    if wanted == datatype:
        return quote(name)
    return f"cast({quote(name)} as {to_ddl(wanted)}) as {quote(name)}"


def _wire_type(datatype: T.DataType, singer_decimal: bool) -> T.DataType:
    """Return the type whose JSON is what the schema promises."""
    if isinstance(datatype, T.ArrayType):
        return T.ArrayType(_wire_type(datatype.elementType, singer_decimal), datatype.containsNull)
    if isinstance(datatype, T.MapType):
        # As a name in JSON Spark writes a date or a time as a bare count.
        key = T.StringType() if isinstance(datatype.keyType, _DATED) else datatype.keyType
        value = _wire_type(datatype.valueType, singer_decimal)
        return T.MapType(key, value, datatype.valueContainsNull)
    if isinstance(datatype, T.StructType):
        return T.StructType(
            [
                T.StructField(
                    field.name, _wire_type(field.dataType, singer_decimal), field.nullable
                )
                for field in datatype.fields
            ]
        )
    as_text = isinstance(datatype, (T.TimeType, T.VariantType, T.NullType)) or (
        singer_decimal and isinstance(datatype, T.DecimalType)
    )
    return T.StringType() if as_text else datatype
