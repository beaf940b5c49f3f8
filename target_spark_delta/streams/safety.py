"""Would rows be lost, or be there twice?

A part is never taken for the whole, nor another key for the one that a table was merged by.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from singer_spark.errors import SchemaError, SettingsError
from singer_spark.protocol import CHANGES_ONLY, RANGE, Scope
from target_spark_delta.streams.destination import KEY_PROPERTY, Destination
from target_spark_delta.table.ddl import set_properties
from target_spark_delta.table.table import Table

logger = logging.getLogger(__name__)


def check_completeness(destination: Destination) -> None:
    """Refuse a stream whose rows would take the place of rows that the tap did not read."""
    scope = destination.scope
    if scope is None:
        return
    problem = _loss_by(destination, scope) or _repetition_by(destination, scope)
    if problem:
        raise SettingsError(f"stream {destination.stream}: {problem}")


def warn_of_repetition(destination: Destination, *, remembers: bool) -> None:
    """Say once that what a stream sends again is there twice, where nothing can prevent it.

    It can where a store `remembers` the runs that fail.
    """
    by_name = destination.options.load_method == "append-only"
    if not destination.appends:
        return
    if destination.scope is not None:
        follows = destination.scope.why == CHANGES_ONLY and not destination.bookmarks
        if follows and not remembers:
            logger.warning(
                "Stream %s has no key and nothing remembers runs that fail, so rows that one has "
                "committed are appended again; set key_properties in stream_options, or keep the "
                "state in a store: singer-spark run",
                destination.stream,
            )
        return
    if destination.bookmarks and destination.bookmarks[0] not in destination.declared.names:
        logger.warning(
            "Stream %s: its bookmark %s is no column, so rows that are sent again are appended "
            "again",
            destination.stream,
            destination.bookmarks[0],
        )
    elif not destination.bookmarks and not by_name:
        logger.warning(
            "Stream %s has no key and its tap names no bookmark, so rows that are sent again are "
            "appended again; set key_properties, or load_method overwrite, in stream_options",
            destination.stream,
        )


def _loss_by(destination: Destination, scope: Scope) -> str | None:
    """Say what a method that replaces rows would lose."""
    method, column = destination.options.load_method, destination.options.range_column
    if scope.is_whole or not (destination.replaces_parts or destination.overwrites):
        return None
    if method == "delete-insert":
        if scope.rows == RANGE and scope.column == column:
            return None
        return (
            f"delete-insert by {column} needs a whole read, or one by {column}, and this one is "
            f"limited ({_limit(scope)}); set range_column to the replication key, or remove it"
        )
    fitting = "upsert" if destination.keys else "append-only"
    if scope.rows == RANGE:
        fitting += f" or delete-insert with range_column: {scope.column}"
    return (
        f"{method} would replace rows that were not read, because the read is limited "
        f"({_limit(scope)}); set load_method {fitting}, or read the table whole"
    )


def _repetition_by(destination: Destination, scope: Scope) -> str | None:
    """Say what would be there twice after the next run."""
    if not destination.appends:
        return None
    if destination.bookmarks:
        if destination.bookmarks[0] in destination.declared.names:
            return None
        return (
            f"its replication key {destination.bookmarks[0]} does not arrive as a column, so rows "
            "that are sent again cannot be told apart; keep it in stream_maps, or set "
            "key_properties in stream_options"
        )
    if destination.options.load_method == "append-only" or scope.why == CHANGES_ONLY:
        return None
    return (
        f"without a key and without a replication key every run of a limited read ({_limit(scope)})"
        " appends its rows again; set key_properties or load_method append-only in stream_options, "
        "or read the table whole"
    )


def _limit(scope: Scope) -> str:
    """Name what limits a read."""
    return f"by {scope.column}" if scope.rows == RANGE else scope.why or "to a part"


def known_key(properties: Mapping[str, str]) -> list[str] | None:
    """Read the key in a table's properties; None where none is noted."""
    try:
        key = json.loads(properties.get(KEY_PROPERTY, ""))
    except (ValueError, RecursionError):
        return None
    return [str(name) for name in key] if isinstance(key, list) and key else None


