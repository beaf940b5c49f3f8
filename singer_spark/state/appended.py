"""How far failed runs got with streams whose rows nothing tells apart.

Their rows are in the table, but the stored state does not know them: a run that began from it once
more would append them twice. Where nothing but such runs happened since the state was stored, the
bookmark of the table's newest commit is where the next run begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from singer_spark import deltalog, digits
from singer_spark.deltalog import CommitInfo
from singer_spark.state.create import create_state_store
from singer_spark.state.generation import Attempt
from singer_spark.state.objects import ObjectStore


class Reached(NamedTuple):
    """How far a failed run got with a stream."""

    run_id: str
    bookmark: Any
    has_lost_rows: bool = False


def find_reached(
    place: Mapping[str, str], pipeline: str, attempts: Mapping[str, Attempt]
) -> dict[str, Reached]:
    """Look for the bookmarks that failed runs have reached, by stream of the tap.

    Args:
        place: Where the tables are.
        pipeline: The pipeline's name.
        attempts: The runs that have not succeeded since the state was stored.
    """
    found: dict[str, list[Reached | None]] = {}
    for commit in _newest_commits(create_state_store(dict(place)).objects, pipeline):
        said = commit.metadata
        stream = str(said.get("state_of") or said.get("stream"))
        found.setdefault(stream, []).append(_reached(commit, stream, attempts))
    # Of tables that one stream fills, one may lie behind the other: they begin from the state.
    return {stream: one for stream, (one, *more) in found.items() if one and not more}


def move_to(state: Mapping[str, Any], stream: str, bookmark: Any) -> Mapping[str, Any] | None:
    """Return the state with another bookmark; None where it has that one, or is none of our tap."""
    if state and "bookmarks" not in state:
        return None
    moved = {**state, "bookmarks": {**(state.get("bookmarks") or {}), stream: bookmark}}
    return None if digits.canonical(moved) == digits.canonical(state) else moved


def _reached(commit: CommitInfo, stream: str, attempts: Mapping[str, Attempt]) -> Reached | None:
    said = commit.metadata
    run_id, bookmark = str(said.get("run_id")), said.get("state")
    attempt = attempts.get(run_id)
    if attempt is None or not bookmark or stream in attempt.settled:
        return None
    # What was appended to older rows leads on from the state that the run began from; what took
    # the place of all rows is true whatever that was.
    is_appended = said.get("appends") is True and not {stream, "*"} & {*attempt.fresh}
    if is_appended or said.get("replaces") is True:
        return Reached(run_id, bookmark, has_lost_rows=is_appended and _lacks_rows(commit))
    return None


def _lacks_rows(commit: CommitInfo) -> bool:
    """Say whether a run could not take back what it wrote too little of."""
    written = commit.metric("numOutputRows")
    return written is not None and written < int(commit.metadata["rows"])


def _newest_commits(objects: ObjectStore, pipeline: str) -> Iterator[CommitInfo]:
    """Give of each table the newest commit of a pipeline that wrote rows."""
    for entry in sorted(objects.list("")):
        if entry.endswith("/") and not entry.startswith(("_", ".")):
            commit = _newest_commit(objects, entry, pipeline)
            if commit:
                yield commit


def _newest_commit(objects: ObjectStore, table: str, pipeline: str) -> CommitInfo | None:
    undone: int | None = None
    for version in reversed(deltalog.log_versions(objects, table)):
        if version == undone:
            continue
        commit = deltalog.commit_info(objects, version, table)
        if commit is not None and commit.undoes is not None:
            undone = commit.undoes
            continue
        if commit is None or commit.turns_back:
            return None
        said = commit.metadata
        if said.get("pipeline") == pipeline and said.get("rows") is not None:
            return commit
    return None
