"""What is wrong with a pipeline, each with its reason, and its health as a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from itertools import takewhile
from typing import Any

from singer_spark.figures import format_duration
from singer_spark.health.history import History, is_empty, is_ordinary, moments
from singer_spark.pipeline.cron import last_due, next_due

START_SLACK = timedelta(minutes=1)  # a clock that is a little behind is no missed run
START_GRACE = timedelta(minutes=10)  # a start that is a little late neither


class Level(IntEnum):
    """How bad it is; also the exit code, as monitors know it."""

    OK = 0
    WARNING = 1
    CRITICAL = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong; its kind names the condition, whatever the numbers."""

    kind: str
    level: Level
    reason: str


def judge(history: History) -> tuple[Finding, ...]:
    """Find everything that is wrong, the worst first."""
    found = [finding for rule in RULES if (finding := rule(history))]
    return tuple(sorted(found, key=lambda finding: -finding.level))


def _failed(history: History) -> Finding | None:
    if not history.last or not history.last.get("exit_code"):
        return None
    failures = list(takewhile(lambda run: run.get("exit_code"), history.runs))
    often = f" ({len(failures)} in a row)" if len(failures) > 1 else ""
    error = history.last.get("error") or f"exit code {history.last['exit_code']}"
    return Finding("failed", Level.CRITICAL, f"the last run failed{often}: {error}")


def _counts_differ(history: History) -> Finding | None:
    for stream, counts in ((history.last or {}).get("mismatches") or {}).items():
        return Finding("counts", Level.CRITICAL, f"{stream}: counts differ: {counts}")
    return None


def _missed(history: History) -> Finding | None:
    if history.cron is None or history.is_running:
        return None
    if history.last is None:
        return Finding(
            "schedule", Level.WARNING, f"is scheduled ({history.cron}) but has never run"
        )
    interval = next_due(history.cron, history.now) - last_due(history.cron, history.now)
    due = last_due(history.cron, history.now - min(START_GRACE, interval / 2))
    # A run that went on beyond the time has kept the next one from starting.
    if any(moment >= due - START_SLACK for moment in moments(history.last)):
        return None
    late = format_duration((history.now - due).total_seconds())
    return Finding("schedule", Level.CRITICAL, f"should have run {late} ago ({history.cron})")


def _lags(history: History) -> Finding | None:
    limit = history.alerts.max_lag
    if limit is None or history.lag is None or history.lag <= limit:
        return None
    stream = max(history.lags, key=lambda name: history.lags[name])
    found, most = format_duration(history.lag), format_duration(limit)
    return Finding("lag", Level.CRITICAL, f"{stream} lags {found} behind (limit {most})")


def _dead(history: History) -> Finding | None:
    if history.lock is None or not history.lock.is_dead:
        return None
    age = format_duration((history.now - history.lock.since).total_seconds())
    return Finding(
        "lock",
        Level.WARNING,
        f"a run that began {age} ago died and left its lock; the next run takes it over, or: "
        f"singer-spark unlock {history.pipeline}",
    )


def _too_long(history: History) -> Finding | None:
    limit = history.alerts.max_duration
    if limit is None:
        return None
    seconds, what = float((history.last or {}).get("milliseconds") or 0) / 1000, "the last run took"
    if history.is_running and history.lock:
        seconds, what = (history.now - history.lock.since).total_seconds(), "has been running for"
    if seconds <= limit:
        return None
    found, most = format_duration(seconds), format_duration(limit)
    return Finding("duration", Level.WARNING, f"{what} {found} (limit {most})")


def _empty(history: History) -> Finding | None:
    wanted = history.alerts.empty_runs
    runs = [run for run in history.runs if is_ordinary(run)]
    empty = len(list(takewhile(is_empty, runs)))
    if wanted is None or empty < wanted:
        return None
    return Finding("empty", Level.WARNING, f"the last {empty} runs brought nothing new")


def _spike(history: History) -> Finding | None:
    return _beyond(history, "spike", "records", history.alerts.spike, lambda n: f"{n:,.0f} records")


def _slow(history: History) -> Finding | None:
    def write(milliseconds: float) -> str:
        return format_duration(milliseconds / 1000)

    return _beyond(history, "slow", "milliseconds", history.alerts.slow, write)


def _beyond(
    history: History, kind: str, key: str, limit: float | None, write: Callable[[float], str]
) -> Finding | None:
    """Compare the last run with the usual one."""
    usual = history.usual(key)
    if limit is None or usual is None or history.last is None or not is_ordinary(history.last):
        return None
    value = float(history.last.get(key) or 0)
    if value <= limit * usual:
        return None
    verb = "is" if kind == "slow" else "are"
    times = f"{value / usual:.0f} times the usual {write(usual)}"
    return Finding(kind, Level.WARNING, f"{write(value)} in the last run {verb} {times}")


def _bad_records(history: History) -> Finding | None:
    limit = history.alerts.error_rate
    run: Mapping[str, Any] = next((run for run in history.runs if run.get("records")), {})
    rate = (run.get("quarantined") or 0) / (run.get("records") or 1)
    if limit is None or rate <= limit:
        return None
    reason = f"{rate:.1%} of the records of the last run were set aside (limit {limit:.1%})"
    return Finding("error_rate", Level.WARNING, reason)


def _late(history: History) -> Finding | None:
    for stream, facts in ((history.last or {}).get("streams") or {}).items():
        if seconds := facts.get("suggested_lookback"):
            reason = f"{stream}: {facts.get('late')} rows were late; set its lookback to {seconds}"
            return Finding("late", Level.WARNING, reason)
    return None


RULES: tuple[Callable[[History], Finding | None], ...] = (
    _failed,
    _counts_differ,
    _missed,
    _lags,
    _dead,
    _too_long,
    _empty,
    _spike,
    _slow,
    _bad_records,
    _late,
)


@dataclass(frozen=True, slots=True)
class Health:
    """How a pipeline is doing."""

    history: History
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, history: History) -> Health:
        """Judge a history."""
        return cls(history, judge(history))

    @property
    def pipeline(self) -> str:
        """The pipeline's name."""
        return self.history.pipeline

    @property
    def level(self) -> Level:
        """The level of the worst finding."""
        return max((finding.level for finding in self.findings), default=Level.OK)

    @property
    def word(self) -> str:
        """The health in one word."""
        if self.level is Level.OK and self.history.is_running:
            return "running"
        if self.level is Level.OK and self.history.last is None:
            return "new"
        return self.level.name.lower()

    @property
    def last_success(self) -> Mapping[str, Any] | None:
        """The last run that succeeded."""
        return next((run for run in self.history.runs if not run.get("exit_code")), None)

    @property
    def next_due(self) -> datetime | None:
        """When the next run is due."""
        return next_due(self.history.cron, self.history.now) if self.history.cron else None

    def to_dict(self) -> dict[str, Any]:
        """Give the health as plain JSON values."""
        due = self.next_due
        return {
            "pipeline": self.pipeline,
            "health": self.level.name.lower(),
            "reasons": [
                {"kind": one.kind, "level": one.level.name.lower(), "reason": one.reason}
                for one in self.findings
            ],
            "running": self.history.is_running,
            "lag_seconds": self.history.lag,
            "next_due": due.isoformat(timespec="seconds") if due else None,
            "last_run": self.history.last,
        }
