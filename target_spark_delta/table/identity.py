"""Is a table the one that the stored state belongs to? Judged by its log, without Spark if it can.

A table that was removed, restored or is at another place lacks rows that the state says are there.
Only the runner remembers tables, so in a plain pipe nothing is compared.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from singer_spark import deltalog
from singer_spark.assignment import Assignment, TableIdentity
from singer_spark.deltalog import CommitInfo
from singer_spark.errors import SingerSparkError, StateError
from singer_spark.report import report
from singer_spark.text import listed
from target_spark_delta.table.log import (
    LOCATIONS,
    described_commits,
    local_folder,
    location_of,
    log_files,
)
from target_spark_delta.table.table import Table

_LATEST = 50


@dataclass(frozen=True, slots=True)
class History:
    """What a table's log says."""

    id: str | None  # the id that Delta gave the table; None where it cannot be found
    # The versions whose commits are listed, lowest first; none without a table.
    versions: Sequence[int]
    read: Callable[[int], CommitInfo | None]  # reads what the commit of a version says of itself


NO_TABLE = History(None, (), lambda _: None)


def history_in_files(location: str) -> History | None:
    """Read a log from its files; None where Python does not reach them.

    That a bucket has no log may mean that Spark looks for it elsewhere; only a disk is sure.
    """
    objects = log_files(location)
    if objects is None:
        return None
    try:
        versions = deltalog.log_versions(objects)
        known = deltalog.table_id(objects) if versions else None
    except SingerSparkError:
        return None
    if not versions and local_folder(location) is None:
        return None
    return History(known, versions, functools.partial(deltalog.commit_info, objects))


def history_by_spark(spark: SparkSession, table: Table) -> History:
    """Read a log through Spark."""
    if table.schema(spark) is None:
        return NO_TABLE
    commits = described_commits(spark, table)
    return History(table.detail(spark)["id"], sorted(commits), commits.get)


def misfit(known: TableIdentity, history: History, written: Collection[int] = ()) -> str | None:
    """Say why a table is not as the pipeline has left it, None if it is.

    The versions `written` need not be looked at, because this run has made them.
    """
    if not history.versions:
        return "there is no table"
    if history.id is not None and history.id != known.id:
        return "it is not the table that was loaded before"
    newest = history.versions[-1]
    if newest < known.version:
        return f"its version {newest} is older than {known.version}, which was committed before"
    own = history.read(known.version)
    if own and known.run_id and own.metadata.get("run_id") != known.run_id:
        return f"its version {known.version} is not the one that was committed before"
    for version in history.versions:
        is_later = version > known.version and version not in written
        later = history.read(version) if is_later else None
        if later and later.turns_back:
            return f"it was restored or replaced in version {version}"
    return None


@dataclass(frozen=True, slots=True)
class StreamTable:
    """The table of a stream in a run."""

    table: Table
    run: Assignment
    stream: str  # as stream_maps name it
    source: str  # as the tap and its state name it
    key: Sequence[str] = ()  # what its rows are merged by

    @property
    def known(self) -> TableIdentity | None:
        """Return the table as the pipeline has left it."""
        return self.run.tables.get(self.stream)

    def history(self, spark: SparkSession | None) -> History | None:
        """Read the table's log, None where only Spark reaches it and there is no session."""
        return history_of(self.table, self.known, spark)

    def check(self, spark: SparkSession | None) -> bool:
        """Refuse a table that is not as the pipeline left it; return whether it can be judged."""
        known = self.known
        if known is None or known.is_absent:
            return True
        history = self.history(spark)
        if history is None:
            return False
        if why := misfit(known, history):
            raise StateError(
                f"stream {self.source}: {self.table}: {why}, so the state is ahead; "
                f"{self.run.ways_on(known.state_of or self.source, known.key)}"
            )
        return True

    def check_name(self) -> None:
        """Refuse a table that the stored state was never loaded into, under whatever name."""
        tables, source = self.run.tables, self.source
        others = [
            name
            for name, one in tables.items()
            if (one.state_of or name) == source and not one.is_absent
        ]
        if self.stream not in tables and others:
            raise StateError(
                f"stream {source}: {self.table}: it was loaded into {listed(others, 2)} before, so "
                f"the state is ahead; {self.run.ways_on(source, tables[others[0]].key)}"
            )

    def check_end(self, history: History, written: Collection[int], *, rests: bool) -> None:
        """Refuse a table that was removed, made anew or restored while the run loaded it.

        It has made the versions `written`, and `rests` on the rows that were there, or on none.
        """
        known = self.known if rests else None
        expected = [known] if known and not known.is_absent else []
        if written:
            known_id = expected[0].id if expected else history.id or ""
            location, run_id = str(self.table), self.run.run_id
            first = min(written)
            expected.append(
                TableIdentity(location=location, id=known_id, version=first, run_id=run_id)
            )
        for one in expected:
            if why := misfit(one, history, written):
                raise StateError(
                    f"stream {self.source}: {self.table} changed while the run loaded it: {why}; "
                    f"{self.run.ways_on(self.source, known.key if known else ())}"
                )

    def report(self, history: History, spark: SparkSession | None) -> None:
        """Report to the runner by what the table is known again."""
        if not history.versions or history.id is None:
            return
        version, run_id = _last_of(history, self.run, self.known)
        location = _location(self.table, self.known, spark) or str(self.table)
        now = TableIdentity(
            location=location if self.table.path else f"{self.table} ({location})",
            id=history.id,
            version=version,
            run_id=run_id,
            key=tuple(self.key),
            state_of=None if self.source == self.stream else self.source,
        )
        report("table", self.stream, **now.to_dict())

    def report_absent(self) -> None:
        """Report that there is no table yet, so that the first rows that come are welcome."""
        location, run_id = str(self.table), self.run.run_id
        absent = TableIdentity(
            location=location, id="", version=-1, run_id=run_id, state_of=self.source
        )
        report("table", self.stream, **absent.to_dict())


def history_of(
    table: Table, known: TableIdentity | None, spark: SparkSession | None
) -> History | None:
    """Read a table's log, None where only Spark reaches it and there is no session."""
    location = _location(table, known, None)
    history = history_in_files(location) if location else None
    if history is None and spark is not None:
        return history_by_spark(spark, table)
    return history


def _location(table: Table, known: TableIdentity | None, spark: SparkSession | None) -> str | None:
    """Say where a table is; None where a catalog would have to be asked."""
    if table.path is not None or table.sql in LOCATIONS:
        return table.path or LOCATIONS[table.sql]
    if spark is not None and table.schema(spark) is not None:
        return location_of(spark, table)
    name, _, location = known.location.partition(" (") if known else ("", "", "")
    return location.removesuffix(")") if name == str(table) and location else None


def _last_of(history: History, run: Assignment, known: TableIdentity | None) -> tuple[int, str]:
    """Find the last commit of the run, else the one that is known, else one of the pipeline."""
    of_pipeline = None
    commits = deltalog.standing_commits(history.versions, history.read)
    for commit in itertools.islice(commits, _LATEST):
        if known is None and commit.turns_back:
            break  # what is adopted is the table as it was restored
        version, said = commit.version, commit.metadata
        if said.get("run_id") == run.run_id:
            return version, run.run_id
        if of_pipeline is None and run.pipeline and said.get("pipeline") == run.pipeline:
            of_pipeline = version, str(said.get("run_id") or "")
        if known and version <= known.version:
            break
    if known and known.id == history.id and known.version <= history.versions[-1]:
        return known.version, known.run_id
    return of_pipeline or (history.versions[-1], "")
