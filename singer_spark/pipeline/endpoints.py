"""The two ends of a pipeline as its file gives them: a tap, a target, and where state lies."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from singer_spark.errors import SettingsError
from singer_spark.pipeline.document import Section, read_document

DEFAULT_TARGET = "target-spark-delta"
STATE_FOLDER = ".singer-spark/state"


@dataclass(frozen=True, slots=True)
class Plugin:
    """A command and its configuration, which may hold secrets and is never shown."""

    command: str
    config: Mapping[str, Any] = field(repr=False)


def read_source(source: Section, folder: Path) -> tuple[Plugin, tuple[str, ...]]:
    """Read the tap and the streams chosen; none chosen is all that it sends."""
    tap = Plugin(source.text("tap", required=True), _config(source, folder))
    streams = source.take("streams")
    source.close()
    if streams is None:
        return tap, ()
    if not isinstance(streams, list) or not streams or not all(isinstance(s, str) for s in streams):
        source.note("streams", "must be a list of stream names; leave it out for all")
        return tap, ()
    return tap, tuple(streams)


def read_destination(destination: Section, folder: Path) -> Plugin:
    """Read the target, or the short form that names a place for ours."""
    bucket, path = destination.text("bucket"), destination.text("path")
    compression = destination.text("compression")
    short = bool(bucket or path or compression)
    target = destination.text("target", required=not short)
    config = _config(destination, folder)
    destination.close()
    if not short:
        return Plugin(target, config)
    if target or config:
        destination.note("", "give target and config, or bucket, path and compression, not both")
    if not bucket:
        destination.note("bucket", "is required in the short form")
    short_config = {"path": _join_bucket(bucket, path)}
    return Plugin(
        DEFAULT_TARGET, short_config | ({"compression": compression} if compression else {})
    )


def _join_bucket(bucket: str, path: str) -> str:
    """Name the place as Spark does; a bucket without a scheme lies in S3."""
    place = re.sub(r"^s3n?://", "s3a://", bucket)
    if "://" not in place and not place.startswith(("/", ".", "~")):
        place = f"s3a://{place}"
    return "/".join(part for part in (place.rstrip("/"), path.strip("/")) if part)


def _config(section: Section, folder: Path) -> Mapping[str, Any]:
    """Take a plugin's configuration: a mapping, or the name of a file beside the pipeline's."""
    value = section.take("config")
    if isinstance(value, str):
        try:
            value = read_document(folder / value)
        except SettingsError:
            section.note("config", "its file cannot be read, or is neither JSON nor YAML")
            return {}
    if value is None:
        return {}
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        section.note("config", "holds a value that JSON cannot carry; quote it")
        return {}
    if isinstance(value, Mapping):
        return value
    section.note("config", "must be a mapping or a file's name")
    return {}


def default_state(config: Mapping[str, Any], folder: Path) -> str:
    """Place the state under the destination; beside the file where that has no path."""
    path = config.get("path")
    if not isinstance(path, str) or not path:
        return str(folder / STATE_FOLDER)
    return re.sub(r"^s3[an]://", "s3://", path).rstrip("/") + f"/{STATE_FOLDER}"
