"""How far failed runs got with streams whose rows nothing tells apart.

Their rows are in the table, but the stored state does not know them: a run that began from it once
more would append them twice. Where nothing but such runs happened since the state was stored, the
bookmark of the table's newest commit is where the next run begins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from singer_spark import exact_json
from singer_spark.assignment import EVERY_STREAM, Attempt
from singer_spark.deltalog import CommitInfo, newest_rows, tables_in
from singer_spark.protocol import bookmarked
from singer_spark.storage.open import open_objects


class Reached(NamedTuple):
    """How far a failed run got with a stream.

    `run_id` and `bookmark` are those of the newest commit; `tables` are named as the target names
    their streams. `is_afresh` says that the run began the stream without a bookmark, `replaces`
    that its rows took the place of all others.
    """

    run_id: str
    bookmark: Any
    tables: tuple[str, ...]
    is_afresh: bool = False
    replaces: bool = False
    has_lost_rows: bool = False
    is_torn: bool = False  # the stream's tables are not at one bookmark
    others: tuple[str, ...] = ()  # tables of the stream that the run has not written to


class Found(NamedTuple):
    """How far failed runs got, by stream of the tap, and the versions of the tables that say so.

    `has_appended` tells that the pipeline, in whatever run, has appended to a table last.
    """

    streams: Mapping[str, Reached]
    versions: Mapping[str, int]
    has_appended: bool


class Known(NamedTuple):
    """What the runner knows of the streams."""

    state: Mapping[str, Any]  # the stored state, which the attempts lead on from
    attempts: Mapping[str, Attempt]  # the runs that have not succeeded since it was stored
    # Names the tables that a stream is known to fill.
    tables: Callable[[str], Collection[str]] = lambda _: ()
    # Counts the tables that a stream fills by its settings.
    width: Callable[[str], int] = lambda _: 1
    # Returns the bookmark that a failed target has released; every table has that.
    released: Callable[[str], Any] = lambda _: None

    def begins_afresh(self, stream: str, fresh: Collection[str]) -> bool:
        """Say whether a stream is read without a bookmark, by itself or because it is asked."""
        return bool({stream, EVERY_STREAM} & {*fresh}) or stream not in bookmarked(self.state)


def find_reached(place: Mapping[str, str], pipeline: str, known: Known) -> Found:
    """Look for the bookmarks that failed runs have reached in the tables of a place."""
    newest: dict[str, list[CommitInfo]] = {}
    versions: dict[str, int] = {}
    for table, listed, commits in tables_in(open_objects(place)):
        versions[table] = listed[-1]
        if commit := newest_rows(commits, pipeline):
            newest.setdefault(commit.source, []).append(commit)
    found = {stream: _joined(stream, commits, known) for stream, commits in newest.items()}
    return Found(
        {stream: reached for stream, reached in found.items() if reached},
        versions,
        any(_is_plain(one) for commits in newest.values() for one in commits),
    )


def move_to(state: Mapping[str, Any], stream: str, bookmark: Any) -> Mapping[str, Any] | None:
    """Return the state with another bookmark; None where it has that one, or is none of our tap."""
    if state and "bookmarks" not in state:
        return None
    moved = {**state, "bookmarks": {**(state.get("bookmarks") or {}), stream: bookmark}}
    return None if exact_json.canonical(moved) == exact_json.canonical(state) else moved


def _joined(stream: str, commits: Sequence[CommitInfo], known: Known) -> Reached | None:
    """Judge a stream by the newest commits of all its tables.

    Where they are not at one bookmark, no start is right for all of them: rows would be missing in
    one, or be there twice in another. A table that no failed run wrote to may have had no row, or
    not have got it; only a STATE that was released tells.
    """
    left = [one for one in commits if _is_left(one, stream, known.attempts)]
    others = known.tables(stream)
    # One that the stream does not fill any more may lie there still.
    behind = [one for one in commits if one not in left and (not others or one.stream in others)]
    if not any(_is_plain(one) or _replaces(one) for one in left):
        return None
    newest = max(left, key=lambda one: one.committed_at)
    bookmarks = {exact_json.canonical(one.metadata["state"]) for one in left}
    attempts = [known.attempts[str(one.run_id)] for one in left]
    afresh = {known.begins_afresh(stream, one.fresh) for one in attempts}
    width = max(known.width(stream), len({*others}), len(left) + len(behind))
    is_released = bookmarks == {exact_json.canonical(known.released(stream))}
    is_whole = len(left) >= width or is_released
    return Reached(
        run_id=str(newest.run_id),
        bookmark=newest.metadata["state"],
        tables=tuple(sorted(one.stream for one in left)),
        is_afresh=True in afresh,
        replaces=not any(map(_is_plain, left)),
        has_lost_rows=any(one.lacks_rows for one in left),
        is_torn=len(bookmarks) > 1 or len(afresh) > 1 or not is_whole,
        others=tuple(
            sorted({*others, *(one.stream for one in behind)} - {one.stream for one in left})
        ),
    )


def _is_left(commit: CommitInfo, stream: str, attempts: Mapping[str, Attempt]) -> bool:
    """Say whether a failed run left the commit, and it says how far that got."""
    attempt = attempts.get(str(commit.run_id))
    has_bookmark = bool(commit.metadata.get("state"))
    return attempt is not None and has_bookmark and attempt.counts_for(stream)


def _is_plain(commit: CommitInfo) -> bool:
    return commit.metadata.get("appends") is True and not _replaces(commit)


def _replaces(commit: CommitInfo) -> bool:
    return commit.metadata.get("replaces") is True
