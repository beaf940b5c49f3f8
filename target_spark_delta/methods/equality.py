"""When are rows the same? Null-safe, over all columns that tell something of the source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from singer_spark.errors import RecordError
from singer_spark.names import literal, quote
from singer_spark.types import to_ddl
from target_spark_delta.intake.validation import DELETED_AT
from target_spark_delta.rows.columns import TABLE_VERSION
from target_spark_delta.table.table import Table

_TELLING = {DELETED_AT, TABLE_VERSION}
_JSON_OPTIONS = (
    "map('timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\", "
    "'timestampNTZFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\")"
)


def compared(names: Iterable[str]) -> list[str]:
    """Choose the columns in which a difference is a change."""
    return [name for name in names if not name.startswith("_sdc_") or name in _TELLING]


def comparable(value: str, datatype: T.DataType) -> str:
    """Return SQL for a value that can be compared: maps cannot, their JSON can."""
    if "map<" in datatype.simpleString():
        return f"to_json(named_struct('v', {value}), {_JSON_OPTIONS})"
    return value


def shared_type(now: T.DataType, then: T.DataType) -> T.DataType:
    """Return what two types of a column have in common: of structs the fields that both have."""
    if isinstance(now, T.StructType) and isinstance(then, T.StructType):
        known = {field.name.lower(): field.dataType for field in then}
        return T.StructType(
            [
                T.StructField(field.name, shared_type(field.dataType, known[field.name.lower()]))
                for field in now
                if field.name.lower() in known
            ]
        )
    if isinstance(now, T.ArrayType) and isinstance(then, T.ArrayType):
        return T.ArrayType(shared_type(now.elementType, then.elementType))
    if isinstance(now, T.MapType) and isinstance(then, T.MapType):
        return T.MapType(now.keyType, shared_type(now.valueType, then.valueType))
    return now


def projected(value: str, source: T.DataType | None, target: T.DataType, depth: int = 0) -> str:
    """Return SQL for what can be compared of a value: in another type, maps as sorted lists.

    The type `source` is None where there is no such column; `target` is a `shared_type`.
    """
    if source is None:
        return "null"
    if source == target and "map<" not in source.simpleString():
        return value
    x = f"x{depth}"
    if isinstance(source, T.StructType) and isinstance(target, T.StructType):
        names = {field.name.lower(): field for field in source}
        members = []
        for field in target:
            origin = names[field.name.lower()]
            member = f"{value}.{quote(origin.name)}"
            inner = projected(member, origin.dataType, field.dataType, depth)
            members.append(f"{literal(field.name)}, {inner}")
        return f"if({value} is null, null, named_struct({', '.join(members)}))"
    if isinstance(source, T.ArrayType) and isinstance(target, T.ArrayType):
        item = projected(x, source.elementType, target.elementType, depth + 1)
        return f"transform({value}, {x} -> {item})"
    if isinstance(source, T.MapType) and isinstance(target, T.MapType):
        item = projected(f"{x}.value", source.valueType, target.valueType, depth + 1)
        entry = f"named_struct('k', {x}.key, 'v', {item})"
        return f"array_sort(transform(map_entries({value}), {x} -> {entry}))"
    return f"cast({value} as {to_ddl(target)})"


def holds_same(
    spark: SparkSession, table: Table, schema: T.StructType, rows: DataFrame, *, where: str = "true"
) -> bool:
    """Say whether a part of the table holds just these rows, whatever their order.

    A column that the rows do not have counts as null.
    """
    given = {name.lower() for name in rows.columns}
    names = set(compared(schema.names))
    fields = [field for field in schema if field.name in names]
    before = [comparable(quote(f.name), f.dataType) for f in fields]
    after = [
        sql if field.name.lower() in given else f"cast(null as {to_ddl(field.dataType)})"
        for sql, field in zip(before, fields, strict=True)
    ]
    return not _differ(spark, table, rows, before, after, where=where, having="sum(n) <> 0")


def rows_unknown(where: object, why: str, *, has_key: bool) -> RecordError:
    """Return the error of a table that is not replaced, because rows of it would be lost."""
    way_out = "" if has_key else ", or set key_properties in stream_options,"
    return RecordError(
        f"{where}: {why}, so that nobody knows which rows of its table must stay; the table stays "
        f"as it was; correct them at the source{way_out} and run again"
    )


def holds_all(
    spark: SparkSession, table: Table, schema: T.StructType, rows: DataFrame, *, where: str = "true"
) -> bool:
    """Say whether each row of a part of the table is among others, in the columns of both."""
    types = {field.name.lower(): field.dataType for field in rows.schema}
    names = {name for name in compared(schema.names) if name != TABLE_VERSION}
    fields = [f for f in schema if f.name in names and f.name.lower() in types]
    if not fields:
        return table.rows(spark).where(where).isEmpty()
    # What has another type now is the same only if it reads the same.
    values = [
        comparable(quote(f.name), f.dataType)
        if f.dataType == types[f.name.lower()]
        else f"cast({quote(f.name)} as string)"
        for f in fields
    ]
    return not _differ(spark, table, rows, values, values, where=where, having="sum(n) > 0")


def _differ(
    spark: SparkSession,
    table: Table,
    rows: DataFrame,
    before: Sequence[str],
    after: Sequence[str],
    *,
    where: str,
    having: str,
) -> bool:
    """Compare how often each row is in a part of the table and among other rows.

    `before` is SQL of what is compared of the table's rows, `after` of the others; `having` says
    when rows differ, where `n` is 1 for the table's and -1 for the others.
    """
    rows.createOrReplaceTempView("new_rows")
    there, here = (
        ", ".join(f"{sql} as c{i}" for i, sql in enumerate(side)) for side in (before, after)
    )
    columns = ", ".join(f"c{i}" for i in range(len(before)))
    found = spark.sql(
        # Without a name for the table Spark takes `where (false)` for one.
        f"select 1 from (select {there}, 1 as n from {table.sql} t where {where} "
        f"union all select {here}, -1 from new_rows) group by {columns} having {having} limit 1"
    )
    return not found.isEmpty()
