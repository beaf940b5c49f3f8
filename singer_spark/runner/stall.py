"""Ends a run in which nothing has moved for too long, and says what it was waiting for.

What moves is told by those who see it (a block of messages, a STATE) and read off the size of the
report, to which tap and target add rows, commits and the tasks that Spark has finished.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import final

from singer_spark.errors import TransientError

LOOK_SECONDS = 10.0  # at most so much of the time between two looks counts


@final
class Stall:
    """A clock that runs while nothing moves; without a limit it ends nothing."""

    def __init__(self, limit: float | None, report_file: Path) -> None:
        self.waits_for: Callable[[], str] = lambda: "its first process"
        self._limit = limit
        self._report_file = report_file
        self._moves = 0
        self._seen = (0, 0)
        self._still = 0.0  # seconds
        self._looked = time.monotonic()

    def moved(self) -> None:
        """Note that something moved; any thread may."""
        self._moves += 1

    def check(self) -> None:
        """Raise an error once nothing has moved for the limit.

        A runner that was stopped itself, with its machine or by a signal, has missed what moved
        meanwhile: of a long time between two looks only a part counts.
        """
        now = time.monotonic()
        passed, self._looked = min(now - self._looked, LOOK_SECONDS), now
        seen = (self._moves, self._report_size())
        self._still = self._still + passed if seen == self._seen else 0.0
        self._seen = seen
        if self._limit and self._still >= self._limit:
            raise TransientError(
                f"nothing moved for {_in_words(self._limit)} (stall_timeout) while the run waited "
                f"for {self.waits_for()}; the stored state is unchanged. See what holds it up, "
                "then run again, or raise stall_timeout"
            )

    def _report_size(self) -> int:
        try:
            return self._report_file.stat().st_size
        except OSError:
            return 0


def _in_words(seconds: float) -> str:
    minutes = seconds / 60
    return f"{minutes:g} minutes" if minutes >= 2 else f"{seconds:g} seconds"
