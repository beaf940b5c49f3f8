"""INCREMENTAL on the files of a table: those that were not there, or not the same, before.

The bookmark holds the newest modification time that was read, and the names of the files that were
read and have it. With a lookback these are the files that are older by no more than that, each with
its time: so that a file that appears late with an older time, or is replaced by one, is found, and
no other one is read again. Files are read in the order of their times, some at a time.

A time that has not come yet never becomes that newest time, or every file until then would be
taken for an older one: files of the future are kept by name and time until their time has come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from singer_spark.errors import StateError
from tap_spark_source.plan.bookmark import FILES
from tap_spark_source.plan.read_plan import ReadPlan
from tap_spark_source.plan.warnings import warn
from tap_spark_source.readers.chunks import Chunk, Preview
from tap_spark_source.sources.files import FileSource, FoundFile

_CHUNK_FILES = 1000
# Clocks differ by a little.
_TOLERANCE = timedelta(minutes=1)


def chunks(source: FileSource, plan: ReadPlan) -> Iterator[Chunk]:
    """Yield the rows of new files, so many files at a time."""
    seen = _seen(plan)
    there = source.files_of(plan.table)
    fresh = new_files(there, seen, lookback=plan.lookback)
    _warn_of_future(plan, seen, fresh)
    if not fresh:
        yield Chunk(bookmark=plan.bookmark, is_last=True)
    limit = plan.max_rows
    found = fresh if limit is None else _limited(source, plan, fresh, limit)
    for first in range(0, len(found), _CHUNK_FILES):
        some = found[first : first + _CHUNK_FILES]
        seen = seen_after(some, seen, lookback=plan.lookback, found=there)
        yield Chunk(
            frame=source.rows_of(source.wanted_rows_of(plan, some), plan),
            bookmark={**plan.bookmark, FILES: seen},
            is_last=first + len(some) == len(fresh),
        )


def preview(source: FileSource, plan: ReadPlan) -> Preview:
    """Describe the read by times of modification; how many rows come is not known."""
    seen = _seen(plan)
    found = new_files(source.files_of(plan.table), seen, lookback=plan.lookback)
    last = seen.get("modified")
    return Preview(last, found[-1].modified if found else last, None)


def new_files(
    found: Sequence[FoundFile], seen: Mapping[str, Any], *, lookback: float = 0
) -> list[FoundFile]:
    """Choose the files that were not read yet as they are, the oldest first."""
    lowest, times = _earlier(seen.get("modified", ""), lookback), _times(seen, found)
    late = (file for file in found if file.modified >= lowest)
    fresh = (file for file in late if times.get(file.name) != file.modified)
    return sorted(fresh, key=lambda file: (file.modified, file.name))


def seen_after(
    read: Sequence[FoundFile],
    seen: Mapping[str, Any],
    *,
    found: Sequence[FoundFile],
    lookback: float = 0,
) -> dict[str, Any]:
    """Return the bookmark after reading some of the files found, in their order."""
    times = _times(seen, found) | {file.name: file.modified for file in read}
    past = {file.name: file.modified for file in (*found, *read) if not file.is_future}
    # Beyond the last file that was read others may wait, before one of the future whose time came.
    same = [time for name, time in times.items() if past.get(name) == time]
    reached = [time for time in same if time <= read[-1].modified]
    newest = max([seen.get("modified", ""), *reached])
    lowest, there = _earlier(newest, lookback), {file.name for file in found}
    kept = {name: times[name] for name in sorted(times) if name in there and times[name] >= lowest}
    needs_times = lookback or any(time > newest for time in kept.values())
    known = {"modified": newest} if newest else {}
    return {**known, "names": kept if needs_times else list(kept)}


def _warn_of_future(plan: ReadPlan, seen: Mapping[str, Any], fresh: Sequence[FoundFile]) -> None:
    stream = plan.table.stream
    soon = (datetime.now(timezone.utc) + _TOLERANCE).isoformat(timespec="microseconds")
    ahead = [file for file in fresh if file.is_future and file.modified > soon]
    if ahead:
        warn(
            stream,
            f"{len(ahead)} files have a time of modification in the future, such as "
            f"{ahead[-1].name} of {ahead[-1].modified}; they are read, and so are later files: "
            "correct the clock that writes them",
        )
    if seen.get("modified", "") > soon:
        warn(
            stream,
            f"the bookmark's files are of {seen['modified']}, which is in the future; files that "
            f"came since and are older than that are not found: {plan.way_anew}",
        )


def _times(seen: Mapping[str, Any], found: Sequence[FoundFile]) -> dict[str, str]:
    """Return when the files of a bookmark were written, as they were read.

    Names alone are of files that have changed since only if they are newer than the bookmark.
    """
    names, newest = seen.get("names", ()), seen.get("modified", "")
    if isinstance(names, Mapping):
        return dict(names)
    known = set(names)
    known_files = (file for file in found if file.name in known)
    return {file.name: file.modified for file in known_files if file.modified <= newest}


def _earlier(modified: str, seconds: float) -> str:
    """Return the time so much earlier; times of one form are compared as texts."""
    if not (modified and seconds):
        return modified
    try:
        earlier = datetime.fromisoformat(modified) - timedelta(seconds=seconds)
    except OverflowError:
        return ""
    return earlier.isoformat(timespec="microseconds")


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
        first, size = first + size, min(2 * size, _CHUNK_FILES)
    return found


def _seen(plan: ReadPlan) -> Mapping[str, Any]:
    seen = plan.bookmark.get(FILES) or {}
    if not isinstance(seen, Mapping) or not _is_bookmark(seen):
        raise StateError(
            f"{plan.table.stream}: the bookmark's {FILES} must hold modified and names; correct "
            "it, or remove it to read every file again"
        )
    return seen


def _is_bookmark(seen: Mapping[str, Any]) -> bool:
    names = seen.get("names", [])
    texts = [*names, *names.values()] if isinstance(names, Mapping) else names
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        return False
    try:
        return "modified" not in seen or bool(datetime.fromisoformat(seen["modified"]).tzinfo)
    except (TypeError, ValueError):
        return False
