"""ACTIVATE_VERSION: the rows of older versions are retired."""

from __future__ import annotations

from pyspark.sql import SparkSession

from singer_spark.names import literal, quote
from target_spark_delta import commit
from target_spark_delta.commit import Counts
from target_spark_delta.frame import TABLE_VERSION
from target_spark_delta.table import Table
from target_spark_delta.validation import DELETED_AT


def retire(
    spark: SparkSession, table: Table, version: int, *, hard: bool, deleted_at: str
) -> Counts:
    """Remove or mark the rows of versions before the given one; rows without a version stay."""
    older = older_rows(version, unmarked=not hard)
    if hard:
        return commit.execute(spark, table, f"delete from {table.sql} where {older}")
    return commit.execute(
        spark,
        table,
        f"update {table.sql} set {quote(DELETED_AT)} = timestamp {literal(deleted_at)} "
        f"where {older}",
    )


def older_rows(version: int, *, unmarked: bool, prefix: str = "") -> str:
    """Return SQL that finds the rows of versions before the given one, marked ones too or not."""
    older = f"{prefix}{quote(TABLE_VERSION)} < {version}"
    return f"{older} and {prefix}{quote(DELETED_AT)} is null" if unmarked else older
