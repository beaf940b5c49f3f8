"""Which streams have a bookmark, and what one holds while its stream is in the middle of a load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
