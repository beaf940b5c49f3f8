"""Is a table the one that the stored state belongs to? Judged by its log, without Spark if it can.

A table that was removed, restored or is at another place lacks rows that the state says are there.
Only the runner remembers tables, so in a plain pipe nothing is compared.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from singer_spark import deltalog, digits
from singer_spark.assignment import Assignment, TableIdentity
from singer_spark.bookmark import FULL_TABLE
from singer_spark.deltalog import CommitInfo
from singer_spark.errors import SingerSparkError, StateError
from singer_spark.report import report
from target_spark_delta.files import local_folder, log_files
from target_spark_delta.log import LOCATIONS, location_of
from target_spark_delta.table import Table

_LATEST = 50


@dataclass(frozen=True, slots=True)
class History:
    """What a table's log says.

    Args:
        id: The id that Delta gave the table; None where it cannot be found.
        versions: The versions whose commits are listed, lowest first; none without a table.
        read: Reads what the commit of a version says of itself.
    """

    id: str | None
    versions: Sequence[int]
    read: Callable[[int], CommitInfo | None]


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
        return History(None, (), lambda _: None)
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


def misfit(known: TableIdentity, history: History) -> str | None:
    """Say why a table is not the one that the pipeline has loaded, None if it is."""
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
        later = history.read(version) if version > known.version else None
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
    history = _history(table, known, spark)
    if history is None:
        return False
    if why := misfit(known, history):
        raise StateError(
            f"stream {stream}: {table}: {why}, so the state is ahead of it; "
            f"{run.ways_on(stream, known.key)}"
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
            f"stream {source}: {table}: it was loaded into {', '.join(others)} before, so the "
            f"state is ahead of this table; {run.ways_on(source, run.tables[others[0]].key)}"
        )


def check_unread(spark: SparkSession, table: Table, run: Assignment, stream: str) -> None:
    """Refuse to append to a table that has rows of a failed run, which the state does not know.

    How far that run got is reported, so that `--resume` goes on from there.

    Args:
        spark: A session, for the log's files are out of the runner's reach.
        table: Where the stream goes.
        run: The run.
        stream: The tap's name of the stream.

    Raises:
        StateError: They would be there twice.
    """
    history = history_by_spark(spark, table)
    for commit in deltalog.standing_commits(history.versions, history.read):
        if commit.turns_back:
            return
        if not commit.wrote_rows_of(run.pipeline):
            continue
        reached, run_id = commit.metadata.get("state"), str(commit.metadata.get("run_id"))
        is_left = run_id in run.unread and stream not in run.unread[run_id]
        begins = (run.begins or {}).get(stream)
        if not is_left or not reached or begins == digits.canonical(reached):
            return
        way = f"remove it, and load it anew: singer-spark run {run.pipeline} --refresh {stream}"
        if run.may_fill_several(stream):
            # Another table may not have them: no start is right for all.
            way = way.replace("remove it", "remove all tables of the stream")
        elif not commit.lacks_rows:
            report("reached", stream, bookmark=digits.dumps(reached))
            way = f"go on after them: singer-spark run {run.pipeline} --resume"
        raise StateError(
            f"stream {stream}: {table} has rows that run {run_id} left before it failed, and "
            f"nothing tells them from those to come; {way}"
        )


def check_start(
    table: Table, run: Assignment, stream: str, spark: SparkSession | None, *, by_name: bool
) -> bool:
    """Refuse to append a stream from its very start to a table that has its rows.

    Its bookmark is lost: the table's own commits know one. A full read that is appended because
    someone chose that never has one, and is appended each time.

    Args:
        table: Where the stream goes.
        run: The run.
        stream: The tap's name of the stream, whose rows nothing tells apart.
        spark: A session, where the log's files are out of reach, or rows are looked for.
        by_name: Whether it is appended because someone chose that.

    Returns:
        Whether it could be judged.

    Raises:
        StateError: The rows would be there twice.
    """
    if not run.begins_afresh(stream) or (by_name and run.rereads):
        return True
    history = _history(table, None, spark)
    if history is None or not _has_rows_of(history, run, by_name=by_name):
        return history is not None
    if spark is None:
        return False
    if not spark.sql(f"select 1 from {table.sql} limit 1").isEmpty():
        raise StateError(
            f"stream {stream}: {table} has rows of it, but the state has no bookmark, and all of "
            "it would be appended once more; find the bookmark: singer-spark state recover "
            f"{run.pipeline}, or remove the table and run again"
        )
    return True


def _has_rows_of(history: History, run: Assignment, *, by_name: bool) -> bool:
    """Say whether commits that stand have rows of a stream which has a bookmark after them."""
    for commit in deltalog.standing_commits(history.versions, history.read):
        if commit.turns_back and "RESTORE" not in commit.operation:
            return False
        is_own = commit.metadata.get("run_id") == run.run_id
        if is_own or not commit.wrote_rows_of(run.pipeline):
            continue
        reached = commit.metadata.get("state")
        if not by_name:
            return True
        if reached is not None:
            return bool(reached) and FULL_TABLE not in reached
    return False


def tell(
    table: Table,
    run: Assignment,
    stream: str,
    key: Sequence[str],
    spark: SparkSession | None,
    source: str | None = None,
) -> bool:
    """Report the identity of a stream's table to the runner; return whether it could be told.

    Args:
        table: The table.
        run: The run.
        stream: The stream.
        key: What its rows are merged by.
        spark: A session, where the log's files are out of reach.
        source: The stream of the tap, which may have another name.
    """
    known = run.tables.get(stream)
    history = _history(table, known, spark)
    if history is None:
        return False
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
    return True


def tell_absent(table: Table, run: Assignment, stream: str, source: str) -> None:
    """Report that there is no table yet, so that the first rows that come are welcome."""
    absent = TableIdentity(
        location=str(table), id="", version=-1, run_id=run.run_id, state_of=source
    )
    report("table", stream, **absent.to_dict())


def _history(
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
