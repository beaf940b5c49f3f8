"""The tap's settings as they are declared, once."""

from __future__ import annotations

from singer_sdk import typing as th

from singer_spark.declaration import SPARK

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

CONFIG_JSONSCHEMA = th.PropertiesList(
    th.Property(
        "source_url",
        th.StringType,
        required=True,
        secret=True,
        title="Source",
        description=(
            "Any JDBC URL; a folder of tables, one sub-folder or file each: delta:PATH, "
            "parquet:PATH, orc:PATH, avro:PATH, csv:PATH, json:PATH, text:PATH; tables that "
            "Spark's catalog knows: catalog:NAME or catalog:NAME.SCHEMA; or Debezium's topics: "
            "kafka:HOST:PORT."
        ),
    ),
    th.Property("source_user", th.StringType, title="User", description="User of the database."),
    th.Property(
        "source_password",
        th.StringType,
        secret=True,
        title="Password",
        description="Password of the database.",
    ),
    th.Property(
        "source_options",
        th.ObjectType(additional_properties=True),
        default={},
        secret=True,
        title="Reader options",
        description="Options passed to Spark's reader, except those that the tap generates.",
    ),
    th.Property(
        "tables",
        th.ArrayType(th.StringType),
        default=["*"],
        title="Tables",
        description="Shell patterns of the tables to offer: public.orders, sales.*.",
    ),
    th.Property(
        "start_date",
        th.DateTimeType,
        title="Start date",
        description="First bookmark of time-based replication keys.",
    ),
    th.Property(
        "default_replication_method",
        th.StringType,
        default=FULL_TABLE,
        allowed_values=METHODS,
        title="Default replication method",
        description="Replication method of streams that say nothing else, where they can.",
    ),
    th.Property(
        "default_replication_key",
        th.StringType,
        title="Default replication key",
        description="Replication key for INCREMENTAL where the table has that column.",
    ),
    th.Property(
        "lookback",
        th.NumberType(minimum=0),
        default=0,
        title="Lookback",
        description=(
            "How far before the bookmark to read again: seconds for time keys, units for "
            "numbers. Never written into the bookmark."
        ),
    ),
    th.Property(
        "null_replication_key",
        th.StringType,
        default="include",
        allowed_values=NULL_KEYS,
        title="Rows without a replication key",
        description="What to do with rows whose replication key is NULL.",
    ),
    th.Property(
        "slice_rows",
        th.IntegerType(minimum=1),
        default=SLICE_ROWS,
        title="Rows per slice",
        description="About how many rows are read at a time; a STATE follows each slice.",
    ),
    th.Property(
        "max_rows",
        th.IntegerType(minimum=1),
        title="Rows per run",
        description=(
            "Stop each stream after about this many rows, at the end of a key's value; the next "
            "run goes on from there."
        ),
    ),
    th.Property(
        "window_start",
        th.StringType,
        title="Start of the window",
        description=(
            "Read only keys from this value on; the state is neither used nor changed, so that a "
            "range can be read again."
        ),
    ),
    th.Property(
        "window_end",
        th.StringType,
        title="End of the window",
        description="Read only keys below this value; the state is neither used nor changed.",
    ),
    th.Property(
        "num_partitions",
        th.IntegerType(minimum=1),
        title="Connections",
        description="Parallel connections per slice; default: the cores of the machine.",
    ),
    th.Property(
        "fetch_rows",
        th.IntegerType(minimum=1),
        default=10_000,
        title="Fetch size",
        description="JDBC rows per round trip.",
    ),
    th.Property(
        "snapshot_path",
        th.StringType,
        title="Snapshots",
        description=(
            "Folder, on any storage that Spark reaches, of the snapshots that the option snapshot "
            "compares with."
        ),
    ),
    th.Property(
        "stream_options",
        th.ObjectType(additional_properties=_STREAM_OPTIONS),
        default={},
        title="Options of streams",
        description=(
            "Shell pattern of stream ids to replication_method, replication_key, "
            "key_properties, where, sample, lookback, null_replication_key, start_value, "
            "deleted_flag, late_stream, new_files, snapshot, snapshot_every, schema, "
            "partition_column and num_partitions."
        ),
    ),
    th.Property(
        "emit_activate_version_messages",
        th.BooleanType,
        default=False,
        title="Activate versions",
        description="Number full-table loads, and end each with an ACTIVATE_VERSION message.",
    ),
    th.Property(
        "use_singer_decimal",
        th.BooleanType,
        default=False,
        title="Decimals as strings",
        description="Write decimals as strings of the format x-singer.decimal.",
    ),
    *SPARK,
).to_dict()
DEFAULTS = {
    name: one["default"]
    for name, one in CONFIG_JSONSCHEMA["properties"].items()
    if "default" in one
}
