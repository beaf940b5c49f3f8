"""What is measured while a run goes (records, bytes, memory), and where it is shown."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol, final

import click

from singer_spark.runner.streams import Reports, StreamCounts, Tally
from singer_spark.runner.supervisor import Children

PROC = Path("/proc")
PEAK = re.compile(rb"VmHWM:\s+(\d+) kB")
SESSION = 3  # of the fields after a process's name in /proc/PID/stat


def peak_bytes(sessions: Iterable[int]) -> dict[int, int]:
    """Sum up, by session, the peaks of all processes alive in it; where there is no /proc, none."""
    wanted = set(sessions)
    peaks: dict[int, int] = defaultdict(int)
    for entry in PROC.glob("[0-9]*") if wanted and PROC.is_dir() else ():
        # A process may end meanwhile.
        with suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
            session = int(fields[SESSION])
            if session in wanted and (found := PEAK.search((entry / "status").read_bytes())):
                peaks[session] += int(found[1]) * 1024
    return peaks


class Display(Protocol):
    """What a run shows itself on."""

    interval: float  # seconds between two looks

    def begin(self, pipeline: str) -> None:
        """Show that a run begins."""

    def say(self, line: str) -> None:
        """Show a line that stays."""

    def show(self, streams: Mapping[str, StreamCounts]) -> None:
        """Show how far the streams are."""


@final
class PlainDisplay:
    """Lines of text, for logs and pipes."""

    def __init__(self, say: Callable[[str], None] = click.echo, interval: float = 5.0) -> None:
        self.say = say
        self.interval = interval
        self._told: dict[str, int] = {}

    def begin(self, pipeline: str) -> None:
        """Print that a run begins."""
        self._told.clear()
        self.say(f"Running: {pipeline}")

    def show(self, streams: Mapping[str, StreamCounts]) -> None:
        """Print the streams that moved."""
        for name, facts in streams.items():
            if facts.rows != self._told.get(name, 0):
                self.say(f"{name}: {facts.rows} records...")
                self._told[name] = facts.rows


TICK_SECONDS = 1.0
SAMPLE_SECONDS = 5.0  # between two measurements of memory, of which the peak is kept


class Meter:
    """The gauges of one run; valid after a failure too."""

    def __init__(self, display: Display, report_file: Path) -> None:
        self.tally = Tally()
        self._message_bytes = 0
        self.extract_milliseconds: int | None = None
        self.peak_bytes: dict[str, int] = {}  # by command
        self.streams: Mapping[str, StreamCounts] = {}
        self.facts = Reports(report_file)
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
        """Measure everything once, and show it when it is time to."""
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

    def refresh(self) -> None:
        """Take in what was reported and counted until now."""
        self.facts.refresh()
        self.streams = self.facts.by_stream(self.tally)

    def show(self) -> None:
        """Show how far the streams are."""
        self._shown = time.monotonic()
        self.refresh()
        self._display.show(self.streams)
