"""The tap's settings: declared once, parsed once; after this nobody reads the raw config."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from singer_sdk import typing as th
from typing_extensions import override

from singer_spark.names import merged_options
from singer_spark.plugin import SHOW_VALUES, SPARK
from singer_spark.settings import SparkSettings

FULL_TABLE, INCREMENTAL, LOG_BASED = "FULL_TABLE", "INCREMENTAL", "LOG_BASED"
METHODS = [FULL_TABLE, INCREMENTAL, LOG_BASED]
SNAPSHOTS = ["off", "keys", "rows"]
NULL_KEYS = ["include", "exclude", "fail"]
KINDS = ("jdbc", "delta", "parquet", "orc", "avro", "csv", "json", "text", "catalog", "kafka")

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
        default=1_000_000,
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
    SHOW_VALUES,
    *SPARK,
).to_dict()


# Options by which files are left out: none that exists reads every row of a table.
_LIMITS = {
    "pathglobfilter": "",
    "modifiedbefore": "",
    "modifiedafter": "",
    "ignoreextension": "false",
    "avro.mapred.ignore.inputs.without.extension": "true",
}
_WITHOUT_FILES = ("jdbc", "kafka", "catalog")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSettings:
    """Where records go as files, instead of RECORD messages, and how they are written."""

    format: str
    compression: str | None
    root: str
    prefix: str

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> BatchSettings | None:
        """Read batch_config, where it is given."""
        given = config.get("batch_config")
        if not given:
            return None
        encoding, storage = given.get("encoding") or {}, given["storage"]
        return cls(
            format=encoding.get("format") or "jsonl",
            compression=encoding.get("compression"),
            root=storage["root"],
            prefix=storage.get("prefix") or "",
        )

    @property
    def folder(self) -> Path | None:
        """The folder that takes the files, where it is one of this machine."""
        if self.root.startswith("file://"):
            return Path(unquote(urlparse(self.root).path))
        return None if "://" in self.root else Path(self.root).absolute()

    def place(self, name: str) -> str:
        """Return the folder of this name, under a URL that Spark writes to."""
        if self.folder:
            # Not encoded: Spark takes a % for what it is.
            root = f"file://{self.folder}"
        else:
            root = f"s3a{self.root[2:]}" if self.root.startswith("s3://") else self.root
        return f"{root.rstrip('/')}/{self.prefix}{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the tap was asked to do."""

    spark: SparkSettings
    kind: str
    url: str
    user: str | None
    password: str | None
    options: Mapping[str, str]
    tables: tuple[str, ...]
    start_date: str | None
    default_method: str
    default_key: str | None
    lookback: float
    null_keys: str
    slice_rows: int
    max_rows: int | None
    window_start: Any
    window_end: Any
    partitions: int
    fetch_rows: int
    snapshot_path: str | None
    stream_options: Mapping[str, Mapping[str, Any]]
    singer_decimal: bool
    batch: BatchSettings | None

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Settings:
        """Read the settings of a config that fits its schema."""
        url = absolute_url(config["source_url"])
        options = (config.get("source_options") or {}).items()
        return cls(
            spark=SparkSettings.from_config(config),
            kind=source_kind(url),
            url=url,
            user=config.get("source_user"),
            password=config.get("source_password"),
            options={key: _option_text(value) for key, value in options},
            tables=tuple(config.get("tables") or ["*"]),
            start_date=config.get("start_date"),
            default_method=config.get("default_replication_method") or FULL_TABLE,
            default_key=config.get("default_replication_key"),
            lookback=config.get("lookback") or 0,
            null_keys=config.get("null_replication_key") or "include",
            slice_rows=config.get("slice_rows") or 1_000_000,
            max_rows=config.get("max_rows"),
            window_start=config.get("window_start"),
            window_end=config.get("window_end"),
            partitions=config.get("num_partitions") or os.cpu_count() or 1,
            fetch_rows=config.get("fetch_rows") or 10_000,
            snapshot_path=absolute_path(config.get("snapshot_path") or "") or None,
            stream_options=config.get("stream_options") or {},
            singer_decimal=bool(config.get("use_singer_decimal")),
            batch=BatchSettings.from_config(config),
        )

    @override
    def __repr__(self) -> str:
        """Show nothing that could hold a secret."""
        return f"Settings({self.kind}, tables={self.tables})"

    @property
    def urls(self) -> list[str]:
        """List all that is read and written; it decides on what Spark starts with."""
        root = self.batch.root if self.batch else None
        return [url for url in (self.url, self.snapshot_path, root) if url]

    @property
    def limit(self) -> str | None:
        """Name the option that keeps files of a table from being read, if there is one."""
        if self.kind in _WITHOUT_FILES:
            return None
        found = (key for key, value in self.options.items() if _leaves_out(key, value))
        return next((f"source_options {key}" for key in found), None)

    @property
    def has_window(self) -> bool:
        """Say whether a range is to be read, whatever the state says."""
        return self.window_start is not None or self.window_end is not None

    def of_stream(self, stream: str) -> dict[str, Any]:
        """Return the stream's options: of each key the last matching pattern wins."""
        return merged_options(stream, self.stream_options)

    def lookback_of(self, stream: str) -> float:
        """Return how far below its bookmark a stream is read again."""
        given: float | None = self.of_stream(stream).get("lookback")
        return self.lookback if given is None else given


def source_kind(url: str) -> str:
    """Return the kind of source that a URL names: its scheme."""
    return url.partition(":")[0].lower()


def absolute_path(path: str) -> str:
    """Return a local path in full; others have a scheme."""
    is_full = not path or re.match(r"\w+:", path)
    return path.rstrip("/") if is_full else os.path.abspath(path)  # noqa: PTH100


def absolute_url(url: str) -> str:
    """Return the URL of a database in a file with its path in full, as Spark needs it."""
    found = re.fullmatch(r"(?i)(jdbc:(?:sqlite|derby):)([^:;?]+)([;?].*)?", url, re.DOTALL)
    if found is None or found[2].startswith("/"):
        return url
    return f"{found[1]}{os.path.abspath(found[2])}{found[3] or ''}"  # noqa: PTH100


def _leaves_out(option: str, value: str) -> bool:
    return _LIMITS.get(option.lower(), "none") in ("", value.lower())


def _option_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
