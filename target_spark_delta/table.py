"""One Delta table: where it is, how it is made, how it is altered."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import types as T
from typing_extensions import override

from singer_spark.datatype import to_ddl
from singer_spark.errors import SchemaError
from singer_spark.names import literal, quote, quote_path, table_name
from target_spark_delta.evolve import AddColumn, Change, Widen, changes, unify

logger = logging.getLogger(__name__)

# Parquet cannot name a column with these; Delta then maps names to names of its own.
_NEEDS_MAPPING = re.compile(r"[ ,;{}()\n\t=]")
_MAPPING = {"delta.columnMapping.mode": "name"}
_REWRITE_LIMIT_BYTES = 10 * 10**9


@dataclass(frozen=True, slots=True)
class Table:
    """A table at a path."""

    path: str

    @classmethod
    def of_stream(cls, root: str, schema: str | None, stream: str) -> Table:
        """Return the table of a stream."""
        base = re.sub("^s3://", "s3a://", root) if "://" in root else str(Path(root).absolute())
        parts = [base.rstrip("/"), *([schema] if schema else []), table_name(stream)]
        return cls("/".join(parts))

    @property
    def sql(self) -> str:
        """Name the table in SQL."""
        return f"delta.{quote(self.path)}"

    @override
    def __str__(self) -> str:
        """Name the table in a message."""
        return self.path

    def save(self, writer: DataFrameWriter) -> None:
        """Write rows to the table."""
        writer.save(self.path)

    def rows(self, spark: SparkSession) -> DataFrame:
        """Return the table's rows."""
        return spark.table(self.sql)

    def schema(self, spark: SparkSession) -> T.StructType | None:
        """Return the table's schema, or None where there is no table."""
        try:
            return self.rows(spark).schema
        except AnalysisException as error:
            if error.getCondition() in _MISSING:
                return None
            raise


_MISSING = {
    "DELTA_MISSING_DELTA_TABLE",
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_PATH_DOES_NOT_EXIST",
    "PATH_NOT_FOUND",
    "TABLE_OR_VIEW_NOT_FOUND",
}


def create(
    spark: SparkSession, table: Table, schema: T.StructType, properties: Mapping[str, str]
) -> None:
    """Make an empty table."""
    if _odd_names(schema):
        properties = {**_MAPPING, **properties}
    columns = ", ".join(f"{quote(field.name)} {to_ddl(field.dataType)}" for field in schema)
    spark.sql(f"create table {table.sql} ({columns}) using delta {_properties(properties)}")


def adapt(
    spark: SparkSession,
    table: Table,
    incoming: T.StructType,
    *,
    freeze: bool = False,
    allow_rewrite: bool = False,
) -> T.StructType:
    """Change an existing table so that the incoming columns fit, and return its schema.

    Args:
        spark: The session of the stream, whose commit metadata is set.
        table: The table.
        incoming: The columns to come.
        freeze: Refuse any change.
        allow_rewrite: Rewrite even a large table to widen a column.
    """
    before = table.rows(spark).schema
    after = unify(before, incoming)
    needed = changes(before, after)
    if needed and freeze:
        listed = ", ".join(".".join(change.path) for change in needed)
        raise SchemaError(
            f"{table}: the schema would change ({listed}) and schema_changes is freeze; "
            "change the table or set schema_changes to evolve"
        )
    added = [change for change in needed if isinstance(change, AddColumn)]
    widened = [change for change in needed if isinstance(change, Widen)]
    if added:
        _add_columns(spark, table, added)
    if widened:
        _widen(spark, table, after, widened, allow_rewrite=allow_rewrite)
    return table.rows(spark).schema if needed else before


def _add_columns(spark: SparkSession, table: Table, added: Sequence[AddColumn]) -> None:
    if any(_NEEDS_MAPPING.search(change.path[-1]) for change in added):
        spark.sql(f"alter table {table.sql} set {_properties(_MAPPING)}")
    columns = ", ".join(f"{quote_path(*change.path)} {to_ddl(change.datatype)}" for change in added)
    logger.info("%s: adding %s", table, _listed(added))
    spark.sql(f"alter table {table.sql} add columns ({columns})")


def _widen(
    spark: SparkSession,
    table: Table,
    schema: T.StructType,
    widened: Sequence[Widen],
    *,
    allow_rewrite: bool,
) -> None:
    detail = spark.sql(f"describe detail {table.sql}").toArrow().to_pylist()[0]
    if dict(detail["properties"]).get("delta.enableTypeWidening") == "true":
        for change in widened:
            path, after = quote_path(*change.path), to_ddl(change.after)
            spark.sql(f"alter table {table.sql} alter column {path} type {after}")
        return
    size = detail["sizeInBytes"] or 0
    logger.info("%s: rewriting %d bytes to widen %s", table, size, _listed(widened))
    if size > _REWRITE_LIMIT_BYTES and not allow_rewrite:
        raise SchemaError(
            f"{table}: {_listed(widened)} must be widened, which rewrites "
            f"{size / 1e9:.0f} GB; set allow_rewrite: true in stream_options to let it"
        )
    columns = [
        f"cast({quote(field.name)} as {to_ddl(field.dataType)}) as {quote(field.name)}"
        for field in schema
    ]
    writer = table.rows(spark).selectExpr(*columns).write.format("delta").mode("overwrite")
    partitions = detail["partitionColumns"]
    table.save(writer.option("overwriteSchema", "true").partitionBy(*partitions))


def _listed(listed: Iterable[Change]) -> str:
    return ", ".join(
        f"{'.'.join(change.path)} ({change.datatype.simpleString()})"
        if isinstance(change, AddColumn)
        else f"{'.'.join(change.path)} ({change.before.simpleString()} to "
        f"{change.after.simpleString()})"
        for change in listed
    )


def _odd_names(schema: T.StructType) -> bool:
    return any(_NEEDS_MAPPING.search(name) for name in _names(schema))


def _names(datatype: T.DataType) -> Iterable[str]:
    if isinstance(datatype, T.StructType):
        for field in datatype:
            yield field.name
            yield from _names(field.dataType)
    elif isinstance(datatype, T.ArrayType):
        yield from _names(datatype.elementType)
    elif isinstance(datatype, T.MapType):
        yield from _names(datatype.valueType)


def _properties(properties: Mapping[str, str]) -> str:
    listed = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in properties.items())
    return f"tblproperties ({listed})" if listed else ""
