"""A table's files and its log: read by Python where it reaches them, else through Spark.

Python reaches folders of this machine and S3.
"""

from __future__ import annotations

import functools
import logging
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from singer_spark import deltalog
from singer_spark.deltalog import CommitInfo, TableMetadata
from singer_spark.engine.machine import shares_disk
from singer_spark.engine.session import SPARK_ERRORS
from singer_spark.errors import SingerSparkError, innermost_cause
from singer_spark.storage.objects import ObjectStore
from singer_spark.storage.open import open_objects
from target_spark_delta.table.table import Table, answer

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

logger = logging.getLogger(__name__)

_LOG = "_delta_log"
_S3 = ("s3", "s3a")
# Buckets that Spark has keys for, and Python not.
_out_of_reach: set[str] = set()
_T = TypeVar("_T")
_LAST_COMMIT = "spark.databricks.delta.lastCommitVersionInSession"
_MANY_COMMITS = 100
# Where the tables of catalogs are, as they were found.
LOCATIONS: dict[str, str] = {}


def files_of(location: str) -> ObjectStore | None:
    """Return the files of a table, None where Python cannot read them."""
    folder = local_folder(location)
    parts = urlsplit(location)
    if folder is None and (parts.scheme not in _S3 or parts.netloc in _out_of_reach):
        return None
    try:
        return _opened(location if folder is None else str(folder))
    except SingerSparkError as error:
        logger.debug("%s: %s", location, error)
        return None


def log_files(location: str) -> ObjectStore | None:
    """Return the files of a table's log, None where Python cannot read those that Spark does."""
    if local_folder(location) is not None and not shares_disk():
        return None
    return files_of(location)


def give_up(location: str, error: SingerSparkError) -> None:
    """Leave it to Spark to read the logs of a bucket that is out of reach here."""
    logger.debug("%s: its log is read through Spark: %s", location, error)
    _out_of_reach.add(urlsplit(location).netloc)


@functools.lru_cache(maxsize=256)
def _opened(location: str) -> ObjectStore:
    return open_objects(location)


def local_folder(location: str) -> Path | None:
    """Return the folder of a table on this machine, None where it is elsewhere."""
    if found := re.match(r"file:/*(/.*)", location):
        return Path(found[1])
    return None if re.match(r"\w[\w+.-]*:/", location) else Path(location)


def has_log(location: str) -> bool:
    """Say whether a folder was begun as a Delta table, as far as Python can see."""
    folder = local_folder(location)
    if folder is not None:
        return (folder / _LOG).is_dir()
    return f"{_LOG}/" in _names(location)


def is_half_made(location: str) -> bool:
    """Say whether a folder has only what a run leaves that was killed while it made a table.

    That is a log without a commit, or with one that has no rows and that no catalog knows.
    """
    objects = files_of(location)
    if objects is None or not has_log(location):
        return False
    visible = [name for name in _names(location) if not name.startswith(("_", "."))]
    return not visible and deltalog.log_versions(objects) in ([], [0])


def _names(location: str) -> list[str]:
    """List a folder; one that is out of reach is empty."""
    objects = files_of(location)
    try:
        return objects.list("") if objects else []
    except SingerSparkError as error:
        give_up(location, error)
        return []


def remove_folder(location: str) -> None:
    """Remove a folder and all that is in it, if there is one and Python reaches it."""
    folder = local_folder(location)
    if folder is not None:
        shutil.rmtree(folder.expanduser(), ignore_errors=True)
        return
    parts = urlsplit(location)
    if parts.scheme not in _S3 or parts.netloc in _out_of_reach:
        return
    # Only where it is needed: it takes a while to load.
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        _remove_prefix(boto3.client("s3"), parts.netloc, f"{parts.path.strip('/')}/")
    except (BotoCoreError, ClientError) as error:
        logger.debug("%s: %s", location, error)


def _remove_prefix(client: S3Client, bucket: str, prefix: str) -> None:
    """Remove what lies below a prefix, the empty objects that stand for folders too."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    for page in pages:
        for entry in page.get("Contents", []):
            client.delete_object(Bucket=bucket, Key=entry["Key"])


def forget_last_commit(spark: SparkSession) -> None:
    """Make `last_commit` tell of no commit but one that is still to come."""
    spark.conf.unset(_LAST_COMMIT)


def last_commit(spark: SparkSession) -> int | None:
    """Return the version that a session's last commit made, None if it has made none."""
    version = spark.conf.get(_LAST_COMMIT, None)
    return int(version) if version else None


def read_commit(spark: SparkSession, table: Table, version: int) -> CommitInfo | None:
    """Return what a commit says of itself, None where nobody can tell."""
    if info := _in_files(spark, table, lambda objects: deltalog.commit_info(objects, version)):
        return info
    # The newest commit, and more of them where others have committed since.
    for most in (1, _MANY_COMMITS):
        try:
            if info := described_commits(spark, table, most).get(version):
                return info
        except SPARK_ERRORS as error:
            logger.debug("%s: %s", table, innermost_cause(error))
    return None


def newest_version(spark: SparkSession, table: Table) -> int:
    """Return the version of a table's last commit."""
    versions = _in_files(spark, table, deltalog.log_versions)
    return versions[-1] if versions else max(described_commits(spark, table, 1))


def metadata_of(spark: SparkSession, table: Table) -> TableMetadata:
    """Return partitions and properties of a table; Spark would read the whole of its log."""
    if known := _in_files(spark, table, deltalog.table_metadata):
        return known
    detail = table.detail(spark)
    return TableMetadata(detail["id"], tuple(detail["partitionColumns"]), detail["properties"])


def described_commits(
    spark: SparkSession, table: Table, most: int | None = None
) -> dict[int, CommitInfo]:
    """Return what Spark says of a table's newest commits, or of all, by their versions."""
    limit = f" limit {most}" if most else ""
    return {
        one["version"]: CommitInfo(
            version=one["version"],
            operation=str(one["operation"]),
            metadata=deltalog.parsed(one["userMetadata"]),
            metrics=dict(one["operationMetrics"] or ()),
        )
        for one in answer(spark, f"describe history {table.sql}{limit}")
    }


def _in_files(
    spark: SparkSession, table: Table, read: Callable[[ObjectStore], _T | None]
) -> _T | None:
    """Read a log from its files, None where Python does not reach them or finds nothing."""
    location = location_of(spark, table)
    try:
        return read(objects) if (objects := log_files(location)) else None
    except SingerSparkError as error:
        give_up(location, error)
        return None


def location_of(spark: SparkSession, table: Table) -> str:
    """Return where a table is; a catalog is asked once."""
    if table.path is not None:
        return table.path
    if table.sql not in LOCATIONS:
        LOCATIONS[table.sql] = str(table.detail(spark)["location"])
    return LOCATIONS[table.sql]
