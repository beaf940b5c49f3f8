"""Ways of reading a stream: each turns a source and a plan, with its bookmark, into chunks.

A chunk is complete in itself: once its rows are written, its bookmark is true. The stream writes
one chunk, then a STATE, then the next, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tap_spark_source.plan.bookmark import without_stale_markers
from tap_spark_source.plan.key import Edge, Key, Range
from tap_spark_source.plan.read_plan import ReadPlan
from tap_spark_source.plan.slices import Slice
from tap_spark_source.plan.window import Window
from tap_spark_source.readers import (
    delta_log,
    full_table,
    incremental,
    kafka_log,
    new_files,
    snapshot,
)
from tap_spark_source.readers.chunks import Chunk, look_ahead
from tap_spark_source.readers.open_window import open_window
from tap_spark_source.settings_schema import FULL_TABLE, INCREMENTAL, LOG_BASED
from tap_spark_source.sources.base import Source
from tap_spark_source.sources.files import FileSource
from tap_spark_source.sources.kafka.topics import KafkaSource
from tap_spark_source.sources.lake import LakeSource


def chunks(source: Source, plan: ReadPlan, *, version: int) -> Iterator[Chunk]:
    """Read a stream in the way that its plan asks for."""
    # A range that is read again says nothing of the rows outside it, and leaves the state alone.
    if plan.window is not None and plan.window.is_fixed:
        return _regular(source, plan, version)
    plan = without_stale_markers(plan)
    found = _regular(source, plan, version)
    return found if plan.snapshot is None else snapshot.chunks(source, plan, plan.snapshot, found)


def _regular(source: Source, plan: ReadPlan, version: int) -> Iterator[Chunk]:
    if isinstance(source, KafkaSource):
        return kafka_log.chunks(source, plan)
    if plan.method == LOG_BASED and isinstance(source, LakeSource):
        return delta_log.chunks(source, plan)
    if plan.new_files and isinstance(source, FileSource):
        return new_files.chunks(source, plan)
    if plan.window is not None and plan.key is not None:
        return incremental.chunks(source, plan, plan.window, plan.key)
    return full_table.chunks(source, plan, version=version)


def preview(source: Source, plan: ReadPlan) -> dict[str, Any]:
    """Describe the read of a stream: method, key, the window's ends and about how many rows."""
    if isinstance(source, KafkaSource):
        first, last = kafka_log.span(source, plan)
        events = sum(last[partition] - first[partition] for partition in last)
        return _followed(plan, dict(first), dict(last), events)
    if plan.method == LOG_BASED and isinstance(source, LakeSource):
        return _followed(plan, *delta_log.span(source, plan))
    if plan.new_files and isinstance(source, FileSource):
        return _followed(plan, *new_files.span(source, plan), None)
    if plan.window is not None and plan.key is not None:
        return _incremental(source, plan, plan.window, plan.key)
    return _full_table(source, plan)


def _followed(plan: ReadPlan, low: Any, high: Any, rows: int | None) -> dict[str, Any]:
    """Describe a read that goes by offsets, versions or files."""
    found = {"stream": plan.table.stream, "method": plan.method, "key": None}
    return {**found, "low": low, "high": high, "rows": rows}


def _full_table(source: Source, plan: ReadPlan) -> dict[str, Any]:
    found = {"stream": plan.table.stream, "method": FULL_TABLE, "key": None}
    whole = full_table.rest_of(source, plan)
    if whole.low is not None and plan.key is not None:
        rows = source.count(plan, Slice(ranges=(whole,)))
        return {**found, "key": plan.key.name, **_ends(plan.key, whole), "rows": rows}
    known = plan.table.rows if plan.filter is None else None
    rows = source.count(plan) if known is None else known
    return {**found, "low": None, "high": None, "rows": rows}


def _incremental(source: Source, plan: ReadPlan, window: Window, key: Key) -> dict[str, Any]:
    opened = open_window(source, plan, window, key)
    whole = opened.whole
    highest = look_ahead(source, plan, key, whole, top=whole).highest
    if highest is not None and opened.end is None:
        whole = whole.up_to(highest)
    if opened.reread is not None:
        whole = replace(whole, low=opened.reread.low)
        # Only the lookback has rows to read.
        whole = whole if highest else replace(whole, high=Edge(opened.start or ()))
    ranges = (whole,) if highest or opened.reread else ()
    rows = source.count(plan, Slice(ranges=ranges, with_nulls=opened.takes_nulls))
    return {
        "stream": plan.table.stream,
        "method": INCREMENTAL,
        "key": key.name,
        **_ends(key, whole),
        "rows": rows,
    }


def _ends(key: Key, limits: Range) -> dict[str, Any]:
    return {
        name: None if edge is None else _value(key, edge)
        for name, edge in (("low", limits.low), ("high", limits.high))
    }


def _value(key: Key, edge: Edge) -> Any:
    parts = replace(key, parts=key.parts[: len(edge.mark)])
    return parts.to_json(edge.mark)
