"""When a pipeline needs a look, and who is told."""

from __future__ import annotations

from dataclasses import dataclass, field

from singer_spark.pipeline.document import Section


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerts:
    """Limits; None is none. Durations are in seconds, spike and slow in times the usual."""

    max_lag: int | None = None
    empty_runs: int | None = None
    spike: float | None = 10.0
    slow: float | None = 5.0
    max_duration: int | None = None
    error_rate: float | None = 0.01
    webhook: str | None = field(default=None, repr=False)
    command: str | None = field(default=None, repr=False)


def read_alerts(section: Section) -> Alerts:
    """Read the limits; one that is given as null is off."""
    usual = Alerts()
    empty_runs = section.number("empty_runs", whole=True)
    alerts = Alerts(
        max_lag=section.duration("max_lag"),
        empty_runs=None if empty_runs is None else int(empty_runs),
        spike=section.number("spike", default=usual.spike),
        slow=section.number("slow", default=usual.slow),
        max_duration=section.duration("max_duration"),
        error_rate=section.number("error_rate", most=1, default=usual.error_rate),
        webhook=section.web_address("webhook"),
        command=section.text("command") or None,
    )
    section.close()
    return alerts
