"""A table's log: read from its files where Python reaches them, else through Spark."""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession

from singer_spark import deltalog
from singer_spark.deltalog import CommitInfo, TableMetadata
from singer_spark.engine.session import SPARK_ERRORS
from singer_spark.errors import SingerSparkError, innermost_cause
from target_spark_delta.files import give_up, log_files
from target_spark_delta.table import Table, answer

logger = logging.getLogger(__name__)

_LAST_COMMIT = "spark.databricks.delta.lastCommitVersionInSession"
_MANY_COMMITS = 100
# Where the tables of catalogs are, as they were found.
LOCATIONS: dict[str, str] = {}


def forget_last_commit(spark: SparkSession) -> None:
    """Make `last_commit` tell of no commit but one that is still to come."""
    spark.conf.unset(_LAST_COMMIT)


def last_commit(spark: SparkSession) -> int | None:
    """Return the version that a session's last commit made, None if it has made none."""
    version = spark.conf.get(_LAST_COMMIT, None)
    return int(version) if version else None


def read_commit(spark: SparkSession, table: Table, version: int) -> CommitInfo | None:
    """Return what a commit says of itself, None where nobody can tell."""
    location = location_of(spark, table)
    if objects := log_files(location):
        try:
            if info := deltalog.commit_info(objects, version):
                return info
        except SingerSparkError as error:
            give_up(location, error)
    return _described(spark, table, version)


def newest_version(spark: SparkSession, table: Table) -> int:
    """Return the version of a table's last commit."""
    location = location_of(spark, table)
    if objects := log_files(location):
        try:
            if versions := deltalog.log_versions(objects):
                return versions[-1]
        except SingerSparkError as error:
            give_up(location, error)
    (newest,) = answer(spark, f"describe history {table.sql} limit 1")
    return int(newest["version"])


def metadata_of(spark: SparkSession, table: Table) -> TableMetadata:
    """Return partitions and properties of a table; Spark would read the whole of its log."""
    location = location_of(spark, table)
    if objects := log_files(location):
        try:
            if known := deltalog.table_metadata(objects):
                return known
        except SingerSparkError as error:
            give_up(location, error)
    detail = table.detail(spark)
    return TableMetadata(detail["id"], tuple(detail["partitionColumns"]), detail["properties"])


def location_of(spark: SparkSession, table: Table) -> str:
    """Return where a table is; a catalog is asked once."""
    if table.path is not None:
        return table.path
    if table.sql not in LOCATIONS:
        LOCATIONS[table.sql] = str(table.detail(spark)["location"])
    return LOCATIONS[table.sql]


def _described(spark: SparkSession, table: Table, version: int) -> CommitInfo | None:
    """Ask Spark: for the newest commit, and for more where others have committed since."""
    found = _history(spark, table, version, 1)
    return found or _history(spark, table, version, _MANY_COMMITS)


def _history(spark: SparkSession, table: Table, version: int, most: int) -> CommitInfo | None:
    try:
        history = answer(spark, f"describe history {table.sql} limit {most}")
    except SPARK_ERRORS as error:
        logger.debug("%s: %s", table, innermost_cause(error))
        return None
    for one in (one for one in history if one["version"] == version):
        return CommitInfo(
            version=version,
            operation=str(one["operation"]),
            metadata=deltalog.parsed(one["userMetadata"]),
            metrics=dict(one["operationMetrics"] or ()),
        )
    return None
