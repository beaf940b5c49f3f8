"""The health of pipelines as OpenMetrics text, for a scraper of files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from singer_spark.health.case import started_at
from singer_spark.health.report import Health
from singer_spark.printable import printable

LAST_RUN = {
    "records": "Records that the tap sent in the last run.",
    "loaded": "Records of the last run that the target loaded.",
    "inserted": "Rows that the last run inserted.",
    "updated": "Rows that the last run updated.",
    "deleted": "Rows that the last run deleted.",
    "quarantined": "Records of the last run that were set aside.",
    "late": "Rows of the last run that were below the previous watermark.",
}


class Sample(NamedTuple):
    """One number and what it belongs to."""

    labels: Mapping[str, str]
    value: float | None


def write_metrics(pipelines: Iterable[Health]) -> str:
    """Write every metric with its samples; what is not known has none."""
    known = list(pipelines)
    lines = [line for family in _families(known) for line in _family(*family)]
    return "\n".join([*lines, "# EOF", ""])


def _families(known: list[Health]) -> Iterator[tuple[str, str, str, list[Sample]]]:
    def each(value: Any) -> list[Sample]:
        return [Sample({"pipeline": one.pipeline}, value(one)) for one in known]

    yield "health", "", "0 is ok, 1 a warning, 2 critical.", each(lambda one: int(one.level))
    yield "running", "", "1 while a run is going on.", each(lambda one: int(one.is_running))
    yield (
        "watermark_lag_seconds",
        "seconds",
        "How far a stream's watermark lies behind now.",
        [
            Sample({"pipeline": one.pipeline, "stream": stream}, lag)
            for one in known
            for stream, lag in one.lags.items()
        ],
    )
    yield (
        "last_run_timestamp_seconds",
        "seconds",
        "When the last run started.",
        each(lambda one: _timestamp(one.last)),
    )
    yield (
        "last_success_timestamp_seconds",
        "seconds",
        "When the last run that succeeded started.",
        each(lambda one: _timestamp(one.last_success)),
    )
    yield (
        "last_run_duration_seconds",
        "seconds",
        "How long the last run took.",
        each(lambda one: _number(one.last, "milliseconds", 1000)),
    )
    yield (
        "last_run_exit_code",
        "",
        "0 is success.",
        each(lambda one: _number(one.last, "exit_code")),
    )
    yield (
        "last_run_bytes",
        "bytes",
        "Bytes of messages and of BATCH files in the last run.",
        each(lambda one: _number(one.last, "bytes")),
    )
    for key, told in LAST_RUN.items():
        yield f"last_run_{key}", "", told, each(lambda one, key=key: _number(one.last, key))


def _family(name: str, unit: str, told: str, samples: list[Sample]) -> Iterator[str]:
    full = f"singer_spark_{name}"
    yield f"# TYPE {full} gauge"
    if unit:
        yield f"# UNIT {full} {unit}"
    yield f"# HELP {full} {told}"
    for labels, value in samples:
        if value is not None:
            told = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            yield f"{full}{{{told}}} {value}"


def _escaped(text: str) -> str:
    return printable(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(run: Mapping[str, Any] | None, key: str, divisor: int = 1) -> float | None:
    value = (run or {}).get(key)
    if not isinstance(value, (int, float)):
        return None
    return value if divisor == 1 else value / divisor


def _timestamp(run: Mapping[str, Any] | None) -> float | None:
    moment = started_at(run) if run else None
    return round(moment.timestamp(), 3) if moment else None
