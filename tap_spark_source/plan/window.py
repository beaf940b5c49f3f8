"""Decides where an incremental read starts: key, settings and bookmark in, a window out. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from singer_spark.errors import SettingsError, SingerSparkError, StateError
from tap_spark_source.plan.key import Key, is_value
from tap_spark_source.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The bounds of one incremental read, before the source was asked for its highest key.

    `start` holds the JSON values of the key's parts, or of its first ones; None is the beginning.
    A fixed window ends before `end`, if that is given, and leaves the state alone.
    """

    start: tuple[Any, ...] | None = None
    end: tuple[Any, ...] | None = None
    is_fixed: bool = False
    lookback: float = 0
    null_keys: str = "include"
    from_bookmark: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The ends of a window in the first part of its key, as bookmarks write values.

    It is read from `start` on and ends before `end`; `below` is where the lookback begins. None is
    no end, or no lookback.
    """

    start: Any = None
    end: Any = None
    below: Any = None


def plan_window(stream: str, key: Key, settings: Settings, bookmark: Mapping[str, Any]) -> Window:
    """Decide on the start and the rules of a window; a given one is fixed."""
    options = settings.of_stream(stream)
    window = Window(
        lookback=settings.lookback_of(stream),
        null_keys=options.null_replication_key or settings.null_keys,
    )
    if settings.has_window:
        return _fixed(stream, key, settings)
    value = bookmark.get("replication_key_value")
    if bookmark.get("replication_key") == key.name and value is not None:
        try:
            return replace(window, start=key.from_json(value), from_bookmark=True)
        except ValueError as error:
            raise bad_bound(stream, replace(window, from_bookmark=True), error) from error
    first = options.start_value
    if first is None and key.parts[0].is_time:
        first = settings.start_date
    if first is None:
        return window
    start = tuple(first) if isinstance(first, list) else (first,)
    if len(start) > len(key.parts) or not all(map(is_value, key.parts, start)):
        raise bad_bound(stream, window, f"is no value of replication key {key.label}")
    return replace(window, start=start)


def _fixed(stream: str, key: Key, settings: Settings) -> Window:
    """Return the window that the settings give, in values of the first part of the key."""
    first, found = key.parts[0], {}
    for name in ("window_start", "window_end"):
        value = getattr(settings, name)
        if isinstance(value, str) and first.is_integer and re.fullmatch(r"-?\d+", value):
            value = int(value)
        if value is not None and not is_value(first, value):
            raise SettingsError(
                f"{stream}: {name} is no {first.datatype}, which replication key {first.name} is; "
                "correct it, or deselect the stream"
            )
        found[name] = None if value is None else (value,)
    start, end = found["window_start"], found["window_end"]
    return Window(start=start, end=end, is_fixed=True, null_keys="exclude")


def bad_bound(stream: str, window: Window, problem: object) -> SingerSparkError:
    """Return the error of a bound that is no value of the replication key."""
    if window.from_bookmark:
        return StateError(
            f"{stream}: the bookmark {problem}; correct replication_key_value in the state, or "
            "remove the stream's bookmark"
        )
    names = "window_start or window_end" if window.is_fixed else "start_value or start_date"
    return SettingsError(f"{stream}: {names} {problem}; correct it")
