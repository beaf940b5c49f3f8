"""INCREMENTAL on the files of a table: those that were not there, or not the same, before.

The bookmark holds the newest modification time that was read, and the names of the files that have
it. Files are read in the order of these, some at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from singer_spark.errors import StateError
from tap_spark_source.plan import ReadPlan
from tap_spark_source.sources import FileSource, FoundFile
from tap_spark_source.ways.piece import Piece

FILES = "files"
_PIECE_FILES = 1000


def pieces(source: FileSource, plan: ReadPlan) -> Iterator[Piece]:
    """Yield the rows of new files, so many files at a time."""
    seen = _seen(plan)
    found = new_files(source.files_of(plan.table), seen)
    if not found:
        yield Piece(bookmark=plan.bookmark, is_last=True)
    if plan.max_rows is not None:
        found = _limited(source, plan, found, plan.max_rows)
    for first in range(0, len(found), _PIECE_FILES):
        some = found[first : first + _PIECE_FILES]
        seen = seen_after(some, seen)
        yield Piece(
            frame=source.rows_of(source.wanted_rows_of(plan, some), plan),
            bookmark={**plan.bookmark, FILES: seen},
            is_last=first + _PIECE_FILES >= len(found),
        )


def span(source: FileSource, plan: ReadPlan) -> tuple[str | None, str | None]:
    """Return the times of modification that were read last and that this run ends with."""
    seen = _seen(plan)
    found = new_files(source.files_of(plan.table), seen)
    return seen.get("modified"), found[-1].modified if found else seen.get("modified")


def new_files(found: Sequence[FoundFile], seen: Mapping[str, Any]) -> list[FoundFile]:
    """Choose the files that were not read yet, the oldest first; a replaced file is newer."""
    newest, names = seen.get("modified", ""), set(seen.get("names", ()))
    fresh = [
        file
        for file in found
        if file.modified > newest or (file.modified == newest and file.name not in names)
    ]
    return sorted(fresh, key=lambda file: (file.modified, file.name))


def seen_after(read: Sequence[FoundFile], seen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the bookmark after reading some files in their order."""
    newest = read[-1].modified
    names = {file.name for file in read if file.modified == newest}
    if seen.get("modified") == newest:
        names |= set(seen.get("names", ()))
    return {"modified": newest, "names": sorted(names)}


def _limited(
    source: FileSource, plan: ReadPlan, found: list[FoundFile], most: int
) -> list[FoundFile]:
    """Return the first files that together hold so many rows; a file is never torn.

    More and more files are counted at a time, about as many as are then read.
    """
    first, size, rows = 0, 1, 0
    while first < len(found):
        counts = source.count_by_file(plan, found[first : first + size])
        for number, count in enumerate(counts, start=first + 1):
            rows += count
            if rows >= most:
                return found[:number]
        first, size = first + size, min(2 * size, _PIECE_FILES)
    return found


def _seen(plan: ReadPlan) -> Mapping[str, Any]:
    seen = plan.bookmark.get(FILES) or {}
    if (
        not isinstance(seen, Mapping)
        or not isinstance(seen.get("modified", ""), str)
        or not isinstance(seen.get("names", []), list)
    ):
        raise StateError(
            f"{plan.table.stream}: the bookmark's {FILES} must hold modified and names; correct "
            "it, or remove it to read every file again"
        )
    return seen
