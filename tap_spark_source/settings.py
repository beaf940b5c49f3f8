"""The tap's settings, parsed once; after this nobody reads the raw config."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from typing_extensions import override

from singer_spark.names import merged_options
from singer_spark.settings import SparkSettings
from singer_spark.spark_conf import option_refusal
from tap_spark_source.declaration import FULL_TABLE, INCREMENTAL, KINDS

_SKIPS = "rows that cannot be read must fail the run, not vanish"
_LEFT_OUT = "the driver would leave rows out and tell nobody; use max_rows"
_OURS_IN_SESSION = {
    "time_zone": "the tap reads times in UTC",
    "sql_select_limit": "rows would be left out and nobody told; use max_rows",
}
_OURS = {
    "url": "use source_url",
    "user": "use source_user",
    "password": "use source_password",
    "path": "use source_url",
    "dbtable": "the tap writes the queries; use tables and where",
    "query": "the tap writes the queries; use tables and where",
    "subscribe": "use tables",
    "subscribepattern": "use tables",
    "assign": "use tables",
    "startingoffsets": "the state says where to start",
    "endingoffsets": "the tap reads up to the end at its start",
    "startingtimestamp": "the state says where to start",
    "startingoffsetsbytimestamp": "the state says where to start",
    "startingoffsetsbytimestampstrategy": "the state says where to start",
    "endingtimestamp": "the tap reads up to the end at its start",
    "endingoffsetsbytimestamp": "the tap reads up to the end at its start",
    "minpartitions": "events of one partition stay together, or their order would be lost",
    "maxrecordsperpartition": "events of one partition stay together, or their order would be lost",
    "maxoffsetspertrigger": "use slice_rows and max_rows",
    "minoffsetspertrigger": "use slice_rows and max_rows",
    "failondataloss": "the tap never passes over lost events",
    "kafka.bootstrap.servers": "use source_url",
    "fetchsize": "use fetch_rows",
    "customschema": "the tap decides on types so that no value is bent",
    "prefertimestampntz": "the tap decides on types so that no value is bent",
    "partitioncolumn": "the tap cuts the ranges; use num_partitions",
    "lowerbound": "the tap cuts the ranges; use num_partitions",
    "upperbound": "the tap cuts the ranges; use num_partitions",
    "numpartitions": "the tap cuts the ranges; use num_partitions",
    "ignorecorruptfiles": _SKIPS,
    "ignoremissingfiles": _SKIPS,
    "ignoreinvalidpartitionpaths": _SKIPS,
    "readchangefeed": "use replication_method LOG_BASED",
    "readchangedata": "use replication_method LOG_BASED",
    "maxrows": _LEFT_OUT,
    "rows_per_resultset": _LEFT_OUT,
}
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


def source_problems(config: Mapping[str, Any]) -> list[str]:
    """List what contradicts itself in the tap's own settings; the schema found the rest."""
    options = config.get("source_options") or {}
    problems = [*_option_problems(options)]
    url = config.get("source_url")
    if isinstance(url, str) and (source_kind(url) not in KINDS or not url.partition(":")[2]):
        known = ", ".join(f"{kind}:…" for kind in KINDS)
        problems.append(f"source_url: unknown kind of source; known are {known}")
    problems += _session_problems(url, options)
    batch = config.get("batch_config")
    if isinstance(batch, Mapping) and not (batch.get("storage") or {}).get("root"):
        problems.append(
            "batch_config: storage.root is missing; name a folder, file:///… or s3://bucket/…"
        )
    if _needs_key(config):
        problems.append(
            "default_replication_method INCREMENTAL needs default_replication_key, or a "
            "replication_key in stream_options"
        )
    return problems


def _session_problems(url: Any, options: Mapping[str, Any]) -> list[str]:
    """List what the URL and the session must leave to the tap."""
    problems = []
    text = url if isinstance(url, str) else ""
    if re.match(r"(?i)jdbc:(mysql|mariadb):.*\bsessionvariables=", text):
        problems.append("source_url: sessionVariables cannot stand here; use source_options")
    if found := re.match(r"(?i)jdbc:.*[?&;](maxrows|rows_per_resultset)=", text):
        problems.append(f"source_url: {found[1]} cannot be set: {_LEFT_OUT}")
    given = next((v for key, v in options.items() if key.lower() == "sessionvariables"), "")
    return problems + [
        f"source_options: sessionVariables cannot set {name}: {reason}"
        for name, reason in _OURS_IN_SESSION.items()
        if name in str(given).lower()
    ]


def _needs_key(config: Mapping[str, Any]) -> bool:
    if config.get("default_replication_method") != INCREMENTAL:
        return False
    options = config.get("stream_options")
    keyed = isinstance(options, Mapping) and any(
        isinstance(value, Mapping) and value.get("replication_key") for value in options.values()
    )
    return not config.get("default_replication_key") and not keyed


def _leaves_out(option: str, value: str) -> bool:
    return _LIMITS.get(option.lower(), "none") in ("", value.lower())


def _option_problems(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the options that are the tap's own, and those by which rows would vanish."""
    for key, value in options.items():
        name = key.lower()
        reason = _OURS.get(name) or option_refusal(name)
        if name == "mode" and str(value).upper() == "DROPMALFORMED":
            reason = _SKIPS
        if reason:
            yield f"source_options: {key} cannot be set: {reason}"


def _option_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
