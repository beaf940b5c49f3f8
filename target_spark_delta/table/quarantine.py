"""Records that cannot be loaded, set aside in a table of their own with the reason."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from singer_spark.names import literal, quote
from singer_spark.report import report
from target_spark_delta.rows.spark_jobs import kept
from target_spark_delta.rows.values import typed
from target_spark_delta.table.commit import Commit, append, describe_commits
from target_spark_delta.table.ddl import Layout, Policy, adapt, create
from target_spark_delta.table.table import Table

logger = logging.getLogger(__name__)
SCHEMA = (
    T.StructType()
    .add("record", T.StringType())
    .add("error", T.StringType())
    .add("stream", T.StringType())
    .add("line", T.LongType())
    .add("time", T.TimestampType())
    .add("run_id", T.StringType())
    .add("version", T.LongType())
)
# Only where one has lost its key.
_LOST_KEY = T.StructField("lost_key", T.BooleanType())


def set_aside(spark: SparkSession, place: Table, records: DataFrame, commit: Commit) -> int:
    """Append records to the quarantine in one commit, and return how many there were.

    `records` has record, error, line, version and whether nothing says which row it is of.
    """
    rows = records.selectExpr(
        "record",
        "error",
        f"{literal(commit.stream)} as stream",
        "cast(line as bigint) as line",
        "current_timestamp() as time",
        f"{literal(commit.run_id)} as run_id",
        "cast(version as bigint) as version",
        "lost_key",
    )
    with kept(rows) as rows:
        ((count, lost),) = rows.selectExpr("count(*)", "count_if(lost_key)").collect()
        schema = T.StructType([*SCHEMA, _LOST_KEY] if lost else SCHEMA.fields)
        describe_commits(spark, commit.without_rows())
        if place.schema(spark) is None:
            create(spark, place, schema, Layout())
        else:
            adapt(spark, place, schema, Policy())
        describe_commits(spark, replace(commit, rows=count, state=None))
        append(place, rows.select(*schema.names), count)
    report("quarantine", commit.stream, rows=count)
    logger.warning("%s: %d record(s) set aside in %s", commit.stream, count, place)
    return int(count)


def held_keys(
    spark: SparkSession,
    place: Table,
    commit: Commit,
    *,
    versions: Collection[int],
    keys: T.StructType,
    table: T.StructType,
) -> DataFrame | None:
    """Return the keys of what was set aside in this run, or of these versions in any run.

    The source has these rows, so none of them may be retired. None where nothing was set aside. The
    stream declares its key columns as `keys`, its table has the schema `table`.
    Without a key in a record it is an UnreadableKeyError.
    """
    known = place.schema(spark)
    if known is None:
        return None
    of_run = f"run_id = {literal(commit.run_id)}"
    if versions and "version" in known.names:
        of_run += f" or version in ({', '.join(map(str, versions))})"
    rows = place.rows(spark).where(f"stream = {literal(commit.stream)} and ({of_run})")
    if rows.isEmpty():
        return None
    types = {field.name.lower(): field.dataType for field in table}
    if not keys.names or not types.keys() >= {name.lower() for name in keys.names}:
        raise UnreadableKeyError(rows.count())
    if "lost_key" in known.names and (lost := rows.where("lost_key").count()):
        raise UnreadableKeyError(lost)
    texts = T.StructType([T.StructField(field.name, T.StringType()) for field in keys])
    read = rows.withColumn("r", F.from_json("record", texts)).selectExpr(
        *(
            f"{typed(f'r.{quote(f.name)}', f.dataType, types[f.name.lower()], f.name, None)} "
            f"as {quote(f.name)}"
            for f in keys
        )
    )
    missing = " or ".join(f"{quote(name)} is null" for name in keys.names)
    if unreadable := read.where(missing).count():
        raise UnreadableKeyError(unreadable)
    return read.distinct()


class UnreadableKeyError(Exception):
    """So many records that were set aside do not say which row they are of."""

    def __init__(self, records: int) -> None:
        super().__init__(f"{records} record(s) that were set aside have no readable key")
