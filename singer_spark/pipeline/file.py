"""A pipeline file (YAML) as a value: a tap, a target, and how the runner joins them.

Parsing is pure; every problem of a file is gathered into one SettingsError.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from singer_spark.errors import SettingsError
from singer_spark.pipeline.cron import is_cron
from singer_spark.pipeline.document import Section, expand, read_document
from singer_spark.state.store import PIPELINE_NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerts:
    """Limits; None is none. Durations are in seconds, spike and slow in times the usual."""

    max_lag: int | None = None
    empty_runs: int | None = None
    spike: float | None = 10.0
    slow: float | None = 5.0
    max_duration: int | None = None
    error_rate: float | None = 0.01
    webhook: str | None = field(default=None, repr=False)
    command: str | None = field(default=None, repr=False)


def read_alerts(section: Section) -> Alerts:
    """Read the limits; one that is given as null is off."""
    usual = Alerts()
    empty_runs = section.number("empty_runs", whole=True)
    alerts = Alerts(
        max_lag=section.duration("max_lag"),
        empty_runs=None if empty_runs is None else int(empty_runs),
        spike=section.number("spike", default=usual.spike),
        slow=section.number("slow", default=usual.slow),
        max_duration=section.duration("max_duration"),
        error_rate=section.number("error_rate", most=1, default=usual.error_rate),
        webhook=section.web_address("webhook"),
        command=section.text("command") or None,
    )
    section.close()
    return alerts


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


STALL_SECONDS = 30 * 60
TRANSPORTS = ("records", "batch", "auto")
LOCKS = ("auto", "none")
KEEP_RUNS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """What a pipeline file says, with its defaults filled in."""

    name: str
    tap: Plugin
    streams: tuple[str, ...]  # none selected: whatever the tap sends
    target: Plugin
    incremental: bool
    transport: str
    state: str | Mapping[str, Any] = field(repr=False)  # as create_state_store takes it
    cron: str | None
    timeout: int | None  # seconds, of the whole run
    alerts: Alerts
    openlineage: str | None = field(default=None, repr=False)  # a URL or a file
    stall_timeout: float | None = STALL_SECONDS  # without any progress; None is never
    locks: bool = True  # False lets runs of this pipeline start together
    keep_runs: int | None = KEEP_RUNS  # records of runs; None keeps all
    engine_idle: int | None = None  # seconds that Spark outlives the run


def load_pipeline(path: Path, env: Mapping[str, str] = os.environ) -> Pipeline:
    """Read a pipeline file."""
    document = read_document(path)
    try:
        return parse_pipeline(document, folder=path.parent, env=env)
    except SettingsError as error:
        first, *others = error.problems
        raise SettingsError([f"{path}: {first}", *others]) from None


def parse_pipeline(document: Any, *, folder: Path, env: Mapping[str, str]) -> Pipeline:
    """Check a pipeline file's content and fill in its defaults; `folder` is where it lies."""
    problems: list[str] = []
    root = Section(expand(document, "", env, problems), "", problems)
    tap, streams = read_source(root.section("source"), folder)
    target = read_destination(root.section("destination"), folder)
    pipeline = Pipeline(
        name=_name(root),
        tap=tap,
        streams=streams,
        target=target,
        incremental=_incremental(root.section("incremental")),
        transport=root.choice("transport", TRANSPORTS, default="auto"),
        state=_state(root) or default_state(target.config, folder),
        cron=_schedule(root.section("schedule")),
        timeout=root.duration("timeout"),
        stall_timeout=root.duration_or_off("stall_timeout", default=STALL_SECONDS),
        alerts=read_alerts(root.section("alerts")),
        openlineage=root.web_address("openlineage", or_file=True),
        locks=root.choice("lock", LOCKS, default="auto") != "none",
        keep_runs=_keep_runs(root),
        engine_idle=root.duration("engine_idle"),
    )
    root.close()
    if problems:
        raise SettingsError(problems)
    return pipeline


def _name(root: Section) -> str:
    name = root.text("name", required=True)
    if name and not PIPELINE_NAME.fullmatch(name):
        root.note("name", "holds letters, digits, '.', '_', ':' and '-' only, the first not a sign")
    return name


def _state(root: Section) -> str | Mapping[str, Any]:
    value = root.take("state")
    if value is None:
        return ""
    if isinstance(value, (str, Mapping)) and value:
        return value
    root.note("state", "must be a folder, a URL, or a mapping with url and its options")
    return ""


def _keep_runs(root: Section) -> int | None:
    number = root.number("keep_runs", whole=True, default=KEEP_RUNS)
    return None if number is None else int(number)


def _incremental(section: Section) -> bool:
    enabled = section.flag("enabled", default=True)
    section.close()
    return enabled


def _schedule(section: Section) -> str | None:
    cron = section.text("cron")
    section.close()
    if cron and not is_cron(cron):
        section.note("cron", "must be the five fields of a crontab line, or @daily and the like")
    return cron or None
