"""Ways of reading a stream: each turns a source and a plan, with its bookmark, into chunks.

A chunk is complete in itself: once its rows are written, its bookmark is true. The stream writes
one chunk, then a STATE, then the next, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

from tap_spark_source.plan.bookmark import without_stale_markers
from tap_spark_source.plan.read_plan import ReadPlan
from tap_spark_source.readers import (
    delta_log,
    full_table,
    incremental,
    kafka_log,
    new_files,
    snapshot,
)
from tap_spark_source.readers.chunks import Chunk, Preview
from tap_spark_source.settings_schema import LOG_BASED
from tap_spark_source.sources import AnySource
from tap_spark_source.sources.files import FileSource
from tap_spark_source.sources.kafka.topics import KafkaSource
from tap_spark_source.sources.lake import LakeSource


class _Reader(Protocol):
    def chunks(self, source: Any, plan: ReadPlan) -> Iterator[Chunk]: ...

    def preview(self, source: Any, plan: ReadPlan) -> Preview: ...


def chunks(source: AnySource, plan: ReadPlan, *, version: int) -> Iterator[Chunk]:
    """Read a stream in the way that its plan asks for."""
    plan = replace(plan, version=version)
    # A range that is read again says nothing of the rows outside it, and leaves the state alone.
    if plan.window is not None and plan.window.is_fixed:
        return _reader(source, plan).chunks(source, plan)
    plan = without_stale_markers(plan)
    found = _reader(source, plan).chunks(source, plan)
    if plan.snapshot is None or isinstance(source, KafkaSource):
        return found
    return snapshot.chunks(source, plan, plan.snapshot, found)


def preview(source: AnySource, plan: ReadPlan) -> dict[str, Any]:
    """Describe the read of a stream: method, key, the window's ends and about how many rows."""
    found = _reader(source, plan).preview(source, plan)
    ends = {"low": found.low, "high": found.high, "rows": found.rows}
    return {"stream": plan.table.stream, "method": plan.method, "key": found.key, **ends}


def _reader(source: AnySource, plan: ReadPlan) -> _Reader:
    if isinstance(source, KafkaSource):
        return kafka_log
    if plan.method == LOG_BASED and isinstance(source, LakeSource):
        return delta_log
    if plan.new_files and isinstance(source, FileSource):
        return new_files
    return full_table if plan.window is None else incremental
