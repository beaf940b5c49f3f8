"""Warnings before a read: settings without effect, tables that make it slow or incomplete. Pure."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from tap_spark_source.plan.key import Key
from tap_spark_source.plan.read_plan import ReadPlan
from tap_spark_source.plan.table import Column, Index, Table
from tap_spark_source.plan.window import Window
from tap_spark_source.settings import Settings

logger = logging.getLogger("tap-spark-source")


def warn(stream: str, text: str) -> None:
    """Log what the user should do something about."""
    logger.warning("%s: %s", stream, text)


def inform(stream: str, text: str) -> None:
    """Log what the user may want to know."""
    logger.info("%s: %s", stream, text)


def table_warnings(plan: ReadPlan) -> Iterator[str]:
    """Yield what to look at, of what the settings and the source say about its table."""
    if plan.partition_column and not plan.snapshot and (plan.window or plan.new_files):
        yield (
            f"partition_column {plan.partition_column} has no effect: it cuts reads of the whole "
            "table, and this one goes by replication key or by files; remove it"
        )
    table, indexes = plan.table, plan.table.indexes
    if table.is_view:
        return
    if table.knows_nulls:
        yield from _about_nulls(plan)
    if indexes is None:
        return
    if plan.window is not None and plan.key is not None:
        first = plan.key.parts[0]
        if not any(_serves(index, first, table) for index in indexes):
            yield (
                f"no index begins with the replication key {first.name}: every run reads the whole "
                f"of {table.label}; create one"
            )
    unique = [index.columns for index in indexes if index.is_unique] + [table.keys or ("",)]
    names = set(plan.key_properties)
    if names and not any(set(columns) <= names for columns in unique):
        yield (
            f"no unique index guarantees that {', '.join(plan.key_properties)} tells rows apart; "
            "rows that share it replace each other in the target"
        )


def _about_nulls(plan: ReadPlan) -> Iterator[str]:
    window, key = plan.window, plan.key
    if window is None or key is None or not key.is_nullable or window.null_keys == "fail":
        return
    always = window.null_keys == "include" and not window.is_fixed
    yield (
        f"replication key {key.label} may be NULL, and such rows are "
        f"{'read in every run' if always else 'never read'}; declare it NOT NULL, or use an "
        "expression such as coalesce(updated_at, created_at)"
    )


def _serves(index: Index, part: Column, table: Table) -> bool:
    """Say whether an index may begin with the key; expressions have more than one spelling."""
    first = index.columns[0]
    return first == part.name if part.sql is None else table.column(first) is None


# Options that only a read by replication key knows.
_OF_KEYS = ("start_value", "null_replication_key", "late_stream")


def setting_warnings(plan: ReadPlan, settings: Settings) -> Iterator[str]:
    """Yield what the user asked for, and does not get."""
    options = settings.of_stream(plan.table.stream)
    if options.snapshot_every is not None and plan.snapshot is None:
        yield "snapshot_every has no effect without snapshot; set snapshot to keys or rows"
    if plan.window is None or plan.key is None:
        names = [name for name in _OF_KEYS if getattr(options, name)]
        if options.lookback and not plan.new_files:
            names.append("lookback")
        if names:
            yield (
                f"{', '.join(names)} without effect: the stream is not read by a replication key "
                f"({plan.method}); remove it, or set replication_key"
            )
    elif not plan.window.is_fixed:
        yield from _of_key(plan, plan.key, plan.window, settings)


def _of_key(plan: ReadPlan, key: Key, window: Window, settings: Settings) -> Iterator[str]:
    first, options = key.parts[0], settings.of_stream(plan.table.stream)
    has_distance = first.is_time or first.is_number
    if window.lookback and not has_distance:
        yield (
            f"lookback has no effect: replication key {first.name} of type {first.datatype} has no "
            "distances, and rows that appear below the bookmark are missed; use a time or a number"
        )
    if plan.late_stream and not (window.lookback and has_distance):
        yield "late_stream has no effect without a lookback, which finds late rows; set one"
    has_start = options.start_value is not None
    if settings.start_date and not (first.is_time or has_start or window.from_bookmark):
        yield (
            f"start_date has no effect: replication key {first.name} of type {first.datatype} is "
            "no time, and everything is read; set start_value"
        )
    if plan.snapshot is not None:
        has_start = has_start or (settings.start_date is not None and first.is_time)
        yield from _of_comparison(plan.snapshot.mode, key, window, has_start)


def _of_comparison(mode: str, key: Key, window: Window, has_start: bool) -> Iterator[str]:
    if has_start and mode == "rows":
        yield (
            "start_value and start_date have no effect: snapshot rows tells every row of the "
            "table; leave rows out by where"
        )
    elif has_start:
        yield (
            "snapshot keys compares all keys of the table, those below start_value or start_date "
            "too, and tells the deletion of rows that were never told; leave them out by where"
        )
    if mode == "rows" and window.null_keys == "exclude" and key.is_nullable:
        yield (
            "null_replication_key exclude has no effect: snapshot rows tells every row of the "
            "table; leave rows out by where"
        )
