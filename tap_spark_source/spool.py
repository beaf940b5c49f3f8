"""Lines that Spark writes into files on this machine, handed out while it still writes.

A file is complete when the same task began the next one, or when the task has committed.
"""

from __future__ import annotations

import os
import re
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import override

from singer_spark.errors import SourceError
from singer_spark.scratch import TAP, make_scratch, remove_scratch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FILE_ROWS = 20_000
_BLOCK_BYTES = 2**20
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
            while block := file.read(_BLOCK_BYTES):
                yield block
            # Emptied, not removed: the commit of its task fails where a file is missing.
            file.truncate(0)
