"""The record of one run, taken down while it goes, and what its operator should know.

It holds no settings and so no secrets.
"""

from __future__ import annotations

import platform
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

import click

from singer_spark import __version__
from singer_spark.health.lag import lag_seconds, suggest_lookback, watermarks, worst_lateness
from singer_spark.pipeline import Pipeline
from singer_spark.runner.streams import StreamCounts, find_mismatches
from singer_spark.runner.supervisor import ChildError
from singer_spark.state.holder import Holder
from singer_spark.text import one_line

EXIT_KILLED = 137  # as a shell reports SIGKILL
ERROR_KEPT = 500  # characters
TOTALS = (
    "loaded",
    "inserted",
    "updated",
    "deleted",
    "unchanged",
    "quarantined",
    "late",
    "load_milliseconds",
)


@dataclass(slots=True, kw_only=True)
class RunRecord:
    """What is known of a run so far."""

    pipeline: str
    run_id: str
    mode: str | None = None
    state_before: Mapping[str, Any] = field(default_factory=dict)
    state_after: Mapping[str, Any] = field(default_factory=dict)
    streams: Mapping[str, StreamCounts] = field(default_factory=dict)
    suggested_lookback: Mapping[str, int] = field(default_factory=dict)
    moved_bytes: int = 0
    extract_milliseconds: int | None = None
    peak_bytes: Mapping[str, int | None] = field(default_factory=dict)
    versions: Mapping[str, str | None] = field(default_factory=dict)
    compares: bool = True  # whether the target must account for all that the tap sent
    exit_code: int = 0
    error: str | None = None
    started_at: datetime = field(default_factory=lambda: datetime.now(timezone.utc))
    milliseconds: int = 0
    host: str = field(default_factory=socket.gethostname)
    mask: Callable[[str], str] = field(default=str, repr=False)
    _begun: float = field(default_factory=time.monotonic)

    @property
    def records(self) -> dict[str, int]:
        """Records by stream."""
        return {name: facts.rows for name, facts in self.streams.items()}

    @property
    def mismatches(self) -> dict[str, str]:
        """Streams of which the target accounts for other rows than the tap sent."""
        return find_mismatches(self.streams) if self.compares and not self.exit_code else {}

    def close(self, error: BaseException | None = None) -> None:
        """Note how and when the run ended; of an unplanned error only the kind is no secret."""
        self.milliseconds = round((time.monotonic() - self._begun) * 1000)
        if isinstance(error, click.ClickException):
            told = error.record if isinstance(error, ChildError) else error.format_message()
            self.exit_code, self.error = error.exit_code, one_line(self.mask(told))[:ERROR_KEPT]
        elif error is not None:
            self.exit_code, self.error = 1, f"unexpected {type(error).__name__}"

    @classmethod
    def of_dead(cls, pipeline: str, holder: Holder, state: Mapping[str, Any]) -> RunRecord:
        """Describe a run that died before it could do so, from the lock that it left."""
        started, seen = map(datetime.fromisoformat, (holder.started_at, holder.heartbeat_at))
        return cls(
            pipeline=pipeline,
            run_id=holder.run_id,
            state_before=state,
            state_after=state,
            exit_code=EXIT_KILLED,
            error="the run died without ending; it lasted until its last heartbeat at least",
            started_at=started,
            milliseconds=round((seen - started).total_seconds() * 1000),
            host=holder.host,
        )

    def to_dict(self) -> dict[str, Any]:
        """Give the record as plain JSON values; None is what nobody reported."""
        finished_at = self.started_at + timedelta(milliseconds=self.milliseconds)
        bookmarks = _bookmarks(self.state_after)
        lags = {
            stream: lag_seconds(watermark, finished_at)
            for stream, watermark in watermarks(bookmarks, self.streams).items()
        }
        return {
            "run_id": self.run_id,
            "pipeline": self.pipeline,
            "mode": self.mode,
            "status": "failed" if self.exit_code else "succeeded",
            "exit_code": self.exit_code,
            "error": self.error,
            "started_at": self.started_at.isoformat(timespec="milliseconds"),
            "finished_at": finished_at.isoformat(timespec="milliseconds"),
            "milliseconds": self.milliseconds,
            "extract_milliseconds": self.extract_milliseconds,
            "records": sum(self.records.values()),
            **{name: _total(self.streams, name) for name in TOTALS},
            "bytes": self.moved_bytes,
            "lag_seconds": max(lags.values(), default=None),
            "mismatches": self.mismatches,
            "streams": {
                name: {
                    **asdict(facts),
                    "lag_seconds": lags.get(name),
                    "suggested_lookback": self.suggested_lookback.get(name),
                }
                for name, facts in self.streams.items()
            },
            "bookmarks_before": _bookmarks(self.state_before),
            "bookmarks_after": bookmarks,
            "peak_memory_bytes": dict(self.peak_bytes),
            "host": self.host,
            "versions": {
                "singer_spark": __version__,
                "python": platform.python_version(),
                **self.versions,
            },
        }


def _total(streams: Mapping[str, StreamCounts], name: str) -> int | None:
    known = [getattr(facts, name) for facts in streams.values()]
    return sum(told) if (told := [count for count in known if count is not None]) else None


def _bookmarks(state: Mapping[str, Any]) -> Any:
    """Take the bookmarks; a tap that has none of that name keeps all of its state."""
    return state.get("bookmarks", state)


def suggest_lookbacks(
    pipeline: Pipeline, record: RunRecord, history: Callable[[], Sequence[Mapping[str, Any]]]
) -> dict[str, int]:
    """Suggest a lookback for the streams whose rows were late, from this run and those before."""
    late = {name: facts.late_seconds or 0 for name, facts in record.streams.items() if facts.late}
    runs = history() if late else ()
    suggested: dict[str, int] = {}
    for stream, seconds in late.items():
        worst = max(seconds, worst_lateness(runs, stream))
        lookback = pipeline.tap.setting("lookback", stream)
        known = float(lookback) if isinstance(lookback, (int, float)) else 0.0
        if better := suggest_lookback(worst, known):
            suggested[stream] = better
    return suggested


def warnings_of(record: RunRecord) -> Iterator[str]:
    """List what the operator should look into although the run succeeded."""
    if not record.streams:
        yield (
            "the tap sent no stream at all; see what it offers with singer-spark check. A tap "
            "that sends only what is selected needs source.streams; ['*'] selects all"
        )
    for stream, mismatch in record.mismatches.items():
        yield (
            f"{stream}: COUNTS DIFFER: {mismatch}; compare the table with its source before you "
            "rely on it"
        )
    for stream, facts in record.streams.items():
        if facts.quarantined:
            yield f"{stream}: {facts.quarantined} records were set aside; look into its quarantine"
    for stream, seconds in record.suggested_lookback.items():
        facts = record.streams[stream]
        yield (
            f"{stream}: {facts.late} rows were late, by up to {facts.late_seconds or 0:g} s; "
            f"set its lookback to {seconds}"
        )
