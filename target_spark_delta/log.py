"""A table's log: read from its files where Python reaches them, else through Spark."""

from __future__ import annotations

import functools
import logging
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from singer_spark import deltalog
from singer_spark.causes import innermost_cause
from singer_spark.deltalog import CommitInfo
from singer_spark.errors import SingerSparkError
from singer_spark.session import SPARK_ERRORS
from singer_spark.state.create import open_objects
from singer_spark.state.objects import ObjectStore
from target_spark_delta.table import Table

logger = logging.getLogger(__name__)

_LAST_COMMIT = "spark.databricks.delta.lastCommitVersionInSession"
_FILE_URL = "file:"
_READABLE = ("s3://", "s3a://")
# Where the tables of catalogs are, as they were found.
LOCATIONS: dict[str, str] = {}
# Buckets that Spark has keys for, and Python not.
_out_of_reach: set[str] = set()


def forget_last_commit(spark: SparkSession) -> None:
    """Make `last_commit` tell of no commit but one that is still to come."""
    spark.conf.unset(_LAST_COMMIT)


def last_commit(spark: SparkSession) -> int | None:
    """Return the version that a session's last commit made, None if it has made none."""
    version = spark.conf.get(_LAST_COMMIT, None)
    return int(version) if version else None


def read_commit(spark: SparkSession, table: Table, version: int) -> CommitInfo | None:
    """Return what a commit says of itself, None where nobody can tell."""
    objects = files_of(location_of(spark, table))
    if objects:
        try:
            if info := deltalog.commit_info(objects, version):
                return info
        except SingerSparkError as error:
            _give_up(objects, error)
    return _described(spark, table, version)


def location_of(spark: SparkSession, table: Table) -> str:
    """Return where a table is; a catalog is asked once."""
    if table.path is not None:
        return table.path
    if table.sql not in LOCATIONS:
        detail = spark.sql(f"describe detail {table.sql}").select("location").toArrow()
        LOCATIONS[table.sql] = str(detail["location"][0].as_py())
    return LOCATIONS[table.sql]


def files_of(location: str) -> ObjectStore | None:
    """Return the files of a table, None where Python cannot read them."""
    if location.startswith(_FILE_URL):
        location = "/" + location[len(_FILE_URL) :].lstrip("/")
    if "://" in location and not location.startswith(_READABLE):
        return None
    if any(location.startswith(place) for place in _out_of_reach):
        return None
    try:
        return _opened(location)
    except SingerSparkError as error:
        logger.debug("%s: %s", location, error)
        return None


@functools.lru_cache(maxsize=256)
def _opened(location: str) -> ObjectStore:
    return open_objects(location)


def _give_up(objects: ObjectStore, error: SingerSparkError) -> None:
    """Leave it to Spark to read the logs of a place whose files cannot be read here."""
    logger.debug("%s: its log is read through Spark: %s", objects.place, error)
    place = objects.place.split("/")
    # Keys are given for buckets.
    bucket = place[2] if objects.place.startswith("s3://") else ""
    _out_of_reach.update((f"s3://{bucket}/", f"s3a://{bucket}/") if bucket else (objects.place,))


def _described(spark: SparkSession, table: Table, version: int) -> CommitInfo | None:
    """Ask Spark."""
    try:
        history = spark.sql(f"describe history {table.sql} limit 100")
        found: list[dict[str, Any]] = (
            history.where(F.col("version") == version)
            .select("operation", "userMetadata", "operationMetrics")
            .toArrow()
            .to_pylist()
        )
    except SPARK_ERRORS as error:
        logger.debug("%s: %s", table, innermost_cause(error))
        return None
    for one in found:
        return CommitInfo(
            version=version,
            operation=str(one["operation"]),
            metadata=deltalog.parsed(one["userMetadata"]),
            metrics=dict(one["operationMetrics"] or ()),
        )
    return None
