"""What tap and target tell the runner beside their messages: one JSON line per fact.

The runner names a file in SINGER_SPARK_REPORT; without one nothing is told. Kinds of facts:

- `expected` (tap): about how many `rows` a stream's read will give.
- `batch` (tap): how many `rows` and `bytes` went into files, of which a BATCH tells no number.
- `limited` (tap): `max_rows` ended the stream's read; another run goes on from there.
- `source` (tap, stream ""): the identity of the source, as `singer_spark.assignment` has it.
- `commit` (target): `rows` of a batch that were taken in; of them `inserted`, `updated`, `deleted`,
  and `unchanged`, left out because the table has them; `milliseconds`.
- `writes` (target): a commit with rows of the stream is about to be made.
- `table` (target): the identity of the stream's table after a commit, the last one included.
- `claimed` (target): a run that held the lock before can commit nothing to the stream's table.
- `outnumbered` (target, stream ""): a table has commits of higher numbers than this run's, though
  no other run has taken its lock over.
- `reached` (target): the `bookmark`, as a text, up to which a failed run has loaded the stream; the
  run that finds it refuses to begin before it.
- `late` (target): how many `rows` below that value a commit changed, the latest by `seconds`.
- `quarantine` (target): how many `rows` were set aside.
- `progress` (both, stream ""): something moved inside of Spark; `command` is who says so, `doing`
  what it is busy with. At most one in ten seconds.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, final

REPORT_FILE = "SINGER_SPARK_REPORT"


def is_reporting() -> bool:
    """Say whether anybody wants to know."""
    return bool(os.environ.get(REPORT_FILE))


def report(kind: str, stream: str, **facts: Any) -> None:
    """Tell a fact; one write per line, so that several threads and processes can share the file."""
    path = os.environ.get(REPORT_FILE)
    if path:
        line = json.dumps({"kind": kind, "stream": stream, **facts}) + "\n"
        with Path(path).open("ab", buffering=0) as file:
            file.write(line.encode())


def last_told(kind: str, stream: str, file: Path) -> dict[str, Any] | None:
    """Return the last fact of a kind that anybody in this run told of a stream."""
    facts = (fact for _, fact in read_report(file)) if file.exists() else ()
    found = [fact for fact in facts if (fact.get("kind"), fact.get("stream")) == (kind, stream)]
    return found[-1] if found else None


def read_report(path: Path, start: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
    """Give the facts told since `start`, each with the place where the next one begins.

    Anybody's tap may write there; what is no fact is passed over.
    """
    with path.open("rb") as file:
        file.seek(start)
        for line in file:
            if not line.endswith(b"\n"):
                break
            start += len(line)
            yield start, _parse(line)


def _parse(line: bytes) -> dict[str, Any]:
    try:
        fact = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return fact if isinstance(fact, dict) else {}


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

    def beat(self) -> bool:
        """Say that something moved just now; return whether that is reported."""
        now = time.monotonic()
        if now - self._reported < INTERVAL_SECONDS:
            return False
        self._reported = now
        report_progress(self._doing)
        return True


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
        self._before, self._pulse = 0, Pulse("")

    def __call__(self, stages: Iterable[Any] | None, *_others: object, **_named: object) -> None:
        """Report if tasks have finished since, or have read more."""
        finished = sum(one.num_completed_tasks + one.num_bytes_read for one in stages or ())
        with suppress(OSError):  # the run has ended
            if finished != self._before and self._pulse.beat():
                self._before = finished
