"""Compaction and vacuum, after the records of a run are in."""

from __future__ import annotations

import logging
import re

from pyspark.sql import SparkSession

from singer_spark.engine.session import SPARK_ERRORS
from target_spark_delta.table.log import described_commits
from target_spark_delta.table.table import Table

logger = logging.getLogger(__name__)
# The last is how a catalog tells that all rows were replaced.
_WRITES = {"WRITE", "MERGE", "DELETE", "UPDATE", "CREATE OR REPLACE TABLE AS SELECT"}
# How long a table keeps the files that it no longer uses; a week where it does not say.
_KEPT = "delta.deletedFileRetentionDuration"
_INTERVAL = re.compile(r"interval [\w ]+", re.IGNORECASE)
_LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"


def maintain(
    spark: SparkSession, table: Table, *, compact_after: int | None, keep_hours: float | None
) -> None:
    """Compact a table if enough commits were made since the last time, and remove old files.

    `compact_after` so many commits, `keep_hours` of files: None leaves it. What fails here fails no
    load: the rows are committed.
    """
    if table.schema(spark) is None:
        return
    try:
        if compact_after and _writes_since_compaction(spark, table, compact_after) >= compact_after:
            spark.sql(f"optimize {table.sql}")
            logger.info("%s: compacted", table)
        if keep_hours:
            # Delta would list every folder in a task of its own.
            tasks = spark.conf.get("spark.sql.shuffle.partitions") or "8"
            spark.conf.set(_LISTING_TASKS, tasks)
            hours = _retention(spark, table, keep_hours)
            spark.sql(f"vacuum {table.sql} retain {hours:g} hours")
            logger.info("%s: files older than needed are removed", table)
    except SPARK_ERRORS as error:
        said = str(error).splitlines()[0][:300]
        logger.warning("%s: could not be compacted or vacuumed: %s", table, said)


def _retention(spark: SparkSession, table: Table, asked: float) -> float:
    """Return the hours that are asked for, or those of the table where it keeps files for longer.

    Delta removes none that are younger.
    """
    kept = table.detail(spark)["properties"].get(_KEPT, "")
    if not _INTERVAL.fullmatch(kept):
        return asked
    length = f"unix_seconds(timestamp_seconds(0) + {kept}) / 3600"
    hours = spark.sql(f"select {length} as hours").toArrow()["hours"][0].as_py()
    return max(asked, float(hours))


def _writes_since_compaction(spark: SparkSession, table: Table, most: int) -> int:
    # A schema change or two may stand between the writes.
    writes = 0
    for commit in described_commits(spark, table, 2 * most + 10).values():
        if commit.operation == "OPTIMIZE":
            break
        writes += commit.operation in _WRITES
    return writes
