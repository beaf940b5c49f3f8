"""What our tap and target say to each other beyond the Singer standard.

Our tap writes the member `singer_spark` into SCHEMA; other targets ignore it. A target that
replaces or retires rows must know whether the rows that came are all that the source has:

    {"singer_spark": {"read": {"rows": "all"}}}
    {"singer_spark": {"read": {"rows": "range", "column": "updated_at",
                               "from": "2026-01-01", "to": "2026-02-01", "nulls": false}}}
    {"singer_spark": {"read": {"rows": "some", "why": "where"}}}

`again` in it, a `column` and a value, says below which bookmark a lookback reads known rows again.

Where stream_maps of the tap give a stream another name, `stream` is the one of its bookmark. The
marks of a bookmark tell that its stream is in the middle of a load.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MEMBER = "singer_spark"
ALL, RANGE, SOME = "all", "range", "some"
_AGAIN = ("column", "below")
# Why a read carries some rows: those that changed, each of them once.
CHANGES_ONLY = "changes only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which rows of its table a stream carries in this run."""

    # `all` of them; all of a `range`, which is those with `start` <= `column` < `end`; or `some`,
    # of which nothing is known.
    rows: str = ALL
    column: str | None = None  # the column of the range, a top-level property of the stream
    start: Any = None  # its first value as bookmarks write it; None is the beginning
    end: Any = None  # the value that it ends before; None is the end
    nulls: bool = False  # whether the range includes the rows that have no value in the column
    # What limits a read of `some` rows, in a word for messages: `where`, `sample`, …
    why: str | None = None
    # A column, and the value below which rows are read once more: what of them the table does not
    # have came late.
    again: tuple[str, Any] | None = None

    @property
    def is_whole(self) -> bool:
        """Say whether the stream carries every row of its table."""
        return self.rows == ALL

    def to_dict(self, engine: str | None = None) -> dict[str, Any]:
        """Return the member of a SCHEMA message, with the engine that a target may share."""
        read: dict[str, Any] = {"rows": self.rows}
        if self.rows == RANGE:
            read |= {"column": self.column, "nulls": self.nulls}
            bounds = {"from": self.start, "to": self.end}
            read |= {name: value for name, value in bounds.items() if value is not None}
        elif self.rows == SOME and self.why:
            read["why"] = self.why
        if self.again:
            read["again"] = dict(zip(_AGAIN, self.again, strict=True))
        return {"read": read, **({"engine": engine} if engine else {})}


def engine_of(message: Mapping[str, Any]) -> str | None:
    """Read which engine the tap runs on, for a target of the same pipe."""
    engine = _member(message, "engine")
    return engine if isinstance(engine, str) else None


def scope_of(message: Mapping[str, Any]) -> Scope | None:
    """Read what a SCHEMA message says; None where its tap says nothing that we understand."""
    read = _member(message, "read")
    if not isinstance(read, Mapping) or read.get("rows") not in (ALL, RANGE, SOME):
        return None
    column, why = read.get("column"), read.get("why")
    if read["rows"] == RANGE and not isinstance(column, str):
        return None
    return Scope(
        rows=read["rows"],
        column=column if isinstance(column, str) else None,
        start=read.get("from"),
        end=read.get("to"),
        nulls=read.get("nulls") is True,
        why=why if isinstance(why, str) else None,
        again=_again(read.get("again")),
    )


def _again(told: Any) -> tuple[str, Any] | None:
    column, below = (told.get(one) if isinstance(told, Mapping) else None for one in _AGAIN)
    return (column, below) if isinstance(column, str) and below is not None else None


def source_of(message: Mapping[str, Any]) -> str | None:
    """Read which stream of the tap a SCHEMA message is of, None where it says nothing else."""
    name = _member(message, "stream")
    return name if isinstance(name, str) and name else None


def _member(message: Mapping[str, Any], name: str) -> Any:
    member = message.get(MEMBER)
    return member.get(name) if isinstance(member, Mapping) else None


FULL_TABLE = "full_table"
DELTA_SNAPSHOT = "delta_snapshot"
PROGRESS_MARKERS = "progress_markers"  # of taps made with the SDK
# How many rows stand at the bookmark, and their digest.
AT_BOOKMARK = "at_bookmark"
# Ends the name of the stream that carries the late rows of another, and has no bookmark itself.
LATE = "__late"


def is_unfinished(bookmark: object) -> bool:
    """Say whether a bookmark tells that its stream, or a part of it, is not complete yet."""
    if not isinstance(bookmark, Mapping):
        return False
    parts = bookmark.get("partitions")
    return any(mark in bookmark for mark in (FULL_TABLE, DELTA_SNAPSHOT, PROGRESS_MARKERS)) or any(
        map(is_unfinished, parts if isinstance(parts, list) else ())
    )


def late_of(stream: str) -> str | None:
    """Name the stream whose late rows one carries, None where it is not named like that."""
    return stream.removesuffix(LATE) if stream.endswith(LATE) else None


def bookmarked(state: Mapping[str, Any]) -> frozenset[str]:
    """Name the streams that have a bookmark which is not empty."""
    bookmarks = state.get("bookmarks", state)
    known = bookmarks if isinstance(bookmarks, Mapping) else {}
    return frozenset(stream for stream, bookmark in known.items() if bookmark)
