"""The health of pipelines as OpenMetrics text, for a scraper of files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

from singer_spark.health.history import started_at
from singer_spark.health.rules import Health
from singer_spark.text import printable

Value: TypeAlias = "float | Mapping[str, float] | None"  # of a pipeline, or of each stream


def _last(key: str, health: Health) -> float | None:
    value = (health.history.last or {}).get(key)
    return value if isinstance(value, (int, float)) else None


def _seconds(health: Health) -> float | None:
    milliseconds = _last("milliseconds", health)
    return None if milliseconds is None else milliseconds / 1000


def _timestamp(run: Mapping[str, Any] | None) -> float | None:
    moment = started_at(run) if run else None
    return round(moment.timestamp(), 3) if moment else None


METRICS: tuple[tuple[str, str, str, Callable[[Health], Value]], ...] = (
    ("health", "", "0 is ok, 1 a warning, 2 critical.", lambda one: int(one.level)),
    ("running", "", "1 while a run is going on.", lambda one: int(one.history.is_running)),
    ("watermark_lag_seconds", "seconds", "How far a stream's watermark lies behind now.",
     lambda one: one.history.lags),
    ("last_run_timestamp_seconds", "seconds", "When the last run started.",
     lambda one: _timestamp(one.history.last)),
    ("last_success_timestamp_seconds", "seconds", "When the last run that succeeded started.",
     lambda one: _timestamp(one.last_success)),
    ("last_run_duration_seconds", "seconds", "How long the last run took.", _seconds),
    ("last_run_exit_code", "", "0 is success.", partial(_last, "exit_code")),
    ("last_run_bytes", "bytes", "Bytes of messages and of BATCH files in the last run.",
     partial(_last, "bytes")),
    ("last_run_records", "", "Records that the tap sent in the last run.",
     partial(_last, "records")),
    ("last_run_loaded", "", "Records of the last run that the target loaded.",
     partial(_last, "loaded")),
    ("last_run_inserted", "", "Rows that the last run inserted.", partial(_last, "inserted")),
    ("last_run_updated", "", "Rows that the last run updated.", partial(_last, "updated")),
    ("last_run_deleted", "", "Rows that the last run deleted.", partial(_last, "deleted")),
    ("last_run_quarantined", "", "Records of the last run that were set aside.",
     partial(_last, "quarantined")),
    ("last_run_late", "", "Rows of the last run that were below the previous watermark.",
     partial(_last, "late")),
)  # fmt: skip


def write_metrics(healths: Iterable[Health]) -> str:
    """Write every metric with its samples; what is not known has none."""
    known = list(healths)
    return "".join(f"{line}\n" for line in [*_lines(known), "# EOF"])


def _lines(healths: list[Health]) -> Iterator[str]:
    for metric, unit, description, value in METRICS:
        name = f"singer_spark_{metric}"
        yield f"# TYPE {name} gauge"
        if unit:
            yield f"# UNIT {name} {unit}"
        yield f"# HELP {name} {description}"
        for health in healths:
            found = value(health)
            for labels, number in _samples(health.pipeline, found):
                yield f"{name}{{{labels}}} {number}"


def _samples(pipeline: str, found: Value) -> Iterator[tuple[str, float]]:
    whose = f'pipeline="{_escaped(pipeline)}"'
    if isinstance(found, Mapping):
        for stream, number in found.items():
            yield f'{whose},stream="{_escaped(stream)}"', number
    elif found is not None:
        yield whose, found


def _escaped(text: str) -> str:
    return printable(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
