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
from singer_spark.names import listed
from singer_spark.report import report
from target_spark_delta.table.log import LOCATIONS, local_folder, location_of, log_files
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
    known = table.detail(spark)["id"]
    columns = "version", "operation", "userMetadata", "operationMetrics"
    rows = spark.sql(f"describe history {table.sql}").select(*columns).toArrow().to_pylist()
    commits = {
        row["version"]: CommitInfo(
            version=row["version"],
            operation=str(row["operation"]),
            metadata=deltalog.parsed(row["userMetadata"]),
            metrics=dict(row["operationMetrics"] or ()),
        )
        for row in rows
    }
    return History(known, sorted(commits), commits.get)


def misfit(known: TableIdentity, history: History, written: Collection[int] = ()) -> str | None:
    """Say why a table is not the one that the pipeline has loaded, None if it is.

    Args:
        known: The table as it was left.
        history: What its log says now.
        written: The versions that need not be looked at, because this run has made them.
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


def check(
    known: TableIdentity, table: Table, run: Assignment, stream: str, spark: SparkSession | None
) -> bool:
    """Refuse a table that is not the one that the stored state belongs to.

    Args:
        known: The table as the pipeline left it.
        table: Where the stream goes now.
        run: The run.
        stream: The tap's name of the stream.
        spark: A session, where the log's files are out of reach.

    Returns:
        Whether it could be judged.

    Raises:
        StateError: The state is ahead of the table.
    """
    if known.is_absent:
        return True
    history = history_of(table, known, spark)
    if history is None:
        return False
    if why := misfit(known, history):
        raise StateError(
            f"stream {stream}: {table}: {why}, so the state is ahead; "
            f"{run.ways_on(known.state_of or stream, known.key)}"
        )
    return True


def check_name(table: Table, run: Assignment, stream: str, source: str) -> None:
    """Refuse a table that the stored state was never loaded into, under whatever name.

    Args:
        table: Where the stream goes now.
        run: The run.
        stream: The stream, as stream_maps call it.
        source: The tap's name of it.

    Raises:
        StateError: The state belongs to tables of other names.
    """
    others = [
        name
        for name, one in run.tables.items()
        if (one.state_of or name) == source and not one.is_absent
    ]
    if stream not in run.tables and others:
        raise StateError(
            f"stream {source}: {table}: it was loaded into {listed(others, 2)} before, so the "
            f"state is ahead; {run.ways_on(source, run.tables[others[0]].key)}"
        )


def check_end(
    known: TableIdentity | None,
    history: History,
    table: Table,
    run: Assignment,
    stream: str,
    written: Collection[int],
) -> None:
    """Refuse a table that was removed, made anew or restored while the run loaded it.

    Args:
        known: The table as it was left before; None where the run needs nothing of that.
        history: What its log says now.
        table: Where the stream goes.
        run: The run.
        stream: The tap's name of the stream.
        written: The versions that this run has made.

    Raises:
        StateError: It lacks rows.
    """
    expected = [known] if known and not known.is_absent else []
    if written:
        known_id = expected[0].id if expected else history.id or ""
        version = min(written)
        location, run_id = str(table), run.run_id
        expected.append(
            TableIdentity(location=location, id=known_id, version=version, run_id=run_id)
        )
    for one in expected:
        if why := misfit(one, history, written):
            raise StateError(
                f"stream {stream}: {table} changed while the run loaded it: {why}; "
                f"{run.ways_on(stream, known.key if known else ())}"
            )


def tell(
    history: History,
    table: Table,
    run: Assignment,
    stream: str,
    key: Sequence[str],
    spark: SparkSession | None,
    source: str | None = None,
) -> None:
    """Report the identity of a stream's table to the runner, if there is one.

    Args:
        history: What its log says.
        table: The table.
        run: The run.
        stream: The stream.
        key: What its rows are merged by.
        spark: A session, where the log's files are out of reach.
        source: The stream of the tap, which may have another name.
    """
    known = run.tables.get(stream)
    if history.versions and history.id is not None:
        version, run_id = _last_of(history, run, known)
        location = _location(table, known, spark) or str(table)
        now = TableIdentity(
            location=location if table.path else f"{table} ({location})",
            id=history.id,
            version=version,
            run_id=run_id,
            key=tuple(key),
            state_of=None if source == stream else source,
        )
        report("table", stream, **now.to_dict())


def tell_absent(table: Table, run: Assignment, stream: str, source: str) -> None:
    """Report that there is no table yet, so that the first rows that come are welcome."""
    absent = TableIdentity(
        location=str(table), id="", version=-1, run_id=run.run_id, state_of=source
    )
    report("table", stream, **absent.to_dict())


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
