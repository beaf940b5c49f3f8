"""The tap's settings, parsed once; after this nobody reads the raw config."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from typing_extensions import override

from singer_spark.names import merged_options
from singer_spark.settings import SparkSettings
from tap_spark_source.settings_schema import DEFAULTS, SNAPSHOTS

# A setting that is given so is not given.
_UNSET: tuple[object, ...] = (None, "", [])


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """What stream_options say of one stream; None is what they leave to the other settings."""

    replication_method: str | None = None
    replication_key: str | list[str] | None = None
    key_properties: Sequence[str] | None = None
    where: str | None = None
    sample: float | None = None
    lookback: float | None = None
    null_replication_key: str | None = None
    start_value: Any = None
    deleted_flag: str | None = None
    late_stream: bool | None = None
    new_files: bool | None = None
    snapshot: str | None = None
    snapshot_every: str | None = None
    schema: Mapping[str, str] | None = None
    partition_column: str | None = None
    num_partitions: int | None = None

    @property
    def is_compared(self) -> bool:
        """Say whether the table is compared with what it held before."""
        return (self.snapshot or SNAPSHOTS[0]) != SNAPSHOTS[0]


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
        unset = {name for name in DEFAULTS if config.get(name) in _UNSET}
        given = {**config, **{name: DEFAULTS[name] for name in unset}}
        return cls(
            spark=SparkSettings.from_config(config),
            kind=source_kind(url),
            url=url,
            user=given.get("source_user"),
            password=given.get("source_password"),
            options={
                key: str(value).lower() if isinstance(value, bool) else str(value)
                for key, value in given["source_options"].items()
            },
            tables=tuple(given["tables"]),
            start_date=given.get("start_date"),
            default_method=given["default_replication_method"],
            default_key=given.get("default_replication_key"),
            lookback=given["lookback"],
            null_keys=given["null_replication_key"],
            slice_rows=given["slice_rows"],
            max_rows=given.get("max_rows"),
            window_start=given.get("window_start"),
            window_end=given.get("window_end"),
            partitions=given.get("num_partitions") or os.cpu_count() or 1,
            fetch_rows=given["fetch_rows"],
            snapshot_path=absolute_path(given.get("snapshot_path") or "") or None,
            stream_options=given["stream_options"],
            singer_decimal=given["use_singer_decimal"],
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
    def has_window(self) -> bool:
        """Say whether a range is to be read, whatever the state says."""
        return self.window_start is not None or self.window_end is not None

    def of_stream(self, stream: str) -> StreamOptions:
        """Return the stream's options: of each key the last matching pattern wins."""
        return StreamOptions(**merged_options(stream, self.stream_options))

    def lookback_of(self, stream: str) -> float:
        """Return how far below its bookmark a stream is read again."""
        given = self.of_stream(stream).lookback
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
