"""Settings that have no effect on how a stream is read, or another one than expected. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tap_spark_source.key import Key
from tap_spark_source.plan import ReadPlan
from tap_spark_source.settings import Settings
from tap_spark_source.window import Window

# Options that only a read by replication key knows.
_OF_KEYS = ("start_value", "null_replication_key", "late_stream")


def idle_settings(plan: ReadPlan, settings: Settings) -> Iterator[str]:
    """Yield what the user asked for, and does not get."""
    options = settings.of_stream(plan.table.stream)
    if options.get("snapshot_every") is not None and plan.snapshot is None:
        yield "snapshot_every has no effect without snapshot; set snapshot to keys or rows"
    if plan.window is None or plan.key is None:
        names = [name for name in _OF_KEYS if options.get(name)]
        if options.get("lookback") and not plan.new_files:
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
    has_start = options.get("start_value") is not None
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
