"""What a run should tell its operator although it succeeded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from singer_spark.health.late import suggest_lookback, worst_lateness
from singer_spark.names import merged_options
from singer_spark.pipeline import Pipeline
from singer_spark.runner.record import RunRecord


class History(Protocol):
    """What earlier runs left."""

    def history(self) -> Sequence[Mapping[str, Any]]:
        """The records of the last runs."""


def suggest_lookbacks(pipeline: Pipeline, record: RunRecord, book: History) -> dict[str, int]:
    """Suggest a lookback for the streams whose rows were late, from this run and those before."""
    late = {name: facts.late_seconds or 0 for name, facts in record.streams.items() if facts.late}
    if not late:
        return {}
    runs = book.history()
    suggested = {
        stream: suggest_lookback(
            max(seconds, worst_lateness(runs, stream)), configured_lookback(pipeline, stream)
        )
        for stream, seconds in late.items()
    }
    return {stream: seconds for stream, seconds in suggested.items() if seconds}


def configured_lookback(pipeline: Pipeline, stream: str) -> float:
    """Look up how far the tap reads back for a stream."""
    config = pipeline.tap.config
    options = config.get("stream_options")
    merged = merged_options(stream, options if isinstance(options, Mapping) else None)
    given = merged.get("lookback")
    value = config.get("lookback") if given is None else given
    return float(value) if isinstance(value, (int, float)) else 0.0


def warnings_of(record: RunRecord) -> Iterator[str]:
    """Put what needs a look into words."""
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
