"""The tap's settings, declared once and parsed once; after this nobody reads the raw config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from singer_sdk import typing as th
from typing_extensions import override

from singer_spark.names import merged_options
from singer_spark.settings import SPARK, SparkSettings

FULL_TABLE, INCREMENTAL = "FULL_TABLE", "INCREMENTAL"
METHODS = [FULL_TABLE, INCREMENTAL]
NULL_KEYS = ["include", "exclude", "fail"]
KINDS = ("jdbc", "delta", "parquet", "csv", "json")

_STREAM_OPTIONS = th.ObjectType(
    th.Property("replication_method", th.StringType, allowed_values=METHODS),
    th.Property("replication_key", th.StringType),
    th.Property("key_properties", th.ArrayType(th.StringType)),
    th.Property("where", th.StringType),
    th.Property("lookback", th.NumberType(minimum=0)),
    th.Property("null_replication_key", th.StringType, allowed_values=NULL_KEYS),
    th.Property("start_value", th.CustomType({"type": ["string", "number", "null"]})),
    additional_properties=False,
)

CONFIG_JSONSCHEMA = th.PropertiesList(
    th.Property(
        "source_url",
        th.StringType,
        required=True,
        title="Source",
        description=(
            "Any JDBC URL, or a folder of tables, one sub-folder or file each: delta:PATH, "
            "parquet:PATH, csv:PATH, json:PATH."
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
        "fetch_rows",
        th.IntegerType(minimum=1),
        default=10_000,
        title="Fetch size",
        description="JDBC rows per round trip.",
    ),
    th.Property(
        "stream_options",
        th.ObjectType(additional_properties=_STREAM_OPTIONS),
        default={},
        title="Options of streams",
        description=(
            "Shell pattern of stream ids to replication_method, replication_key, "
            "key_properties, where, lookback, null_replication_key and start_value."
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

_OURS = {
    "url": "use source_url",
    "user": "use source_user",
    "password": "use source_password",
    "path": "use source_url",
    "dbtable": "the tap writes the queries; use tables and where",
    "query": "the tap writes the queries; use tables and where",
    "fetchsize": "use fetch_rows",
    "customschema": "the tap decides on types so that no value is bent",
    "prefertimestampntz": "the tap decides on types so that no value is bent",
    "partitioncolumn": "the tap reads each table by one query",
    "lowerbound": "the tap reads each table by one query",
    "upperbound": "the tap reads each table by one query",
    "numpartitions": "the tap reads each table by one query",
}


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
    fetch_rows: int
    stream_options: Mapping[str, Mapping[str, Any]]
    singer_decimal: bool

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Settings:
        """Read the settings of a config that fits its schema."""
        url = config["source_url"]
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
            fetch_rows=config.get("fetch_rows") or 10_000,
            stream_options=config.get("stream_options") or {},
            singer_decimal=bool(config.get("use_singer_decimal")),
        )

    @override
    def __repr__(self) -> str:
        """Show nothing that could hold a secret."""
        return f"Settings({self.kind}, tables={self.tables})"

    def of_stream(self, stream: str) -> dict[str, Any]:
        """Return the stream's options: of each key the last matching pattern wins."""
        return merged_options(stream, self.stream_options)


def source_kind(url: str) -> str:
    """Return the kind of source that a URL names: its scheme."""
    return url.partition(":")[0].lower()


def source_problems(config: Mapping[str, Any]) -> list[str]:
    """List what contradicts itself in the tap's own settings; the schema found the rest."""
    options = config.get("source_options") or {}
    problems = [
        f"source_options: {key} cannot be set: {_OURS[key.lower()]}"
        for key in options
        if key.lower() in _OURS
    ]
    url = config.get("source_url")
    if isinstance(url, str) and (source_kind(url) not in KINDS or not url.partition(":")[2]):
        known = ", ".join(f"{kind}:…" for kind in KINDS)
        problems.append(f"source_url: unknown kind of source; known are {known}")
    if _needs_key(config):
        problems.append(
            "default_replication_method INCREMENTAL needs default_replication_key, or a "
            "replication_key in stream_options"
        )
    return problems


def _needs_key(config: Mapping[str, Any]) -> bool:
    if config.get("default_replication_method") != INCREMENTAL:
        return False
    options = config.get("stream_options")
    keyed = isinstance(options, Mapping) and any(
        isinstance(value, Mapping) and value.get("replication_key") for value in options.values()
    )
    return not config.get("default_replication_key") and not keyed


def _option_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
