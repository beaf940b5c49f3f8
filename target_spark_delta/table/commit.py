"""The only module that commits rows: each call makes one Delta version.

What a commit says it wrote is compared with what was to be written, before any STATE leaves. One
that lacks rows is taken back, so that nobody goes on from the bookmark that it carries.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from singer_spark import deltalog, exact_json
from singer_spark.deltalog import CommitInfo
from singer_spark.engine.session import SPARK_ERRORS, answer_of
from singer_spark.errors import SingerSparkError, StateError, TransientError
from singer_spark.report import report
from target_spark_delta.table import races
from target_spark_delta.table.log import (
    forget_last_commit,
    last_commit,
    newest_version,
    read_commit,
)
from target_spark_delta.table.races import with_retry
from target_spark_delta.table.table import WHOLLY, Table

logger = logging.getLogger(__name__)
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_SKIP_EMPTY = "spark.databricks.delta.skipRecordingEmptyCommits"
_REPLACE_CHECK = "spark.databricks.delta.replaceWhere.constraintCheck.enabled"
_T = TypeVar("_T")


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
    key: tuple[str, ...] = ()  # what rows are merged by
    appends: bool = False  # whether rows are appended that nothing tells apart
    replaces: bool = False  # whether they take the place of all rows that were there

    def to_json(self) -> str:
        """Write it as JSON; a STATE keeps its digits."""
        said = {name: getattr(self, name) for name in self.__slots__}
        if self.state_of is None:
            del said["state_of"]
        if not self.replaces:
            del said["replaces"]
        return exact_json.dumps(said)

    def without_rows(self) -> Commit:
        """Return what a commit of the same run says that writes no rows and makes no STATE true."""
        return dataclasses.replace(self, batch=None, rows=None, state=None, replaces=False)


@dataclass(frozen=True, slots=True)
class Late:
    """How many rows were below the tap's bookmark, the latest by so many seconds."""

    rows: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Counts:
    """How many rows a commit changed, and which of them were late, where that is known.

    `unchanged` counts the records that were left out because the table has them, `version` is the
    one that the commit made.
    """

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    late: Late | None = None
    unchanged: int = 0
    version: int | None = dataclasses.field(default=None, compare=False)

    def __bool__(self) -> bool:
        """Say whether anything changed."""
        return bool(self.inserted or self.updated or self.deleted)


class Tally:
    """Counts the rows that a query reads, on their way through the first that reads them all."""

    def __init__(self) -> None:
        self._observation: Observation | None = None

    def of(self, rows: DataFrame) -> DataFrame:
        """Have rows counted; the next action on what is made of them must read all of them."""
        self._observation = Observation()
        return rows.observe(self._observation, F.count(F.lit(1)).alias("rows"))

    def check(self, where: object, expected: int) -> None:
        """Compare what was counted; what a remote session does not tell is unknown.

        Tasks that Spark repeats count twice, so that more rows mean nothing.
        """
        if self._observation is None:
            return
        try:
            counted = self._observation.get.get("rows")
        except (AssertionError, *SPARK_ERRORS):
            return
        if counted is not None and counted < expected:
            raise lost_rows(where, counted, expected)


def describe_commits(spark: SparkSession, commit: Commit) -> None:
    """Make the session's commits carry this; the runner learns of rows before they are there."""
    if commit.rows is not None:
        report("writes", commit.stream)
    spark.conf.set(_USER_METADATA, commit.to_json())


def append(table: Table, rows: DataFrame, count: int) -> Counts:
    """Add the rows, of which there are so many."""
    writer = rows.write.format("delta").mode("append")
    _, info = _made(rows.sparkSession, table, lambda: table.save(writer))
    _check_rows(rows.sparkSession, table, info, count)
    return Counts(inserted=count, version=info.version if info else None)


def note(spark: SparkSession, table: Table) -> None:
    """Make a commit that changes no row, for what it says of itself and for its transaction.

    A run that held the lock before can commit nothing from then on.
    """
    nothing = spark.createDataFrame([], table.rows(spark).schema)
    spark.conf.set(_SKIP_EMPTY, "false")
    try:
        _made(spark, table, lambda: table.save(nothing.write.format("delta").mode("append")))
    finally:
        spark.conf.unset(_SKIP_EMPTY)


def _made(
    spark: SparkSession, table: Table, action: Callable[[], _T], *, repeats: bool = True
) -> tuple[_T, CommitInfo | None]:
    """Make one commit, and return what it says of itself, None where there is none."""

    def attempt() -> _T:
        forget_last_commit(spark)
        with races.transaction(spark):
            return action()

    result = with_retry(table, attempt) if repeats else attempt()
    version = last_commit(spark)
    if version == 0:
        # Tables are made before they are written to, so Delta has made this one anew.
        raise StateError(
            f"{table}: the table was removed while rows were written to it; no STATE is released; "
            "load the stream anew with --refresh"
        )
    if version is not None:
        return result, read_commit(spark, table, version)
    # A statement may find nothing to do; a write makes no commit only if Delta has skipped it.
    if result is None and races.is_fenced(spark):
        raise races.overtaken(table)
    return result, None


