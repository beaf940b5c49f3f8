"""Decides which rows of its table a plan reads, as its SCHEMA says it. Pure.

A target replaces or retires rows by what stands here. In doubt a read is one of `some` rows.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from fnmatch import fnmatch
from typing import Any

from singer_spark.bookmark import DELTA_SNAPSHOT, FULL_TABLE
from singer_spark.scope import RANGE, SOME, Scope
from tap_spark_source.declaration import LOG_BASED
from tap_spark_source.key import Key
from tap_spark_source.plan import ReadPlan
from tap_spark_source.ways import delta_log, full_table, new_files
from tap_spark_source.window import Bounds, Window

MAX_ROWS = "max_rows"
REST = "the rest of an interrupted read"
CHANGES = "changes only"
# Limits that a load of several runs under one version outlives.
_SPANNED = (MAX_ROWS, REST)


def scope_of_read(plan: ReadPlan, bounds: Bounds, *, kind: str, can_slice: bool = True) -> Scope:
    """Return what the stream of a plan carries.

    Args:
        plan: What is read.
        bounds: The ends of its window, where it has one.
        kind: The kind of source: jdbc, delta, kafka, …
        can_slice: Whether the source is read in slices, so that a read can go on behind one.
    """
    window, key = plan.window, plan.key
    filters = {"where": plan.where is not None, "sample": plan.sample is not None}
    if why := next((name for name, is_set in filters.items() if is_set), None):
        return _some(why)
    if window is not None and window.is_fixed and key is not None:
        return _range(plan, key, bounds, kind)
    if why := _known_before(plan, kind, can_slice=can_slice):
        return _some(why)
    if plan.max_rows is not None:
        return _some(MAX_ROWS)
    if window is None or key is None or _is_whole(window, key):
        return Scope()
    start = bounds.start if plan.late_stream or bounds.below is None else bounds.below
    return _range(plan, key, replace(bounds, start=start), kind)


def scope_of_late_rows(plan: ReadPlan, bounds: Bounds, *, kind: str) -> Scope:
    """Return what the stream of the rows below the bookmark carries."""
    if plan.where is not None or plan.sample is not None:
        return scope_of_read(plan, bounds, kind=kind)
    if plan.key is None or bounds.below is None:
        return _some("late rows only")
    late = Bounds(start=bounds.below, end=bounds.start)
    return replace(_range(plan, plan.key, late, kind), nulls=False)


def completes_version(scope: Scope) -> bool:
    """Say whether a load that ends with this read has numbered every row of its table."""
    return scope.is_whole or scope.why in _SPANNED


def mapped(scope: Scope, stream: str, arrives: Container[str], maps: Mapping[str, Any]) -> Scope:
    """Return what is left of a scope behind stream maps, which drop and change records.

    Args:
        scope: What was read.
        stream: The stream that was read.
        arrives: The properties of the records as they arrive.
        maps: The setting stream_maps.
    """
    ours = [one for name, one in maps.items() if _concerns(name, one, stream)]
    if any("__filter__" in one for one in ours):
        return _some("a filter of stream_maps")
    if scope.rows == RANGE:
        column = scope.column
        same = all(one.get(column, column) in (column, "self") for one in ours)
        if not same or column not in arrives:
            return _some("a replication key that stream_maps change")
    return scope


def _concerns(name: str, definition: Any, stream: str) -> bool:
    """Say whether an entry of stream_maps makes records of a stream."""
    is_map = isinstance(definition, Mapping)
    return is_map and fnmatch(stream, str(definition.get("__source__", name)))


def _some(why: str) -> Scope:
    return Scope(rows=SOME, why=why)


def _known_before(plan: ReadPlan, kind: str, *, can_slice: bool) -> str | None:
    """Say why rows that an earlier run has read do not come again."""
    compares_rows = plan.snapshot is not None and plan.snapshot.mode == "rows"
    if kind == "kafka" or compares_rows:
        return CHANGES
    if plan.method == LOG_BASED:
        if plan.bookmark.get(delta_log.VERSION) is not None:
            return CHANGES
        return REST if can_slice and full_table.goes_on(plan, DELTA_SNAPSHOT) else None
    if plan.new_files:
        return CHANGES if plan.bookmark.get(new_files.FILES) else None
    if plan.window is None and can_slice and full_table.goes_on(plan, FULL_TABLE):
        return REST
    return None


def _is_whole(window: Window, key: Key) -> bool:
    """Say whether a window without ends leaves no row out."""
    leaves_nulls = window.null_keys == "exclude" and key.is_nullable
    return window.start is None and window.end is None and not leaves_nulls


def _range(plan: ReadPlan, key: Key, bounds: Bounds, kind: str) -> Scope:
    """Return the range that was read, where the target can tell its rows from others."""
    first, *others = key.parts
    if first.sql is not None:
        return _some("an expression as replication key")
    if any(part.is_nullable for part in others):
        return _some(f"a replication key of several parts that may be NULL ({key.label})")
    is_cut = plan.window is not None and not plan.window.from_bookmark
    if is_cut and len((plan.window and plan.window.start) or ()) > 1:
        return _some("a start_value of several parts")
    if first.is_decimal_text or (first.datatype == "string" and kind == "jdbc"):
        return _some("a text as replication key, which databases sort in their own way")
    nulls = plan.window is not None and plan.window.null_keys == "include"
    return Scope(rows=RANGE, column=first.name, start=bounds.start, end=bounds.end, nulls=nulls)
