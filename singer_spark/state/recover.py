"""A lost state, built again from the commits that it led to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from singer_spark import exact_json
from singer_spark.deltalog import CommitInfo, tables_in
from singer_spark.errors import SettingsError, StateError
from singer_spark.protocol import DELTA_SNAPSHOT, FULL_TABLE
from singer_spark.storage.objects import ObjectStore
from singer_spark.storage.open import UnknownSchemeError, open_objects


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommit:
    """A commit that carries the state which it made true."""

    table: str
    stream: str
    version: int
    committed_at: str
    run_id: str | None
    state: Any
    state_of: str  # the stream of the tap; the table's may have another name
    newer: int  # commits of the pipeline with rows, but without a state, after it
    appends: bool = False  # whether nothing tells its rows from others


@dataclass(frozen=True, slots=True)
class TableLog:
    """What a table's log tells of one pipeline: its newest commit with a state, if there is one."""

    table: str
    oldest: int
    commit: TableCommit | None
    pipelines: frozenset[str] = frozenset()  # whose commits were met on the way
    restored_in: int | None = None  # the version that turned it back behind its newest bookmark
    lacking_in: int | None = None  # the oldest version whose bookmark is not true: it lacks rows

    @property
    def is_cut(self) -> bool:
        """Tell that older commits were cleaned up."""
        return self.oldest > 0


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
        objects = open_objects(tables)
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


def read_logs(objects: ObjectStore, pipeline: str) -> list[TableLog]:
    """Read the logs of all tables in a folder."""
    return [
        _read_log(table, versions[0], commits, pipeline)
        for table, versions, commits in tables_in(objects)
    ]


def _read_log(table: str, oldest: int, commits: Iterable[CommitInfo], pipeline: str) -> TableLog:
    restored = lacking = None
    newer, names = 0, set[str]()
    for commit in commits:
        said = commit.metadata
        if restored is None and commit.turns_back:
            restored = commit.version
        if said.get("pipeline") == pipeline and said.get("state") is not None:
            if commit.lacks_rows:
                lacking = commit.version
            else:
                # What was committed before a RESTORE may be in the table no more.
                found = TableCommit(
                    table=table,
                    stream=commit.stream,
                    version=commit.version,
                    committed_at=commit.committed_at,
                    run_id=commit.run_id,
                    state=said["state"],
                    state_of=commit.source,
                    newer=newer,
                    appends=said.get("appends") is True,
                )
                known = found if restored is None else None
                return TableLog(table, oldest, known, restored_in=restored, lacking_in=lacking)
        newer += commit.wrote_rows_of(pipeline)
        names |= {str(said["pipeline"])} if said.get("pipeline") else set()
    return TableLog(table, oldest, None, frozenset(names), lacking_in=lacking)


def _refuse_several(commits: Sequence[TableCommit], pipeline: str) -> None:
    """Refuse to go back to the bookmark of one table where another would get rows twice."""
    for stream in sorted({one.state_of for one in commits if one.appends}):
        tables = [one for one in commits if one.state_of == stream]
        if len({exact_json.canonical(one.state) for one in tables}) > 1:
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
