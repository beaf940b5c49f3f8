"""Rows that others have put into a table: runs that failed, and other pipelines.

A run that began before the rows of a failed one would append them once more. What one pipeline has
loaded is never replaced unasked by another.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from singer_spark import deltalog, exact_json
from singer_spark.assignment import Assignment
from singer_spark.deltalog import CommitInfo
from singer_spark.errors import DataError, StateError, TransientError
from singer_spark.protocol import FULL_TABLE
from singer_spark.report import report
from target_spark_delta.table.identity import History, StreamTable, history_of
from target_spark_delta.table.table import Table, answer

_FEW_COMMITS = 10
_REPLACING = ("CREATE OR REPLACE TABLE AS SELECT", "REPLACE TABLE AS SELECT")


def check_failed_runs(
    it: StreamTable, spark: SparkSession | None, others: Collection[Table] = ()
) -> bool:
    """Refuse to append to a table that has rows of a failed run, which the start does not know.

    A run that was paused may have committed them since the runner looked at the table. Where the
    runner could not look, how far they go is reported, so that `--resume` goes on from there. The
    stream fills the `others` too. Return whether it could be judged.
    """
    table, run, stream = it.table, it.run, it.source
    if not run.failed:
        return True
    histories = [history_of(one, None, spark) for one in (table, *others)]
    if None in histories:
        return False
    left, *beside = [_rows_of_failed_run(history, run, stream) for history in histories if history]
    if left is None or (run.begins or {}).get(stream) == _bookmark(left):
        return True
    run_id, seen = left.metadata.get("run_id"), run.read.get(table.name)
    if seen is not None:
        if left.version <= seen:
            return True  # the runner has found this start right
        raise TransientError(
            f"stream {stream}: {table}: run {run_id}, which was paused or unlocked, has committed "
            f"rows since this run began; begin after them: singer-spark run {run.pipeline}"
        )
    raise StateError(
        f"stream {stream}: {table} has rows that run {run_id}, which failed, left, and nothing "
        f"tells them from those to come; {_way_on(run, stream, left, beside)}"
    )


def _rows_of_failed_run(history: History, run: Assignment, stream: str) -> CommitInfo | None:
    """Find the newest rows of a table, if a failed run has left them and says how far they go."""
    commits = deltalog.standing_commits(history.versions, history.read)
    newest = deltalog.newest_rows(commits, run.pipeline)
    if newest is None or not newest.metadata.get("state"):
        return None
    attempt = run.failed.get(str(newest.metadata.get("run_id")))
    return newest if attempt and attempt.counts_for(stream) else None


def _bookmark(commit: CommitInfo) -> str:
    return exact_json.canonical(commit.metadata["state"])


def _way_on(
    run: Assignment, stream: str, left: CommitInfo, beside: Sequence[CommitInfo | None]
) -> str:
    """Say how a run goes on after rows that the runner could not see, in all tables of a stream."""
    anew = f"and load it anew: singer-spark run {run.pipeline} --refresh {stream}"
    are_at_one = all(one and _bookmark(one) == _bookmark(left) for one in beside)
    if not are_at_one or len(beside) + 1 < run.tables_of(stream):
        # Another table may not have them: no start is right for all.
        return f"remove all tables of the stream, {anew}"
    if any(one and one.lacks_rows for one in (left, *beside)):
        return f"remove it, {anew}"
    report("reached", stream, bookmark=exact_json.dumps(left.metadata["state"]))
    return f"go on after them: singer-spark run {run.pipeline} --resume"


def check_start(it: StreamTable, spark: SparkSession | None, *, by_name: bool) -> bool:
    """Refuse to append a stream from its very start to a table that has its rows.

    Its bookmark is lost: the table's own commits know one. A full read that is appended because
    someone chose that `by_name` never has one, and is appended each time. Return whether it could
    be judged.
    """
    table, run, stream = it.table, it.run, it.source
    if not run.begins_afresh(stream) or (by_name and run.rereads):
        return True
    history = history_of(table, None, spark)
    if history is None or not _has_rows_of(history, run, by_name=by_name):
        return history is not None
    if spark is None:
        return False
    if not spark.sql(f"select 1 from {table.sql} limit 1").isEmpty():
        raise StateError(
            f"stream {stream}: {table} has its rows, but the state has no bookmark, so that they "
            "would be appended once more; remove the table, or find the bookmark: "
            f"singer-spark state recover {run.pipeline}"
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


class NotOursError(DataError):
    """A table is not this pipeline's alone. Say how it is to be loaded, or load into another."""

    def __init__(self, table: Table, why: str) -> None:
        self.why = f"{table} {why}"
        super().__init__(
            f"{self.why}, so a read of a stream without a key does not replace it; set load_method "
            "overwrite or append-only in stream_options, or load into another path"
        )


def check_owner(spark: SparkSession, table: Table, pipeline: str | None) -> None:
    """Refuse to replace a table that another pipeline loads, or that nobody of ours has made."""
    # The newest commits nearly always decide; all of a long log take seconds to read.
    if not _is_known(_commits(spark, table, f"limit {_FEW_COMMITS}"), table, pipeline):
        _is_known(_commits(spark, table, ""), table, pipeline, are_all=True)


def _commits(spark: SparkSession, table: Table, limit: str) -> list[dict[str, Any]]:
    return answer(spark, f"describe history {table.sql} {limit}")


def _is_known(
    commits: Iterable[Mapping[str, Any]],
    table: Table,
    pipeline: str | None,
    *,
    are_all: bool = False,
) -> bool:
    """Say whether commits, newest first, leave no doubt that a table is this pipeline's."""
    is_ours, oldest = False, 0
    for commit in commits:
        oldest = commit["version"]
        said = _said(commit["userMetadata"])
        if said is None:
            continue
        owner = said.get("pipeline")
        if owner is not None and owner != pipeline:
            raise NotOursError(table, f"is loaded by the pipeline {owner} too")
        is_ours = True
        if owner == pipeline and _replaces(commit):
            # Then it was this pipeline's alone.
            return True
    if are_all and not is_ours:
        raise NotOursError(table, "was not made by this target, as far as its log tells")
    return oldest == 0 and is_ours


def _said(text: str | None) -> dict[str, Any] | None:
    """Read what a commit of ours says of itself; of others nothing is known."""
    try:
        said = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) and {"pipeline", "run_id"} <= said.keys() else None


def _replaces(commit: Mapping[str, Any]) -> bool:
    """Say whether a commit has replaced all rows."""
    parameters = dict(commit["operationParameters"] or ())
    is_whole = parameters.get("mode") == "Overwrite" and parameters.get("predicate", "[]") == "[]"
    return commit["operation"] in _REPLACING or (commit["operation"] == "WRITE" and is_whole)
