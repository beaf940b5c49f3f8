"""The tap's settings as they are declared, once."""

from __future__ import annotations

from typing import Any

from singer_sdk import typing as th

from singer_spark.plugin import SHOW_VALUES, SPARK

FULL_TABLE, INCREMENTAL, LOG_BASED = "FULL_TABLE", "INCREMENTAL", "LOG_BASED"
METHODS = [FULL_TABLE, INCREMENTAL, LOG_BASED]
SNAPSHOTS = ["off", "keys", "rows"]
NULL_KEYS = ["include", "exclude", "fail"]
KINDS = ("jdbc", "delta", "parquet", "orc", "avro", "csv", "json", "text", "catalog", "kafka")
SLICE_ROWS = 1_000_000

_KEY = th.CustomType(
    {"type": ["string", "array", "null"], "items": {"type": "string"}, "minItems": 1}
)
_STREAM_OPTIONS = th.ObjectType(
    th.Property("replication_method", th.StringType, allowed_values=METHODS),
    th.Property("replication_key", _KEY),
    th.Property("key_properties", th.ArrayType(th.StringType)),
    th.Property("where", th.StringType),
    th.Property("sample", th.NumberType(exclusive_minimum=0, maximum=1)),
    th.Property("lookback", th.NumberType(minimum=0)),
    th.Property("null_replication_key", th.StringType, allowed_values=NULL_KEYS),
    th.Property("start_value", th.CustomType({"type": ["string", "number", "array", "null"]})),
    th.Property("deleted_flag", th.StringType),
    th.Property("late_stream", th.BooleanType),
    th.Property("new_files", th.BooleanType),
    th.Property("snapshot", th.StringType, allowed_values=SNAPSHOTS),
    th.Property("snapshot_every", th.StringType),
    th.Property("schema", th.ObjectType(additional_properties=th.StringType)),
    th.Property("partition_column", th.StringType),
    th.Property("num_partitions", th.IntegerType(minimum=1)),
    additional_properties=False,
)


def _setting(name: str, kind: Any, text: str, **more: Any) -> th.Property[Any]:
    """Declare a setting, whose text is `Title: description`."""
    title, _, description = text.partition(": ")
    return th.Property(name, kind, title=title, description=description, **more)


CONFIG_JSONSCHEMA = th.PropertiesList(
    _setting(
        "source_url",
        th.StringType,
        "Source: Any JDBC URL; a folder of tables, one sub-folder or file each: delta:PATH, "
        "parquet:PATH, orc:PATH, avro:PATH, csv:PATH, json:PATH, text:PATH; tables that "
        "Spark's catalog knows: catalog:NAME or catalog:NAME.SCHEMA; or Debezium's topics: "
        "kafka:HOST:PORT.",
        required=True,
        secret=True,
    ),
    _setting("source_user", th.StringType, "User: User of the database."),
    _setting("source_password", th.StringType, "Password: Password of the database.", secret=True),
    _setting(
        "source_options",
        th.ObjectType(additional_properties=True),
        "Reader options: Options passed to Spark's reader, except those that the tap generates.",
        default={},
        secret=True,
    ),
    _setting(
        "tables",
        th.ArrayType(th.StringType),
        "Tables: Shell patterns of the tables to offer: public.orders, sales.*.",
        default=["*"],
    ),
    _setting(
        "start_date", th.DateTimeType, "Start date: First bookmark of time-based replication keys."
    ),
    _setting(
        "default_replication_method",
        th.StringType,
        "Default replication method: Replication method of streams that say nothing else, "
        "where they can.",
        default=FULL_TABLE,
        allowed_values=METHODS,
    ),
    _setting(
        "default_replication_key",
        th.StringType,
        "Default replication key: Replication key for INCREMENTAL where the table has that column.",
    ),
    _setting(
        "lookback",
        th.NumberType(minimum=0),
        "Lookback: How far before the bookmark to read again: seconds for time keys, units "
        "for numbers. Never written into the bookmark.",
        default=0,
    ),
    _setting(
        "null_replication_key",
        th.StringType,
        "Rows without a replication key: What to do with rows whose replication key is NULL.",
        default="include",
        allowed_values=NULL_KEYS,
    ),
    _setting(
        "slice_rows",
        th.IntegerType(minimum=1),
        "Rows per slice: About how many rows are read at a time; a STATE follows each slice.",
        default=SLICE_ROWS,
    ),
    _setting(
        "max_rows",
        th.IntegerType(minimum=1),
        "Rows per run: Stop each stream after about this many rows, at the end of a key's "
        "value; the next run goes on from there.",
    ),
    _setting(
        "window_start",
        th.StringType,
        "Start of the window: Read only keys from this value on; the state is neither used "
        "nor changed, so that a range can be read again.",
    ),
    _setting(
        "window_end",
        th.StringType,
        "End of the window: Read only keys below this value; the state is neither used nor "
        "changed.",
    ),
    _setting(
        "num_partitions",
        th.IntegerType(minimum=1),
        "Connections: Parallel connections per slice; default: the cores of the machine.",
    ),
    _setting(
        "fetch_rows",
        th.IntegerType(minimum=1),
        "Fetch size: JDBC rows per round trip.",
        default=10_000,
    ),
    _setting(
        "snapshot_path",
        th.StringType,
        "Snapshots: Folder, on any storage that Spark reaches, of the snapshots that the "
        "option snapshot compares with.",
    ),
    _setting(
        "stream_options",
        th.ObjectType(additional_properties=_STREAM_OPTIONS),
        "Options of streams: Shell pattern of stream ids to replication_method, "
        "replication_key, key_properties, where, sample, lookback, null_replication_key, "
        "start_value, deleted_flag, late_stream, new_files, snapshot, snapshot_every, "
        "schema, partition_column and num_partitions.",
        default={},
    ),
    _setting(
        "emit_activate_version_messages",
        th.BooleanType,
        "Activate versions: Number full-table loads, and end each with an ACTIVATE_VERSION "
        "message.",
        default=False,
    ),
    _setting(
        "use_singer_decimal",
        th.BooleanType,
        "Decimals as strings: Write decimals as strings of the format x-singer.decimal.",
        default=False,
    ),
    SHOW_VALUES,
    *SPARK,
).to_dict()
_DECLARED = CONFIG_JSONSCHEMA["properties"].items()
DEFAULTS = {name: one["default"] for name, one in _DECLARED if "default" in one}
