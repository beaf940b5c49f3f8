"""One Delta table: where it is, and how it is made."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import types as T
from typing_extensions import override

from singer_spark.engine.session import answer_of
from singer_spark.names import literal, quote, quote_path
from singer_spark.settings import IMPLEMENTATION, OWN_CATALOG, WAREHOUSE
from singer_spark.types import column_names, comment_ddl, to_ddl
from target_spark_delta import fence, files

# Whatever the session says, what is not replaced by a condition is replaced as a whole.
WHOLLY = {"partitionOverwriteMode": "static"}
# Parquet cannot name a column with these; Delta then maps names to names of its own.
_NEEDS_MAPPING = re.compile(r"[ ,;{}()\n\t=]")
_MAPPING = {"delta.columnMapping.mode": "name"}
_MISSING = {
    "DELTA_MISSING_DELTA_TABLE",
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_PATH_DOES_NOT_EXIST",
    "PATH_NOT_FOUND",
    "SCHEMA_NOT_FOUND",
    "TABLE_OR_VIEW_NOT_FOUND",
}


# What Spark says of a place where something is that is no table.
_IN_THE_WAY = {"TABLE_OR_VIEW_ALREADY_EXISTS", "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"}


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute())


@dataclass(frozen=True, slots=True)
class Table:
    """A table at a path, or in a catalog.

    Args:
        sql: Its name in SQL.
        path: Where it is, unless a catalog knows.
    """

    sql: str
    path: str | None = None

    @classmethod
    def at_path(cls, root: str, *parts: str | None, format: str = "delta") -> Table:
        """Return the table below a root folder."""
        is_url = "://" in root
        base = re.sub("^s3://", "s3a://", root) if is_url else _absolute(root)
        path = "/".join([base.rstrip("/"), *filter(None, parts)])
        return cls(f"{format}.{quote(path)}", path)

    @classmethod
    def in_catalog(cls, *parts: str) -> Table:
        """Return the table of a catalog and schema."""
        return cls(quote_path(*parts))

    @override
    def __str__(self) -> str:
        """Name the table in a message."""
        return self.path or self.sql.replace("`", "")

    @property
    def name(self) -> str:
        """Return the table's own name, without its place."""
        return re.split("[/.]", str(self))[-1]

    def make_schema(self, spark: SparkSession) -> None:
        """Make sure that the schema of a catalog's table is there."""
        if self.path is None:
            spark.sql(f"create schema if not exists {self.sql.rpartition('.')[0]}")

    def save(self, writer: DataFrameWriter) -> None:
        """Write rows to the table."""
        if self.path is None:
            writer.saveAsTable(self.sql)
        else:
            writer.save(self.path)

    def rows(self, spark: SparkSession) -> DataFrame:
        """Return the table's rows."""
        return spark.table(self.sql)

    def rows_at(self, spark: SparkSession, version: int) -> DataFrame:
        """Return the rows that the table had in a version."""
        return spark.sql(f"select * from {self.sql} version as of {version}")

    def schema(self, spark: SparkSession) -> T.StructType | None:
        """Return the table's schema, or None where there is no table."""
        try:
            return self.rows(spark).schema
        except AnalysisException as error:
            if error.getCondition() not in _MISSING:
                raise
        return self.rows(spark).schema if self._is_found_again(spark) else None

    def _is_found_again(self, spark: SparkSession) -> bool:
        """Enter a table that lies in its place into a catalog which has forgotten it.

        Without a metastore Spark's own catalog knows what was made since Spark was started.
        """
        catalog = self.sql.partition(".")[0].strip("`")
        is_own = self.path is None and catalog == OWN_CATALOG
        if not is_own or spark.conf.get(IMPLEMENTATION) != "in-memory":
            return False
        place = f"{_folder_of(spark, self.sql.rpartition('.')[0])}/{self.name.lower()}"
        if Table(f"delta.{quote(place)}", place).schema(spark) is None:
            return False
        self.make_schema(spark)
        spark.sql(f"create table if not exists {self.sql} using delta location {literal(place)}")
        return True

    def history(self, spark: SparkSession, most: int) -> list[dict[str, Any]]:
        """Return the operations of the last commits, newest first, and what they counted."""
        commits = answer(spark, f"describe history {self.sql} limit {most}")
        return [{**one, "operationMetrics": dict(one["operationMetrics"] or ())} for one in commits]

    def detail(self, spark: SparkSession) -> dict[str, Any]:
        """Return what Delta says of the table."""
        (detail,) = answer(spark, f"describe detail {self.sql}")
        return {**detail, "properties": dict(detail["properties"])}

    def cluster(self, spark: SparkSession, columns: Sequence[str]) -> None:
        """Cluster what is written from now on."""
        if columns:
            spark.sql(f"alter table {self.sql} {_columns('cluster by', columns)}")


