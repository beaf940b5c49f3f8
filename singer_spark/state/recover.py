"""A lost state, built again from the commits that it led to. Pure but for reading the logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from singer_spark import digits
from singer_spark.bookmark import DELTA_SNAPSHOT, FULL_TABLE
from singer_spark.deltalog import TableCommit, TableLog, read_logs
from singer_spark.errors import SettingsError, StateError
from singer_spark.state.create import UnknownSchemeError, create_state_store


@dataclass(frozen=True, slots=True)
class Recovery:
    """What the tables tell: the commits that carry a state, and the tables that tell nothing.

    `lacking` are the tables whose newest bookmark is not true, because its commit lacks rows.
    """

    place: str
    commits: tuple[TableCommit, ...]  # oldest first
    silent: tuple[TableLog, ...]
    lacking: tuple[TableLog, ...] = ()


def look_for_state(tables: str | Mapping[str, str], pipeline: str) -> Recovery:
    """Look for a pipeline's bookmarks in the Delta tables of a folder or bucket."""
    try:
        objects = create_state_store(tables).objects
    except UnknownSchemeError:
        raise SettingsError(
            "recover reads the logs of tables in a folder, s3://, gs:// or az://, and these are "
            f"elsewhere; name a folder: singer-spark state recover {pipeline} --tables PATH"
        ) from None
    logs = read_logs(objects, pipeline)
    if restored := [log.table for log in logs if log.restored_in is not None]:
        raise StateError(
            f"{objects.place}: {', '.join(restored)} was restored to an older version, so no "
            "bookmark of its commits is true; if its rows are appended remove it, then load it "
            f"afresh: singer-spark run {pipeline} --refresh STREAM, or --full"
        )
    commits = sorted(
        (log.commit for log in logs if log.commit), key=lambda commit: commit.committed_at
    )
    if not commits:
        raise StateError(f"{objects.place}: {_why_nothing(logs, pipeline)}")
    _refuse_several(commits, pipeline)
    return Recovery(
        objects.place,
        tuple(commits),
        silent=tuple(log for log in logs if not log.commit),
        lacking=tuple(log for log in logs if log.commit and log.lacking_in is not None),
    )


def _refuse_several(commits: Sequence[TableCommit], pipeline: str) -> None:
    """Refuse to go back to the bookmark of one table where another would get rows twice."""
    for stream in sorted({one.state_of for one in commits if one.appends}):
        tables = [one for one in commits if one.state_of == stream]
        if len({digits.canonical(one.state) for one in tables}) > 1:
            raise StateError(
                f"{stream}: its tables {', '.join(one.table for one in tables)} are at different "
                "bookmarks, and rows are appended to them; remove those that it fills no more, or "
                f"give the state: singer-spark state set {pipeline} FILE"
            )


def rebuild(before: Mapping[str, Any], commits: tuple[TableCommit, ...]) -> dict[str, Any]:
    """Lay what the commits tell over the stored state, which keeps what they do not know.

    A tap whose state has no `bookmarks` has its whole state in each commit: the newest counts. Of
    several tables that one stream of the tap fills the one counts that is furthest behind. A stream
    in the middle of a read begins anew, for its last slices make no commit where nothing is new;
    only what is appended goes on.
    """
    newest = commits[-1]
    if "bookmarks" not in before and (before or _is_whole(newest)):
        return {**before, **(newest.state if isinstance(newest.state, dict) else {})}
    bookmarks: dict[str, Any] = {}
    for commit in commits:
        bookmarks.setdefault(commit.state_of, _bookmark(commit))
    return {**before, "bookmarks": {**(before.get("bookmarks") or {}), **bookmarks}}


def _bookmark(commit: TableCommit) -> Any:
    if commit.appends or not isinstance(commit.state, dict):
        return commit.state
    middle = (FULL_TABLE, DELTA_SNAPSHOT)
    return {name: value for name, value in commit.state.items() if name not in middle}


def _is_whole(commit: TableCommit) -> bool:
    """Say whether a commit carries the state of all streams, each under its name."""
    return isinstance(commit.state, dict) and commit.state_of in commit.state


def explain_silence(log: TableLog) -> str:
    """Tell why a table has nothing to tell."""
    if log.lacking_in is not None:
        return f"version {log.lacking_in} lacks rows, and no bookmark before it is known"
    if log.is_cut:
        return (
            f"no bookmark since version {log.oldest}, where its log begins; "
            "older commits were cleaned up"
        )
    return "no commit of this pipeline carries a bookmark"


def explain_lack(log: TableLog, pipeline: str) -> str:
    """Tell why the newest bookmark of a table does not count, and what follows."""
    stream = log.commit.state_of if log.commit else log.table
    return (
        f"version {log.lacking_in} lacks rows, so an older bookmark counts; rows that came after "
        f"it would be there twice: load it anew, singer-spark run {pipeline} --refresh {stream}"
    )


def _why_nothing(logs: list[TableLog], pipeline: str) -> str:
    if not logs:
        return "there is no Delta table; look at the destination's path and default_target_schema"
    others = sorted(frozenset[str]().union(*(log.pipelines for log in logs)) - {pipeline})
    told = f"no commit of {pipeline} in {len(logs)} table(s) carries a bookmark"
    if others:
        return f"{told}, but commits of {', '.join(others)} do; is the name right?"
    if any(log.is_cut for log in logs):
        return f"{told}; older commits were cleaned up, so set the state by hand (state set)"
    return f"{told}; they were not loaded by singer-spark run, so set the state by hand (state set)"
