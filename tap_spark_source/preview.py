"""What a run would read, without reading it: the answer to `--plan`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tap_spark_source.declaration import FULL_TABLE, INCREMENTAL, LOG_BASED
from tap_spark_source.key import Edge, Key, Range
from tap_spark_source.plan import ReadPlan
from tap_spark_source.slicing import Slice
from tap_spark_source.sources import FileSource, FrameSource, KafkaSource, Source
from tap_spark_source.ways import delta_log, full_table, kafka_log, new_files
from tap_spark_source.ways.opened import open_window
from tap_spark_source.ways.slices import look_ahead
from tap_spark_source.window import Window


def preview(source: Source, plan: ReadPlan) -> dict[str, Any]:
    """Describe the read of a stream: method, key, the window's ends and about how many rows."""
    if isinstance(source, KafkaSource):
        first, last = kafka_log.span(source, plan)
        events = sum(last[partition] - first[partition] for partition in last)
        return _followed(plan, dict(first), dict(last), events)
    if plan.method == LOG_BASED and isinstance(source, FrameSource):
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
