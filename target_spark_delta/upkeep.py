"""Compaction and vacuum, after the records of a run are in."""

from __future__ import annotations

import logging
import re

from pyspark.sql import SparkSession

from singer_spark.engine.session import SPARK_ERRORS
from target_spark_delta.destination import Destination

logger = logging.getLogger(__name__)

# The last is how a catalog tells that all rows were replaced.
_WRITES = {"WRITE", "MERGE", "DELETE", "UPDATE", "CREATE OR REPLACE TABLE AS SELECT"}
# How long a table keeps the files that it no longer uses; a week where it does not say.
_KEPT = "delta.deletedFileRetentionDuration"
_INTERVAL = re.compile(r"interval [\w ]+", re.IGNORECASE)
_LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"


def is_asked(destination: Destination) -> bool:
    """Say whether a stream's table is to be looked after."""
    options = destination.options
    return bool(options.optimize_after_commits or options.vacuum_retention_hours)


def look_after(spark: SparkSession, destination: Destination) -> None:
    """Compact the table if enough commits were made since the last time, and remove old files.

    What fails here fails no load: the rows are committed.
    """
    table, options = destination.table, destination.options
    if table.schema(spark) is None:
        return
    try:
        most = options.optimize_after_commits
        if most and _writes_since_compaction(spark, destination, most) >= most:
            spark.sql(f"optimize {table.sql}")
            logger.info("%s: compacted", table)
        if options.vacuum_retention_hours:
            # Delta would list every folder in a task of its own.
            tasks = spark.conf.get("spark.sql.shuffle.partitions") or "8"
            spark.conf.set(_LISTING_TASKS, tasks)
            hours = _retention(spark, destination, options.vacuum_retention_hours)
            spark.sql(f"vacuum {table.sql} retain {hours:g} hours")
            logger.info("%s: files older than needed are removed", table)
    except SPARK_ERRORS as error:
        said = str(error).splitlines()[0][:300]
        logger.warning("%s: could not be compacted or vacuumed: %s", table, said)


def _retention(spark: SparkSession, destination: Destination, asked: float) -> float:
    """Return the hours that are asked for, or those of the table where it keeps files for longer.

    Delta removes none that are younger.
    """
    kept = destination.table.detail(spark)["properties"].get(_KEPT, "")
    if not _INTERVAL.fullmatch(kept):
        return asked
    length = f"unix_seconds(timestamp_seconds(0) + {kept}) / 3600"
    hours = spark.sql(f"select {length} as hours").toArrow()["hours"][0].as_py()
    return max(asked, float(hours))


def _writes_since_compaction(spark: SparkSession, destination: Destination, most: int) -> int:
    # A schema change or two may stand between the writes.
    writes = 0
    for commit in destination.table.history(spark, 2 * most + 10):
        if commit["operation"] == "OPTIMIZE":
            break
        writes += commit["operation"] in _WRITES
    return writes
