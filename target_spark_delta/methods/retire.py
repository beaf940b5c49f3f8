"""Rows that are gone at the source: a whole read lacked their key, or their version is old."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from singer_spark.names import literal, quote
from target_spark_delta.intake.validation import DELETED_AT
from target_spark_delta.methods.batch import Batch, Staged
from target_spark_delta.methods.merge import MATERIALIZE_SOURCE, same_key
from target_spark_delta.methods.staging import staged_rows, write_staged
from target_spark_delta.rows.columns import IS_CURRENT, TABLE_VERSION, VALID_FROM, VALID_TO
from target_spark_delta.rows.spark_jobs import kept
from target_spark_delta.table import commit
from target_spark_delta.table.commit import Counts
from target_spark_delta.table.table import Table

# What a MERGE does to a row that is removed.
REMOVED = "delete"


def stage_keys(spark: SparkSession, batch: Batch, rows: DataFrame) -> None:
    """Note the keys of rows of a batch, which is committed."""
    keys, staged = rows.select(*map(quote, batch.keys)).distinct(), batch.progress.keys
    is_first = not staged or staged[-1].schema != keys.schema
    current = Staged(batch.staged_table(len(staged)), keys.schema) if is_first else staged[-1]
    write_staged(spark, current, keys, is_first=is_first)
    if is_first:
        staged.append(current)
    current.rows = current.place.rows(spark).count()


def keys_of_run(spark: SparkSession, staged: Sequence[Staged], empty: DataFrame) -> DataFrame:
    """Return the keys that came in the run; `empty` has their columns."""
    parts = [staged_rows(spark, one) for one in staged]
    return reduce(DataFrame.unionByName, parts, empty)


def retire_others(
    spark: SparkSession,
    table: Table,
    came: DataFrame,
    *,
    live: str,
    retired: str,
    prepare: Callable[[], None] | None = None,
) -> Counts:
    """Retire the rows whose key did not come, in one commit, or in none if all came.

    `live` is SQL that says whether a row `t` has not been retired yet, `retired` what a MERGE does
    to one; `prepare` makes the table ready, where there is a row to retire.
    """
    keys = came.columns
    columns = [F.col(f"t.{quote(key)}").alias(key) for key in keys]
    others = table.rows(spark).alias("t").where(live)
    others = others.join(came.alias("s"), F.expr(same_key(keys)), "left_anti")
    with kept(others.select(*columns).distinct()) as gone:
        if gone.isEmpty():
            return Counts()
        if prepare:
            prepare()
        # A batch before may have forbidden what a kept source needs.
        spark.conf.set(MATERIALIZE_SOURCE, "auto")
        gone.createOrReplaceTempView("gone_rows")
        return commit.execute(
            spark,
            table,
            f"merge into {table.sql} t using gone_rows s on {same_key(keys)} "
            f"when matched and {live} then {retired}",
        )


def marked(now: str) -> str:
    """Return what a MERGE does to a row that is kept and marked."""
    return f"update set t.{quote(DELETED_AT)} = timestamp {literal(now)}"


def closed(now: str, kind: str) -> str:
    """Return what a MERGE does to the version of a row that ends."""
    end = f"greatest(t.{VALID_FROM}, cast(timestamp {literal(now)} as {kind}))"
    return f"update set t.{VALID_TO} = {end}, t.{IS_CURRENT} = false"


def retire_older(
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
