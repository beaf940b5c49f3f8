"""Decides which rows of its table a plan reads, as its SCHEMA says it. Pure.

A target replaces or retires rows by what stands here. In doubt a read is one of `some` rows.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from typing import Any

from singer_spark.assignment import Loaded
from singer_spark.protocol import CHANGES_ONLY, DELTA_SNAPSHOT, FULL_TABLE, RANGE, SOME, Scope
from tap_spark_source.plan.bookmark import DELTA_VERSION, FILES, goes_on
from tap_spark_source.plan.key import Key
from tap_spark_source.plan.read_plan import ReadPlan
from tap_spark_source.plan.window import Bounds, Window
from tap_spark_source.settings import LOG_BASED

MAX_ROWS = "max_rows"
REST = "the rest of an interrupted read"
# Limits that a load of several runs under one version outlives.
_SPANNED = (MAX_ROWS, REST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What of a source decides on the scope of a read.

    Args:
        is_topic: Whether it tells changes and nothing else.
        can_slice: Whether it is read in slices, so that a read can go on behind one.
        sorts_as_spark: Whether the ranges of the replication key are the same in Spark.
    """

    is_topic: bool = False
    can_slice: bool = True
    sorts_as_spark: bool = True


def scope_of_read(plan: ReadPlan, bounds: Bounds, traits: Traits) -> Scope:
    """Return what the stream of a plan carries; `bounds` are the ends of its window, if any."""
    window, key = plan.window, plan.key
    limit = _limit(plan, can_slice=traits.can_slice)
    if _follows_changes(plan, traits):
        begun = limit is not None or traits.is_topic or _has_begun(plan)
        # No later run reads these rows again, whatever limits this one.
        return _some(CHANGES_ONLY) if begun else Scope()
    if limit is not None:
        return _some(limit)
    if window is None or key is None or _is_whole(window, key):
        return Scope()
    start = bounds.start if plan.late_stream or bounds.below is None else bounds.below
    return _range(plan, key, replace(bounds, start=start), traits)


def read_again(plan: ReadPlan, bounds: Bounds) -> tuple[str, Any] | None:
    """Return a column and the value below which a lookback reads rows again in this stream."""
    if bounds.below is None or plan.key is None or plan.late_stream:
        return None
    return plan.key.parts[0].name, bounds.start


def scope_of_late_rows(plan: ReadPlan, bounds: Bounds, traits: Traits) -> Scope:
    """Return what the stream of the rows below the bookmark carries."""
    if plan.filter is not None:
        return scope_of_read(plan, bounds, traits)
    if plan.key is None or bounds.below is None:
        return _some("late rows only")
    late = Bounds(start=bounds.below, end=bounds.start)
    return replace(_range(plan, plan.key, late, traits), nulls=False)


def completes_version(scope: Scope) -> bool:
    """Say whether a load that ends with this read has numbered every row of its table."""
    return scope.is_whole or scope.why in _SPANNED


def mapped(
    scope: Scope, plan: ReadPlan, *, arrives: Container[str], maps: Mapping[str, Any]
) -> Scope:
    """Return what is left of a scope behind stream maps, which drop and change records.

    Args:
        scope: What was read.
        plan: How it was read.
        arrives: The properties of the records as they arrive.
        maps: The setting stream_maps.
    """
    ours = [one for name, one in maps.items() if _concerns(name, one, plan.table.stream)]
    if any("__filter__" in one for one in ours):
        return _some(CHANGES_ONLY if plan.new_files else "a filter of stream_maps")
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


def _limit(plan: ReadPlan, *, can_slice: bool) -> str | None:
    """Name what keeps rows of the table, or of the window, from being read."""
    if plan.filter is not None:
        return plan.filter
    if plan.window is not None and plan.window.is_fixed:
        return None
    marker = DELTA_SNAPSHOT if plan.method == LOG_BASED else FULL_TABLE
    if plan.window is None and can_slice and goes_on(plan, marker):
        return REST
    is_limited = plan.max_rows is not None and not _is_one_piece(plan, can_slice=can_slice)
    return MAX_ROWS if is_limited else None


def _follows_changes(plan: ReadPlan, traits: Traits) -> bool:
    """Say whether each run reads what is new since the one before, and nothing else."""
    if plan.window is not None and plan.window.is_fixed:
        return False
    compares_rows = plan.snapshot is not None and plan.snapshot.mode == "rows"
    return traits.is_topic or plan.method == LOG_BASED or plan.new_files or compares_rows


def _has_begun(plan: ReadPlan) -> bool:
    """Say whether an earlier run has read the table as it was."""
    if plan.snapshot is not None and plan.snapshot.mode == "rows":
        return True
    marker = DELTA_VERSION if plan.method == LOG_BASED else FILES
    return plan.bookmark.get(marker) not in (None, {})


def _is_one_piece(plan: ReadPlan, *, can_slice: bool) -> bool:
    """Say whether a table is read as a whole because it cannot be cut, whatever the limit."""
    is_cut = plan.window is not None or plan.new_files
    return not is_cut and (plan.key is None or not can_slice)


def _is_whole(window: Window, key: Key) -> bool:
    """Say whether a window without ends leaves no row out."""
    leaves_nulls = window.null_keys == "exclude" and key.is_nullable
    return window.start is None and window.end is None and not leaves_nulls


def _range(plan: ReadPlan, key: Key, bounds: Bounds, traits: Traits) -> Scope:
    """Return the range that was read, where the target can tell its rows from others."""
    first, *others = key.parts
    if first.sql is not None:
        return _some("an expression as replication key")
    if any(part.is_nullable for part in others):
        return _some(f"a replication key of several parts that may be NULL ({key.label})")
    is_cut = plan.window is not None and not plan.window.from_bookmark
    if is_cut and len((plan.window and plan.window.start) or ()) > 1:
        return _some("a start_value of several parts")
    if first.datatype == "binary":
        return _some("bytes as replication key")
    if first.is_decimal_text or not traits.sorts_as_spark:
        return _some("a text as replication key, which databases sort in their own way")
    nulls = plan.window is not None and plan.window.null_keys == "include"
    return Scope(rows=RANGE, column=first.name, start=bounds.start, end=bounds.end, nulls=nulls)


def read_for(
    plan: ReadPlan, scope: Scope, loaded: Loaded, *, reloads: bool, is_told: bool = False
) -> ReadPlan:
    """Read what moves meanwhile too, where the target may remove rows that do not come.

    It is read once more only where a key tells that two rows are one; else one query sees each
    row once. Known rows need not come where it `is_told` that none of them is removed then.
    """
    removes = loaded.replaces or (reloads and not loaded.is_sure)
    is_replaced = loaded.replaces and scope.rows != SOME
    return replace(
        plan,
        reads_on=loaded.by_key and (is_replaced or reloads or plan.window is None),
        at_once=removes and not loaded.by_key and scope.rows != SOME,
        skips_known=is_told and not loaded.replaces and not reloads,
        loaded=loaded if is_told else None,
    )
