"""The key that the rows of a table were merged by: by another one they would be there twice."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from singer_spark.errors import SchemaError, SettingsError
from target_spark_delta import fence
from target_spark_delta.destination import KEY_PROPERTY, Destination
from target_spark_delta.retry import with_retry
from target_spark_delta.table import Table, properties_ddl

logger = logging.getLogger(__name__)


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
    """Refuse to merge into a table by another key than before.

    Raises:
        SchemaError: The key has changed.
    """
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
    """Refuse to append a stream afresh to a table that has its rows.

    Raises:
        SettingsError: Nothing tells its rows from those that are there.
    """
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

    Raises:
        SettingsError: The rows would be there twice.
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
    fence.confirm(spark)
    statement = f"alter table {table.sql} set {properties_ddl({KEY_PROPERTY: json.dumps([*keys])})}"
    with_retry(table, lambda: spark.sql(statement))


def _is_other(known: Iterable[str] | None, keys: Iterable[str]) -> bool:
    """Say whether two keys have other columns; their order and case do not matter."""
    return known is not None and {one.lower() for one in known} != {one.lower() for one in keys}