def _check_rows(
    spark: SparkSession,
    table: Table,
    info: CommitInfo | None,
    expected: int,
    *,
    copies: bool = False,
) -> None:
    """Compare what a write has counted; a number that is missing is unknown.

    Rows that it had to copy are among them, and Delta does not always say how many these are.
    """
    counted = info.metric("numOutputRows") if info else None
    if info and counted is not None:
        counted -= info.metric("numCopiedRows") or 0
    is_lost = counted is not None and (counted < expected if copies else counted != expected)
    if info and counted is not None and is_lost:
        take_back(spark, table, info.version)
        raise lost_rows(table, counted, expected)


def take_back_own(spark: SparkSession, table: Table, commit: Commit) -> None:
    """Undo the commit of a batch, whose rows turned out to be cut."""
    version = newest_version(spark, table)
    info = read_commit(spark, table, version)
    said = info.metadata if info else {}
    if (said.get("run_id"), said.get("batch")) == (commit.run_id, commit.batch):
        take_back(spark, table, version)
    else:
        _warn_of(table, version)


def take_back(spark: SparkSession, table: Table, version: int) -> None:
    """Undo a commit, unless others have been made since; which one, the new commit says."""
    try:
        races.confirm(spark)
        if newest_version(spark, table) == version:
            said = deltalog.parsed(spark.conf.get(_USER_METADATA, None))
            nothing = {"batch": None, "rows": None, "state": None, deltalog.UNDOES: version}
            spark.conf.set(_USER_METADATA, exact_json.dumps({**said, **nothing}))
            spark.sql(f"restore table {table.sql} to version as of {version - 1}")
            return
    except (SingerSparkError, *SPARK_ERRORS) as error:
        logger.debug("%s: %s", table, error)
    _warn_of(table, version)


def _warn_of(table: Table, version: int) -> None:
    logger.warning(
        "%s: version %d lacks rows and could not be taken back; run with --refresh", table, version
    )


def lost_rows(where: object, found: int, expected: int) -> TransientError:
    """Return the error of rows that were received and are not there."""
    return TransientError(
        f"{where}: {found} rows were found where {expected} were received; no STATE is released; "
        "run again, and if it happens again look at the disk of temp_dir"
    )


def replace(
    spark: SparkSession,
    table: Table,
    rows: DataFrame,
    *,
    where: str | None = None,
    partition_by: Sequence[str] | None = None,
    count: int | None = None,
    check: Callable[[], None] | None = None,
) -> Counts:
    """Put the rows in the place of others.

    `where` is SQL that says which rows of the table go; without it all of them. With `partition_by`
    the schema becomes that of the rows; without it the schema stays. `count` is how many rows there
    are, where that is known. `check` refuses where the table may not be replaced any more; it is
    asked before each attempt.
    """
    gone = None if where else table.rows(spark).count()
    writer = rows.write.format("delta").mode("overwrite").options(**WHOLLY)
    if where:
        # Rows of this run stay where they are, so what is added need not be in what goes.
        spark.conf.set(_REPLACE_CHECK, "false")
        writer = writer.option("replaceWhere", where)
    if partition_by is not None:
        writer = writer.option("overwriteSchema", "true").partitionBy(*partition_by)

    def write() -> None:
        if check:
            check()
        table.save(writer)

    _, info = _made(spark, table, write)
    if count is not None:
        _check_rows(spark, table, info, count, copies=bool(where))
    inserted, removed = (
        (info.metric(name) if info else None) or 0 for name in ("numOutputRows", "numDeletedRows")
    )
    deleted = removed if gone is None else gone
    return Counts(inserted=inserted, deleted=deleted, version=info.version if info else None)


def execute(
    spark: SparkSession,
    table: Table,
    statement: str,
    *,
    count: int | None = None,
    repeats: bool = True,
) -> Counts:
    """Run a MERGE, DELETE or UPDATE and return what it says it changed.

    A MERGE reads `count` rows, where that is known. With `repeats` it is tried again after a lost
    race; else whoever calls does so.
    """
    result, info = _made(spark, table, lambda: spark.sql(statement), repeats=repeats)
    answer = answer_of(result)
    if not answer.num_rows:
        # Delta says nothing where it has skipped a commit.
        raise races.overtaken(table)
    numbers = {name: answer[name][0].as_py() or 0 for name in answer.column_names}
    affected = numbers.get("num_affected_rows", 0)
    # Spark may count a source twice, or not where nothing can match: what was changed decides then.
    read = info.metric("numSourceRows") if info else None
    if info and count and read is not None and max(read, affected) < count:
        take_back(spark, table, info.version)
        raise lost_rows(table, read, count)
    version = info.version if info else None
    if "num_inserted_rows" in numbers:
        return Counts(
            numbers["num_inserted_rows"],
            numbers["num_updated_rows"],
            numbers["num_deleted_rows"],
            version=version,
        )
    is_delete = statement.startswith("delete")
    deleted, updated = (affected, 0) if is_delete else (0, affected)
    return Counts(updated=updated, deleted=deleted, version=version)
