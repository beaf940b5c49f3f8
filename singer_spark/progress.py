"""Signs of life from inside Spark, for a runner that would otherwise see nothing for long.

A sort or a MERGE of a large table sends no message and makes no commit for as long as it lasts, but
its tasks read and write rows and end one after another. Without a runner nothing is reported.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, final

from singer_spark.report import REPORT_FILE, report

INTERVAL_SECONDS = 10.0


def report_progress(doing: str = "") -> None:
    """Report that something moved, and what begins now that may take long."""
    report("progress", "", command=Path(sys.argv[0]).name, doing=doing)


@final
class Pulse:
    """Reports that something moved, at most once in ten seconds."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._reported = float("-inf")

    def beat(self) -> None:
        """Say that something moved just now."""
        now = time.monotonic()
        if now - self._reported >= INTERVAL_SECONDS:
            self._reported = now
            report_progress(self._doing)


@contextmanager
def watch_folder(folder: Path, doing: str) -> Iterator[None]:
    """Report, while something is done, whenever the files of a folder have grown."""
    if not os.environ.get(REPORT_FILE):
        yield
        return
    done, pulse = threading.Event(), Pulse(doing)

    def watch() -> None:
        before = 0
        while not done.wait(INTERVAL_SECONDS):
            with suppress(OSError):  # files come and go
                now = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
                if now != before:
                    pulse.beat()
                before = now

    thread = threading.Thread(target=watch, name="growth", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()


@final
class FinishedTasks:
    """Reports that tasks of Spark have moved; its client calls this whenever it hears of them."""

    def __init__(self) -> None:
        self._before = 0
        self._reported = float("-inf")

    def __call__(self, stages: Iterable[Any] | None, *_others: object, **_named: object) -> None:
        """Report if tasks have finished since, or have read more."""
        finished = sum(one.num_completed_tasks + one.num_bytes_read for one in stages or ())
        now = time.monotonic()
        if finished != self._before and now - self._reported >= INTERVAL_SECONDS:
            self._before, self._reported = finished, now
            with suppress(OSError):  # the run has ended
                report_progress()
