"""Decides what to read: catalog, settings and bookmark in, a ReadPlan out. Pure.

Precedence: the catalog's metadata, the entry's own fields, stream_options, default_*.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from singer_sdk.singerlib import CatalogEntry

from singer_spark.errors import SettingsError, SingerSparkError, SourceError, StateError
from tap_spark_source.catalog import root_metadata
from tap_spark_source.settings import FULL_TABLE, INCREMENTAL, METHODS, Settings
from tap_spark_source.table import Column, Table

_TIME = re.compile(r"\d{4,6}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?\s*(Z|[+-]\d\d(:?\d\d)?)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replication:
    """How a stream is replicated, decided before its table is looked at."""

    method: str = FULL_TABLE
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The bounds of one incremental read, before the source was asked for its highest key.

    `start` is the bookmark's or the first value's JSON, None for the beginning.
    """

    key: Column
    start: Any = None
    lookback: float = 0
    null_keys: str = "include"
    from_bookmark: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """What to read of one table."""

    table: Table
    columns: tuple[Column, ...]
    key_properties: tuple[str, ...]
    where: str | None = None
    window: Window | None = None


def plan_replication(
    stream: str,
    settings: Settings,
    *,
    columns: Mapping[str, Any],
    entry: CatalogEntry | None = None,
) -> Replication:
    """Decide on method and key of a stream.

    Args:
        stream: The stream's id.
        settings: What the tap was asked to do.
        columns: The names of the stream's columns.
        entry: The stream in the user's catalog.
    """
    options = settings.of_stream(stream)
    method, key = _from_catalog(entry)
    if key is None and method != FULL_TABLE:
        key = options.get("replication_key")
        method = method or options.get("replication_method") or (INCREMENTAL if key else None)
    if key is None and method != FULL_TABLE:
        method, key = _default(settings, method, columns)
    if method is None:
        method = INCREMENTAL if key else FULL_TABLE
    if method not in METHODS:
        raise SettingsError(
            f"{stream}: replication method {method} is unknown; use {' or '.join(METHODS)}"
        )
    if method == INCREMENTAL and key is None:
        raise SettingsError(
            f"{stream}: INCREMENTAL needs a replication key; set replication-key in the catalog, "
            "replication_key in stream_options or default_replication_key"
        )
    return Replication(method=method, key=key if method == INCREMENTAL else None)


def _from_catalog(entry: CatalogEntry | None) -> tuple[str | None, str | None]:
    """Return method and key as the catalog gives them; its metadata beats its fields."""
    if entry is None:
        return None, None
    root = root_metadata(entry)
    method = root.replication_method or root.forced_replication_method or entry.replication_method
    return method, root.replication_key or entry.replication_key


def _default(
    settings: Settings, method: str | None, columns: Mapping[str, Any]
) -> tuple[str, str | None]:
    """Return the default method, where the table has the default key."""
    key = settings.default_key if settings.default_key in columns else None
    if method is not None:
        return method, key
    wanted = settings.default_method == INCREMENTAL and key is not None
    return (INCREMENTAL, key) if wanted else (FULL_TABLE, None)


def plan_read(
    table: Table,
    settings: Settings,
    *,
    replication: Replication,
    key_properties: tuple[str, ...],
    is_selected: Callable[[str], bool],
    bookmark: Mapping[str, Any],
) -> ReadPlan:
    """Decide what to read of a table."""
    options = settings.of_stream(table.stream)
    window = _window(table, settings, replication=replication, bookmark=bookmark)
    always = {*key_properties, *([window.key.name] if window else [])}
    if missing := sorted(name for name in always if table.column(name) is None):
        raise SourceError(
            f"{table.stream}: table {table.label} has no column {', '.join(missing)}; correct the "
            "key properties, or discover again"
        )
    columns = tuple(
        column for column in table.columns if column.name in always or is_selected(column.name)
    )
    if not columns:
        raise SettingsError(f"{table.stream}: no column is selected; select one, or deselect it")
    return ReadPlan(
        table=table,
        columns=columns,
        key_properties=key_properties,
        where=options.get("where"),
        window=window,
    )


def _window(
    table: Table, settings: Settings, *, replication: Replication, bookmark: Mapping[str, Any]
) -> Window | None:
    if replication.key is None:
        return None
    stream, options = table.stream, settings.of_stream(table.stream)
    key = table.column(replication.key)
    if key is None:
        raise SourceError(
            f"{stream}: replication key {replication.key} is no column of {table.label}; correct "
            "it in the catalog or in stream_options"
        )
    if not key.is_orderable and key.datatype != "string":
        raise SettingsError(
            f"{stream}: {key.name} of type {key.datatype} cannot be a replication key; choose a "
            "time, an exact number or a text"
        )
    start, from_bookmark = _start(key, settings, options=options, bookmark=bookmark)
    window = Window(
        key=key,
        start=start,
        from_bookmark=from_bookmark,
        lookback=options.get("lookback", settings.lookback) or 0,
        null_keys=options.get("null_replication_key") or settings.null_keys,
    )
    if start is not None and not _is_start_of(key, start):
        raise bad_start(stream, window)
    return window


def _start(
    key: Column, settings: Settings, *, options: Mapping[str, Any], bookmark: Mapping[str, Any]
) -> tuple[Any, bool]:
    """Return where to start, and whether a bookmark says so."""
    if bookmark.get("replication_key") == key.name:
        value = bookmark.get("replication_key_value")
        if value is not None:
            return value, True
    if options.get("start_value") is not None:
        return options["start_value"], False
    return (settings.start_date if key.is_time else None), False


def _is_start_of(key: Column, value: Any) -> bool:
    """Say whether a JSON value can be a value of the key."""
    if key.is_number:
        wanted: tuple[type, ...] = (int,) if key.is_integer else (int, float, str)
        return isinstance(value, wanted) and not isinstance(value, bool)
    # Spark would also take `now` and `yesterday` for times.
    return isinstance(value, str) and (not key.is_time or _TIME.fullmatch(value) is not None)


def bad_start(stream: str, window: Window) -> SingerSparkError:
    """Return the error of a start that is no value of the replication key."""
    wrong = f"is no {window.key.datatype}, which replication key {window.key.name} is"
    if window.from_bookmark:
        return StateError(
            f"{stream}: the bookmark {wrong}; correct replication_key_value in the state, or "
            "remove the stream's bookmark"
        )
    return SettingsError(f"{stream}: start_value or start_date {wrong}; correct it")
