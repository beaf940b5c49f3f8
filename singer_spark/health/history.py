"""The last runs of one pipeline at one moment, and what of them is usual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median
from typing import Any

from singer_spark.figures import parse_time
from singer_spark.health.lag import lag_seconds, watermarks
from singer_spark.pipeline import Alerts

ENOUGH_RUNS = 5  # before anything can be called usual
ASIDE = ("window", "refresh")  # modes of runs that are no measure of the usual ones


@dataclass(frozen=True, slots=True)
class FoundLock:
    """A lock that was found: since when, and whether its run is known to be dead."""

    since: datetime
    is_dead: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One pipeline at one moment; `runs` are its last records, newest first."""

    pipeline: str
    now: datetime
    runs: Sequence[Mapping[str, Any]] = ()
    lock: FoundLock | None = None
    alerts: Alerts = field(default_factory=Alerts)
    cron: str | None = None

    @property
    def last(self) -> Mapping[str, Any] | None:
        """The last run that ended."""
        return self.runs[0] if self.runs else None

    @property
    def is_running(self) -> bool:
        """Whether a run is going on."""
        return self.lock is not None and not self.lock.is_dead

    @property
    def lags(self) -> dict[str, float]:
        """How far the streams lie behind, by the newest runs that say so, back to a success."""
        found: dict[str, datetime] = {}
        for run in self.runs:
            found = watermarks(run.get("bookmarks_after"), run.get("streams") or ()) | found
            if found and not run.get("exit_code"):
                break
        return {name: lag_seconds(moment, self.now) for name, moment in found.items()}

    @property
    def lag(self) -> float | None:
        """How far the stream that lies behind the most does so."""
        return max(self.lags.values(), default=None)

    @property
    def is_full(self) -> bool:
        """Whether the last run read everything."""
        return self.last is not None and is_full(self.last)

    def usual(self, key: str) -> float | None:
        """Find the median of a count over earlier runs that had any; None while they are few.

        Runs that read in full are compared with each other only, and so are those that do not.
        """
        alike = [run for run in self.runs[1:] if is_ordinary(run) and is_full(run) == self.is_full]
        earlier = [float(run.get(key) or 0) for run in alike]
        counts = [count for count in earlier if count]
        return median(counts) if len(counts) >= ENOUGH_RUNS else None


def is_ordinary(run: Mapping[str, Any]) -> bool:
    """Say whether a run succeeded in the usual way."""
    return not run.get("exit_code") and run.get("mode") not in ASIDE


def is_full(run: Mapping[str, Any]) -> bool:
    """Say whether a run read everything."""
    return run.get("mode") == "full"


def is_empty(run: Mapping[str, Any]) -> bool:
    """Say whether a run changed nothing; the row at the bookmark is read again each time."""
    changes = [run.get(key) for key in ("inserted", "updated", "deleted", "quarantined")]
    known = [count for count in changes if count is not None]
    return not sum(known) if known else not run.get("records")


def started_at(run: Mapping[str, Any]) -> datetime | None:
    """Read when a run started."""
    return parse_time(run.get("started_at"))


def moments(run: Mapping[str, Any]) -> list[datetime]:
    """Read when a run started and when it ended, as far as that is known."""
    return [moment for key in ("started_at", "finished_at") if (moment := parse_time(run.get(key)))]
