"""What is wrong with a pipeline, each with its reason, and its health as a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from itertools import takewhile
from typing import Any

from singer_spark.figures import tell_seconds
from singer_spark.health.history import Case, is_empty, is_ordinary, moments
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


def judge(case: Case) -> tuple[Finding, ...]:
    """Find everything that is wrong, the worst first."""
    found = [finding for rule in RULES if (finding := rule(case))]
    return tuple(sorted(found, key=lambda finding: -finding.level))


def _failed(case: Case) -> Finding | None:
    if not case.last or not case.last.get("exit_code"):
        return None
    failures = list(takewhile(lambda run: run.get("exit_code"), case.runs))
    often = f" ({len(failures)} in a row)" if len(failures) > 1 else ""
    error = case.last.get("error") or f"exit code {case.last['exit_code']}"
    return Finding("failed", Level.CRITICAL, f"the last run failed{often}: {error}")


def _counts_differ(case: Case) -> Finding | None:
    for stream, told in ((case.last or {}).get("mismatches") or {}).items():
        return Finding("counts", Level.CRITICAL, f"{stream}: counts differ: {told}")
    return None


def _missed(case: Case) -> Finding | None:
    if case.cron is None or case.is_running:
        return None
    if case.last is None:
        return Finding("schedule", Level.WARNING, f"is scheduled ({case.cron}) but has never run")
    interval = next_due(case.cron, case.now) - last_due(case.cron, case.now)
    due = last_due(case.cron, case.now - min(START_GRACE, interval / 2))
    # A run that went on beyond the time has kept the next one from starting.
    if any(moment >= due - START_SLACK for moment in moments(case.last)):
        return None
    late = tell_seconds((case.now - due).total_seconds())
    return Finding("schedule", Level.CRITICAL, f"should have run {late} ago ({case.cron})")


def _lags(case: Case) -> Finding | None:
    limit = case.alerts.max_lag
    if limit is None or case.lag is None or case.lag <= limit:
        return None
    stream = max(case.lags, key=lambda name: case.lags[name])
    told, most = tell_seconds(case.lag), tell_seconds(limit)
    return Finding("lag", Level.CRITICAL, f"{stream} lags {told} behind (limit {most})")


def _dead(case: Case) -> Finding | None:
    if case.activity is None or not case.activity.is_dead:
        return None
    age = tell_seconds((case.now - case.activity.since).total_seconds())
    return Finding(
        "lock",
        Level.WARNING,
        f"a run that began {age} ago died and left its lock; the next run takes it over, or: "
        f"singer-spark unlock {case.pipeline}",
    )


def _too_long(case: Case) -> Finding | None:
    limit = case.alerts.max_duration
    if limit is None:
        return None
    seconds, what = float((case.last or {}).get("milliseconds") or 0) / 1000, "the last run took"
    if case.is_running and case.activity:
        seconds, what = (case.now - case.activity.since).total_seconds(), "has been running for"
    if seconds <= limit:
        return None
    told, most = tell_seconds(seconds), tell_seconds(limit)
    return Finding("duration", Level.WARNING, f"{what} {told} (limit {most})")


def _empty(case: Case) -> Finding | None:
    wanted = case.alerts.empty_runs
    runs = [run for run in case.runs if is_ordinary(run)]
    empty = len(list(takewhile(is_empty, runs)))
    if wanted is None or empty < wanted:
        return None
    return Finding("empty", Level.WARNING, f"the last {empty} runs brought nothing new")


def _spike(case: Case) -> Finding | None:
    return _beyond(case, "spike", "records", case.alerts.spike, lambda n: f"{n:,.0f} records")


def _slow(case: Case) -> Finding | None:
    def tell(milliseconds: float) -> str:
        return tell_seconds(milliseconds / 1000)

    return _beyond(case, "slow", "milliseconds", case.alerts.slow, tell)


def _beyond(
    case: Case, kind: str, key: str, limit: float | None, tell: Callable[[float], str]
) -> Finding | None:
    """Compare the last run with the usual one."""
    usual = case.usual(key)
    if limit is None or usual is None or case.last is None or not is_ordinary(case.last):
        return None
    value = float(case.last.get(key) or 0)
    if value <= limit * usual:
        return None
    told = f"{tell(value)} in the last run are {value / usual:.0f} times the usual {tell(usual)}"
    return Finding(kind, Level.WARNING, told.replace(" are ", " is ") if kind == "slow" else told)


def _bad_records(case: Case) -> Finding | None:
    limit = case.alerts.error_rate
    run: Mapping[str, Any] = next((run for run in case.runs if run.get("records")), {})
    rate = (run.get("quarantined") or 0) / (run.get("records") or 1)
    if limit is None or rate <= limit:
        return None
    told = f"{rate:.1%} of the records of the last run were set aside (limit {limit:.1%})"
    return Finding("error_rate", Level.WARNING, told)


def _late(case: Case) -> Finding | None:
    for stream, facts in ((case.last or {}).get("streams") or {}).items():
        if seconds := facts.get("suggested_lookback"):
            told = f"{stream}: {facts.get('late')} rows were late; set its lookback to {seconds}"
            return Finding("late", Level.WARNING, told)
    return None


RULES: tuple[Callable[[Case], Finding | None], ...] = (
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

    case: Case
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, case: Case) -> Health:
        """Judge a case."""
        return cls(case, judge(case))

    @classmethod
    def unknown(cls, pipeline: str, now: datetime, reason: str) -> Health:
        """Tell that a pipeline cannot even be looked at."""
        finding = Finding("unreadable", Level.CRITICAL, reason)
        return cls(Case(pipeline=pipeline, now=now), (finding,))

    @property
    def pipeline(self) -> str:
        """The pipeline's name."""
        return self.case.pipeline

    @property
    def level(self) -> Level:
        """The level of the worst finding."""
        return max((finding.level for finding in self.findings), default=Level.OK)

    @property
    def word(self) -> str:
        """The health in one word."""
        if self.level is Level.OK and self.is_running:
            return "running"
        if self.level is Level.OK and self.last is None:
            return "new"
        return self.level.name.lower()

    @property
    def is_running(self) -> bool:
        """Tell that a run is going on."""
        return self.case.is_running

    @property
    def last(self) -> Mapping[str, Any] | None:
        """The last run that ended."""
        return self.case.last

    @property
    def last_success(self) -> Mapping[str, Any] | None:
        """The last run that succeeded."""
        return next((run for run in self.case.runs if not run.get("exit_code")), None)

    @property
    def lags(self) -> Mapping[str, float]:
        """How far the streams lie behind."""
        return self.case.lags

    @property
    def lag(self) -> float | None:
        """How far the pipeline lies behind."""
        return self.case.lag

    @property
    def next_due(self) -> datetime | None:
        """When the next run is due."""
        return next_due(self.case.cron, self.case.now) if self.case.cron else None

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
            "running": self.is_running,
            "lag_seconds": self.lag,
            "next_due": due.isoformat(timespec="seconds") if due else None,
            "last_run": self.last,
        }
