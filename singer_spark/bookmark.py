"""Which streams have a bookmark, and what one holds while its stream is in the middle of a load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FULL_TABLE = "full_table"
DELTA_SNAPSHOT = "delta_snapshot"
PROGRESS_MARKERS = "progress_markers"  # of taps made with the SDK


def is_unfinished(bookmark: object) -> bool:
    """Say whether a bookmark tells that its stream, or a part of it, is not complete yet."""
    if not isinstance(bookmark, Mapping):
        return False
    parts = bookmark.get("partitions")
    return any(mark in bookmark for mark in (FULL_TABLE, DELTA_SNAPSHOT, PROGRESS_MARKERS)) or any(
        map(is_unfinished, parts if isinstance(parts, list) else ())
    )


def bookmarked(state: Mapping[str, Any]) -> frozenset[str]:
    """Name the streams that have a bookmark which is not empty."""
    bookmarks = state.get("bookmarks", state)
    known = bookmarks if isinstance(bookmarks, Mapping) else {}
    return frozenset(stream for stream, bookmark in known.items() if bookmark)
