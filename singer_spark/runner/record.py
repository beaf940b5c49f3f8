"""The record of one run, taken down while it goes; it holds no settings and so no secrets."""

from __future__ import annotations

import platform
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

import click

from singer_spark import __version__
from singer_spark.state.holder import Holder

EXIT_KILLED = 137  # what a shell tells of SIGKILL


@dataclass(slots=True, kw_only=True)
class RunRecord:
    """What is known of a run so far."""

    pipeline: str
    run_id: str
    state_before: Mapping[str, Any] = field(default_factory=dict)
    state_after: Mapping[str, Any] = field(default_factory=dict)
    records: Mapping[str, int] = field(default_factory=dict)
    moved_bytes: int = 0
    exit_code: int = 0
    error: str | None = None
    started_at: datetime = field(default_factory=lambda: datetime.now(timezone.utc))
    milliseconds: int = 0
    host: str = field(default_factory=socket.gethostname)
    _begun: float = field(default_factory=time.monotonic)

    def close(self, error: BaseException | None = None) -> None:
        """Note how and when the run ended; of an unplanned error only the kind is safe to tell."""
        self.milliseconds = round((time.monotonic() - self._begun) * 1000)
        if isinstance(error, click.ClickException):
            self.exit_code, self.error = error.exit_code, error.format_message()
        elif error is not None:
            self.exit_code, self.error = 1, f"unexpected {type(error).__name__}"

    @classmethod
    def of_dead(cls, pipeline: str, holder: Holder, state: Mapping[str, Any]) -> RunRecord:
        """Tell of a run that could not tell of its own end, from the lock that it left."""
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
        """Give the record as plain JSON values."""
        finished_at = self.started_at + timedelta(milliseconds=self.milliseconds)
        return {
            "run_id": self.run_id,
            "pipeline": self.pipeline,
            "status": "failed" if self.exit_code else "succeeded",
            "exit_code": self.exit_code,
            "error": self.error,
            "started_at": self.started_at.isoformat(timespec="milliseconds"),
            "finished_at": finished_at.isoformat(timespec="milliseconds"),
            "milliseconds": self.milliseconds,
            "records": sum(self.records.values()),
            "bytes": self.moved_bytes,
            "streams": {name: {"records": count} for name, count in self.records.items()},
            "bookmarks_before": _bookmarks(self.state_before),
            "bookmarks_after": _bookmarks(self.state_after),
            "host": self.host,
            "versions": {"singer_spark": __version__, "python": platform.python_version()},
        }


def _bookmarks(state: Mapping[str, Any]) -> Any:
    """Take the bookmarks; a tap that has none of that name keeps all of its state."""
    return state.get("bookmarks", state)
