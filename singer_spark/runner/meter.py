"""What is measured while a run goes: records, bytes, facts told, memory."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from singer_spark.runner.facts import Facts, StreamFacts
from singer_spark.runner.progress import Display
from singer_spark.runner.supervisor import Children
from singer_spark.runner.tally import Tally
from singer_spark.runner.usage import peak_bytes

TICK_SECONDS = 1.0
SAMPLE_SECONDS = 5.0  # between two looks at memory, which is told as a peak anyway


class Meter:
    """The gauges of one run; valid after a failure too."""

    def __init__(self, display: Display, report_file: Path) -> None:
        self.tally = Tally()
        self._message_bytes = 0
        self.extract_milliseconds: int | None = None
        self.peak_bytes: dict[str, int] = {}  # by command
        self.streams: Mapping[str, StreamFacts] = {}
        self.facts = Facts(report_file)
        self._display = display
        self._shown = self._begun = time.monotonic()
        self._sampled = float("-inf")

    @property
    def tick_seconds(self) -> float:
        """How long to wait between two ticks."""
        return min(TICK_SECONDS, self._display.interval)

    @property
    def moved_bytes(self) -> int:
        """How much the tap has sent, in messages and in files."""
        return self._message_bytes + sum(one.batched_bytes or 0 for one in self.streams.values())

    def count(self, block: bytes) -> None:
        """Count what the tap sent."""
        self._message_bytes += len(block)
        self.tally.feed(block)

    def tap_started(self) -> None:
        """Note when extraction begins."""
        self._begun = time.monotonic()

    def tap_ended(self) -> None:
        """Note when everything has been read."""
        self.tally.close()
        self.extract_milliseconds = round((time.monotonic() - self._begun) * 1000)

    def tick(self, children: Children) -> None:
        """Look at everything once, and show it when it is time to."""
        now = time.monotonic()
        if now - self._sampled >= SAMPLE_SECONDS:
            self._sampled = now
            self._sample(children)
        if now - self._shown >= self._display.interval:
            self.show()

    def _sample(self, children: Children) -> None:
        by_session = {child.process.pid: child for child in children.alive}
        for session, peak in peak_bytes(by_session).items():
            name = by_session[session].name
            self.peak_bytes[name] = max(peak, self.peak_bytes.get(name, 0))

    def look(self) -> None:
        """Take in what was told and counted until now."""
        self.facts.refresh()
        self.streams = self.facts.by_stream(self.tally)

    def show(self) -> None:
        """Show how far the streams are."""
        self._shown = time.monotonic()
        self.look()
        self._display.show(self.streams)