def _folder_of(spark: SparkSession, schema: str) -> str:
    """Return where a schema of Spark's own catalog has its tables, or would have them."""
    try:
        known = answer(spark, f"describe schema {schema}")
    except AnalysisException as error:
        if error.getCondition() not in _MISSING:
            raise
        name = schema.rpartition(".")[2].strip("`").lower()
        return f"{spark.conf.get(WAREHOUSE)}/{name}.db"
    return next(str(one["info_value"]) for one in known if one["info_name"] == "Location")


def answer(spark: SparkSession, statement: str) -> list[dict[str, Any]]:
    """Return what a statement says."""
    rows: list[dict[str, Any]] = answer_of(spark.sql(statement)).to_pylist()
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a table is made, beside its columns."""

    partition_by: Sequence[str] = ()
    cluster_by: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None


def create(spark: SparkSession, table: Table, schema: T.StructType, layout: Layout) -> None:
    """Make an empty table, in the place of one whose making was interrupted too."""
    fence.confirm(spark)
    table.make_schema(spark)
    properties = {**naming(schema), **layout.properties}
    columns = ", ".join(
        f"{quote(column.name)} {to_ddl(column.dataType, comments=True)}"
        f"{'' if column.nullable else ' not null'}{comment_ddl(column)}"
        for column in schema
    )
    definition = " ".join(
        [
            f"table {table.sql} ({columns}) using delta",
            _columns("partitioned by", layout.partition_by),
            _columns("cluster by", layout.cluster_by),
            f"comment {literal(layout.comment)}" if layout.comment else "",
            properties_ddl(properties),
        ]
    )
    try:
        spark.sql(f"create {definition}")
    except AnalysisException as error:
        if error.getCondition() not in _IN_THE_WAY or table.schema(spark) is not None:
            raise
        _create_over(spark, table, schema, layout, definition, error)


def _create_over(
    spark: SparkSession,
    table: Table,
    schema: T.StructType,
    layout: Layout,
    definition: str,
    error: AnalysisException,
) -> None:
    """Make a table where a log without a commit is in the way, which is no table."""
    found = re.search(r"location \('([^']+)'\)", str(error))
    location = table.path or (found[1] if found else "")
    if location and files.is_half_made(location):
        files.remove_log(location)
        spark.sql(f"create {definition}")
    elif table.path and (files.has_log(table.path) or not _holds_files(spark, table.path)):
        # Among files that were never committed only a write makes a table.
        properties = {**naming(schema), **layout.properties}
        writer = spark.createDataFrame([], schema).write.format("delta").mode("append")
        writer = writer.options(**{k: v for k, v in properties.items() if k.startswith("delta.")})
        table.save(writer.partitionBy(*layout.partition_by))
        table.cluster(spark, layout.cluster_by)
        if properties:
            spark.sql(f"alter table {table.sql} set {properties_ddl(properties)}")
    else:
        raise error


def _holds_files(spark: SparkSession, path: str) -> bool:
    """Say whether a folder has files of somebody else."""
    found = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(path)
    return not found.select("path").isEmpty()


def naming(*datatypes: T.DataType) -> dict[str, str]:
    """Return the properties of a table that can name these columns."""
    odd = any(_NEEDS_MAPPING.search(name) for kind in datatypes for name in column_names(kind))
    return dict(_MAPPING) if odd else {}


def _columns(clause: str, names: Sequence[str]) -> str:
    return f"{clause} ({', '.join(map(quote, names))})" if names else ""


def properties_ddl(properties: Mapping[str, str]) -> str:
    """Write table properties as SQL."""
    listed = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in properties.items())
    return f"tblproperties ({listed})" if listed else ""
