"""Records that cannot be loaded, set aside in a table of their own with the reason."""

from __future__ import annotations

import logging
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.storagelevel import StorageLevel

from singer_spark.names import literal
from singer_spark.report import report
from target_spark_delta.commit import Commit, append, describe_commits
from target_spark_delta.table import Layout, Table, create

logger = logging.getLogger(__name__)

SCHEMA = (
    T.StructType()
    .add("record", T.StringType())
    .add("error", T.StringType())
    .add("stream", T.StringType())
    .add("line", T.LongType())
    .add("time", T.TimestampType())
    .add("run_id", T.StringType())
)


def set_aside(spark: SparkSession, place: Table, records: DataFrame, commit: Commit) -> int:
    """Append records to the quarantine in one commit, and return how many there were.

    Args:
        spark: The stream's session.
        place: The table.
        records: Record, error and line.
        commit: The run and the stream.
    """
    rows = records.selectExpr(
        "record",
        "error",
        f"{literal(commit.stream)} as stream",
        "cast(line as bigint) as line",
        "current_timestamp() as time",
        f"{literal(commit.run_id)} as run_id",
    ).persist(StorageLevel.DISK_ONLY)
    try:
        count = rows.count()
        if place.schema(spark) is None:
            describe_commits(spark, commit.without_rows())
            create(spark, place, SCHEMA, Layout())
        describe_commits(spark, replace(commit, rows=count, state=None))
        append(place, rows, count)
    finally:
        rows.unpersist()
    report("quarantine", commit.stream, rows=count)
    logger.warning("%s: %d record(s) set aside in %s", commit.stream, count, place)
    return count
