"""The only module that commits rows: each call makes one Delta version."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from target_spark_delta.retry import with_retry
from target_spark_delta.table import WHOLLY, Table

_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_REPLACE_CHECK = "spark.databricks.delta.replaceWhere.constraintCheck.enabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What a commit says of itself, in its `userMetadata`."""

    pipeline: str | None
    run_id: str
    stream: str
    batch: int | None = None
    rows: int | None = None
    state: Any = None
    state_of: str | None = None  # the stream of the tap, where that has another name

    def to_json(self) -> str:
        """Write it as JSON."""
        said = {name: getattr(self, name) for name in self.__slots__}
        if self.state_of is None:
            del said["state_of"]
        return json.dumps(said)

    def without_rows(self) -> Commit:
        """Return what a commit of the same run says that writes no rows and makes no STATE true."""
        return dataclasses.replace(self, batch=None, rows=None, state=None)


@dataclass(frozen=True, slots=True)
class Late:
    """How many rows were below the tap's bookmark, the latest by so many seconds."""

    rows: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Counts:
    """How many rows a commit changed, and which of them were late, where that is known.

    `unchanged` counts the records that were left out because the table has them.
    """

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    late: Late | None = None
    unchanged: int = 0

    def __bool__(self) -> bool:
        """Say whether anything changed."""
        return bool(self.inserted or self.updated or self.deleted)


def describe_commits(spark: SparkSession, commit: Commit) -> None:
    """Make the session's commits carry this."""
    spark.conf.set(_USER_METADATA, commit.to_json())


def append(table: Table, rows: DataFrame, count: int) -> Counts:
    """Add the rows, of which there are so many."""
    with_retry(table, lambda: table.save(rows.write.format("delta").mode("append")))
    return Counts(inserted=count)


def replace(
    spark: SparkSession,
    table: Table,
    rows: DataFrame,
    *,
    where: str | None = None,
    partition_by: Sequence[str] | None = None,
) -> Counts:
    """Put the rows in the place of others.

    Args:
        spark: The stream's session.
        table: The table.
        rows: The rows.
        where: SQL that says which rows of the table go; without it all of them.
        partition_by: The partitions of the new table, where its schema is that of the rows;
            without it the schema stays.
    """
    gone = None if where else table.rows(spark).count()
    writer = rows.write.format("delta").mode("overwrite").options(**WHOLLY)
    if where:
        # Rows of this run stay where they are, so what is added need not be in what goes.
        spark.conf.set(_REPLACE_CHECK, "false")
        writer = writer.option("replaceWhere", where)
    if partition_by is not None:
        writer = writer.option("overwriteSchema", "true").partitionBy(*partition_by)
    with_retry(table, lambda: table.save(writer))
    metrics = table.history(spark, 1)[0]["operationMetrics"]
    deleted = int(metrics.get("numDeletedRows", 0)) if gone is None else gone
    return Counts(inserted=int(metrics.get("numOutputRows", 0)), deleted=deleted)


def execute(spark: SparkSession, table: Table, statement: str) -> Counts:
    """Run a MERGE, DELETE or UPDATE and return what it says it changed."""
    told = with_retry(table, lambda: spark.sql(statement)).toArrow()
    numbers = {name: told[name][0].as_py() or 0 for name in told.column_names}
    if "num_inserted_rows" in numbers:
        return Counts(
            numbers["num_inserted_rows"], numbers["num_updated_rows"], numbers["num_deleted_rows"]
        )
    affected = numbers.get("num_affected_rows", 0)
    return Counts(deleted=affected) if statement.startswith("delete") else Counts(updated=affected)
