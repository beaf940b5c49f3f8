"""One Delta table: where it is, and what Spark says of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import types as T
from typing_extensions import override

from singer_spark.engine.session import answer_of
from singer_spark.names import literal, quote, quote_path
from singer_spark.settings import IMPLEMENTATION, OWN_CATALOG, WAREHOUSE

# Whatever the session says, what is not replaced by a condition is replaced as a whole.
WHOLLY = {"partitionOverwriteMode": "static"}
_MISSING = {
    "DELTA_MISSING_DELTA_TABLE",
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_PATH_DOES_NOT_EXIST",
    "PATH_NOT_FOUND",
    "SCHEMA_NOT_FOUND",
    "TABLE_OR_VIEW_NOT_FOUND",
}


@dataclass(frozen=True, slots=True)
class Table:
    """A table at a path, or in a catalog."""

    sql: str  # its name in SQL
    path: str | None = None  # where it is, unless a catalog knows

    @classmethod
    def at_path(cls, root: str, *parts: str | None, format: str = "delta") -> Table:
        """Return the table below a root folder."""
        is_url = "://" in root
        base = (
            re.sub("^s3://", "s3a://", root) if is_url else str(Path(root).expanduser().absolute())
        )
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

    def detail(self, spark: SparkSession) -> dict[str, Any]:
        """Return what Delta says of the table."""
        (detail,) = answer(spark, f"describe detail {self.sql}")
        return {**detail, "properties": dict(detail["properties"])}


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