def needs_other_key(spark: SparkSession, destination: Destination) -> bool:
    """Say whether a stream's table is there and was merged by another key."""
    table = destination.table
    if table.schema(spark) is None:
        return False
    return _is_other(known_key(table.detail(spark)["properties"]), destination.keys)


def check_key(
    destination: Destination, properties: Mapping[str, str], pipeline: str | None
) -> None:
    """Refuse to merge into a table by another key than before."""
    known = known_key(properties)
    lost_key = destination.appends and destination.options.load_method == "upsert"
    looks = destination.merges or lost_key
    if not looks or not _is_other(known, destination.keys):
        return
    key, before = (", ".join(names or ()) for names in (destination.keys, known))
    raise SchemaError(
        f"stream {destination.stream}: its key is {key or 'none'}, but the rows of its table were "
        f"merged by {before} and would be there twice; {_way_out(destination, pipeline)}"
    )


def is_other_key(known: Sequence[str] | None, destination: Destination) -> bool:
    """Say whether rows come by another key than those before them in the same run."""
    return bool(known) and _is_other(known, destination.keys)


def changed_key(before: Sequence[str], now: Destination, pipeline: str | None) -> SchemaError:
    """Explain why the key cannot change in the middle of a run: older rows have the other one."""
    key, known = (", ".join(names) for names in (now.keys, before))
    return SchemaError(
        f"stream {now.stream}: its key changes in the middle of a run from {known} to "
        f"{key or 'none'}, and rows would be there twice; set key_properties in stream_options, "
        f"or run `{_refresh(now, pipeline)}`"
    )


def _refresh(destination: Destination, pipeline: str | None) -> str:
    return f"singer-spark run {pipeline or 'PIPELINE'} --refresh {destination.read_as}"


def _way_out(destination: Destination, pipeline: str | None) -> str:
    """Say what to do where a table was merged by another key."""
    if destination.keeps_history:
        return "its history cannot go on: load into another path"
    if destination.reloads and destination.keys:
        return "remove the table and run again, or load into another path"
    if not destination.keys:
        return "set key_properties, or load_method append-only, in stream_options"
    return f"run `{_refresh(destination, pipeline)}` to load the table afresh"


def check_reload(destination: Destination) -> None:
    """Refuse to append a stream afresh to a table that has its rows."""
    by_name = destination.is_whole or bool(destination.bookmarks)
    if destination.reloads and destination.appends and not by_name:
        raise SettingsError(
            f"stream {destination.stream}: loaded afresh it would append rows that its table has, "
            "and no key tells them apart; set key_properties in stream_options, or remove the "
            f"table, then: {_refresh(destination, destination.pipeline)}"
        )


def check_parts(destination: Destination, table: T.StructType, pipeline: str | None) -> None:
    """Refuse to replace parts of a table by a column that it does not have.

    Rows that are there would be in none of them, and stay beside those that come.
    """
    there = {name.lower() for name in table.names}
    option, columns = _parts_by(destination)
    if lacking := [name for name in columns if name.lower() not in there]:
        way_out = (
            "remove the table and run again, or load into another path"
            if destination.reloads
            else f"run `{_refresh(destination, pipeline)}`"
        )
        raise SettingsError(
            f"stream {destination.stream}: {option}: its table has no column "
            f"{', '.join(lacking)}, so rows that are there would be there twice; {way_out}"
        )


def _parts_by(destination: Destination) -> tuple[str, Sequence[str]]:
    """Return the option, and its columns, that alone say which rows of a table are replaced."""
    options = destination.options
    if destination.method == "partition-overwrite" and not destination.retires_partitions:
        return "partition_by", options.partition_by
    if destination.replaces_parts and not (destination.keys or destination.is_whole):
        return "range_column", [options.range_column or ""]
    return "", ()


def note_key(spark: SparkSession, table: Table, keys: Iterable[str]) -> None:
    """Note in a table what its rows are merged by."""
    set_properties(spark, table, {KEY_PROPERTY: json.dumps([*keys])})


def _is_other(known: Iterable[str] | None, keys: Iterable[str]) -> bool:
    """Say whether two keys have other columns; their order and case do not matter."""
    return known is not None and {one.lower() for one in known} != {one.lower() for one in keys}
