"""Lines that Spark made, as blocks of bytes: from files on this machine, or by Arrow."""

from __future__ import annotations

import os
import re
import threading
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import count, takewhile
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from typing_extensions import override

from singer_spark.errors import SourceError
from singer_spark.scratch import TAP, make_scratch, remove_scratch

_FILE_ROWS = 20_000
_READ_BYTES = 2**20
_POLL_SECONDS = 0.05
_MARKER = "mapreduce.fileoutputcommitter.marksuccessfuljobs"
_PART = re.compile(r"(part-\d+-.*-c)(\d+)\.txt")


def spooled_blocks(lines: DataFrame) -> Iterator[bytes]:
    """Yield the lines, each with its line end, in blocks of bytes."""
    scratch = make_scratch(TAP)
    try:
        folder = scratch / "lines"
        writer = _Writer(lines, folder)
        writer.start()
        given: dict[str, int] = defaultdict(int)
        while True:
            is_last = not writer.is_alive()
            for task, paths in _complete(folder, given).items():
                yield from _blocks(task, paths, given)
            if is_last:
                break
            writer.join(_POLL_SECONDS)
        writer.check()
    finally:
        remove_scratch(scratch)


class _Writer(threading.Thread):
    """Runs the Spark job beside the copying; its error is raised by the one who waits."""

    def __init__(self, lines: DataFrame, folder: Path) -> None:
        super().__init__(name="spool", daemon=True)
        self._lines = lines
        self._folder = folder
        self.error: BaseException | None = None

    @override
    def run(self) -> None:
        """Write the lines; a task's files reach the folder when the task commits."""
        writer = self._lines.write.option("maxRecordsPerFile", _FILE_ROWS)
        writer = writer.option("mapreduce.fileoutputcommitter.algorithm.version", 2)
        try:
            # Not encoded: Spark takes a % for what it is.
            writer.option(_MARKER, "true").text(f"file://{self._folder}")
        except BaseException as error:  # noqa: BLE001 - handed over, not swallowed
            self.error = error

    def check(self) -> None:
        """Fail where the lines are not all in the folder."""
        if self.error is not None:
            raise self.error
        if not (self._folder / "_SUCCESS").exists():
            raise SourceError(
                f"Spark has not written its lines into {self._folder}; set TMPDIR to a folder that "
                "it can write to"
            )


def _complete(folder: Path, given: Mapping[str, int]) -> dict[str, list[Path]]:
    """List by task the next files that it no longer writes to, without a gap.

    A commit moves files one by one: a look meanwhile may find a later file and miss an earlier one.
    """
    tasks: dict[str, dict[int, Path]] = defaultdict(dict)
    # Not Path.glob, which fails where a folder vanishes under it.
    for parent, _, names in os.walk(folder):
        for match in filter(None, map(_PART.fullmatch, names)):
            tasks[match[1]][int(match[2])] = Path(parent) / match[0]
    complete = {}
    for task, files in tasks.items():
        newest = max(files)
        closed = {n: path for n, path in files.items() if n < newest or path.parent == folder}
        following = takewhile(closed.__contains__, count(given.get(task, 0)))
        complete[task] = [closed[number] for number in following]
    return complete


def _blocks(task: str, paths: Sequence[Path], given: dict[str, int]) -> Iterator[bytes]:
    """Yield the lines of a task's next files, and count the files that were given out."""
    for path in paths:
        try:
            file = path.open("rb+")
        except FileNotFoundError:
            return  # just moved by its task's commit; the next look finds it there
        with file:
            given[task] += 1
            while block := file.read(_READ_BYTES):
                yield block
            # Emptied, not removed: the commit of its task fails where a file is missing.
            file.truncate(0)


LINE = "value"
BLOCK_BYTES = 64 * 2**20
_GROUP_ROWS = 1000


def fetched_blocks(lines: DataFrame) -> Generator[memoryview, None, int]:
    """Yield the lines as Arrow's own buffers, in blocks of at most 64 MB, or of one line.

    Return how many there are.

    The rows are kept by Spark meanwhile, so that the source is read once. Not by persist(): it
    would read lost rows again, and give their ids to others.
    """
    numbered = lines.select(
        F.concat(LINE, F.expr("'\\n'")).alias(LINE), F.monotonically_increasing_id().alias("id")
    )
    kept = numbered.localCheckpoint(eager=True)
    items = map(F.expr, ("count(*) as rows", "max(id) as last", "sum(bytes) as bytes"))
    table = _parts(kept).groupBy("part").agg(*items).toArrow()
    # Number, last id and bytes of some lines at a time, in their order.
    groups: list[dict[str, int]] = table.sort_by("part").to_pylist()
    for first, last in _ranges(kept, groups):
        table = kept.where(f"id between {first} and {last}").select(LINE).toArrow()
        for chunk in table.column(0).chunks:
            yield _bytes_of(chunk)
    return sum(group["rows"] for group in groups)


def _ranges(kept: DataFrame, groups: Sequence[Mapping[str, int]]) -> Iterator[tuple[int, int]]:
    """Yield ranges of ids whose lines are at most one block."""
    first, last, size = 0, -1, 0
    for end, length in _sizes(kept, groups):
        if size and size + length > BLOCK_BYTES:
            yield first, last
            first, size = last + 1, 0
        last, size = end, size + length
    if size:
        yield first, last


def _sizes(kept: DataFrame, groups: Sequence[Mapping[str, int]]) -> Iterator[tuple[int, int]]:
    """Yield last ids and bytes of groups of lines, of each line alone where they are large."""
    for group in groups:
        if group["bytes"] <= BLOCK_BYTES:
            yield group["last"], group["bytes"]
        else:
            single = _parts(kept).where(f"part = {group['part']}").toArrow().sort_by("id")
            yield from ((row["id"], row["bytes"]) for row in single.to_pylist())


def _parts(kept: DataFrame) -> DataFrame:
    return kept.selectExpr(f"id div {_GROUP_ROWS} as part", "id", f"octet_length({LINE}) as bytes")


def _bytes_of(chunk: Any) -> memoryview:
    """Return the values of a text column as the bytes that they are in memory."""
    _, offsets, values = chunk.buffers()
    flat = memoryview(offsets).cast("B")
    ends = flat.cast("q") if str(chunk.type) == "large_string" else flat.cast("i")
    start, end = ends[chunk.offset], ends[chunk.offset + len(chunk)]
    return memoryview(values if values is not None else b"")[start:end]
