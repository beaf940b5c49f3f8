"""The health of one pipeline as a value: what was found, and what it was found in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from singer_spark.health.case import Case
from singer_spark.health.rules import Finding, Level, judge
from singer_spark.pipeline.cron import next_due


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
