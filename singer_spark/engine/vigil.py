"""Whether Spark's process still answers, and does more than collect garbage.

Tasks may be silent for hours; Java itself answers in milliseconds as long as it lives.
"""

from __future__ import annotations

import time
from typing import Protocol, final

from singer_spark.engine.failures import OUT_OF_MEMORY, first_line

_GARBAGE_SHARE = 0.95
_GARBAGE_LOOKS = 4


class Watched(Protocol):
    """What is asked of Spark's process."""

    def garbage_seconds(self) -> float:
        """Say how long it has stood still to collect garbage, or raise if it does not answer."""


@final
class Vigil:
    """Looks again and again, and says why Spark has to be ended."""

    def __init__(self, jvm: Watched) -> None:
        self._jvm = jvm
        self._before: tuple[float, float] | None = None
        self._full_looks = 0

    def look(self) -> str | None:
        """Ask for a sign of life; a machine that slept in between is asked once more."""
        for _ in range(2):
            try:
                self._note(self._jvm.garbage_seconds())
            except Exception as error:  # noqa: BLE001 - whatever it is, that was no answer
                reason = f"Spark does not answer ({first_line(error)})"
            else:
                return OUT_OF_MEMORY if self._full_looks >= _GARBAGE_LOOKS else None
        return reason

    def _note(self, garbage: float) -> None:
        now = time.monotonic()
        if self._before is not None:
            then, collected = self._before
            is_full = garbage - collected >= _GARBAGE_SHARE * (now - then) > 0
            self._full_looks = self._full_looks + 1 if is_full else 0
        self._before = now, garbage
