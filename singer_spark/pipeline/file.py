"""A pipeline file (YAML) as a value: a tap, a target, and how the runner joins them.

`schema.json` says which keys there are. Parsing is pure, but for settings of a plugin that lie in
a file beside it; every problem of a file is gathered into one SettingsError.
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
from singer_spark.figures import parse_duration
from singer_spark.pipeline.document import expand, read_document, schema_problems
from singer_spark.pipeline.plugins import OUR_TARGET, Plugin
from singer_spark.secrets import keep_secret

STATE_FOLDER = ".singer-spark/state"
STALL_SECONDS = 30 * 60
KEEP_RUNS = 1000
SECTIONS = ("source", "destination", "incremental", "schedule", "alerts")
NULL_IS_OFF = ("keep_runs", "spike", "slow", "error_rate")  # elsewhere null is not given
DURATIONS = ("max_lag", "max_duration")


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

    @property
    def is_ours(self) -> bool:
        """Whether both sides are ours, which share an engine and know each other's rows."""
        return self.tap.is_ours and self.target.is_ours


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
    if not isinstance(document, Mapping):
        raise SettingsError("file: must be a mapping")
    problems: list[str] = []
    given = _without_nulls(expand(document, "", env, problems))
    for name in SECTIONS:
        section = given.setdefault(name, {})
        if isinstance(section, Mapping):
            given[name] = _without_nulls(section)
    source, destination = (_with_config(given, name, folder, problems) for name in SECTIONS[:2])
    _keep_secrets(given, source, destination)
    problems += schema_problems(given)
    problems += _ends_missing(destination)
    if problems:
        raise SettingsError(problems)
    target, alerts = _target(destination), given["alerts"]
    return Pipeline(
        name=given["name"],
        tap=Plugin(source["tap"], source["config"]),
        streams=tuple(source.get("streams", ())),
        target=target,
        incremental=given["incremental"].get("enabled", True),
        transport=given.get("transport", "auto"),
        state=given.get("state") or default_state(target.config, folder),
        cron=given["schedule"].get("cron"),
        timeout=parse_duration(given.get("timeout")),
        stall_timeout=parse_duration(given.get("stall_timeout", f"{STALL_SECONDS}s")),
        alerts=Alerts(**alerts | {key: parse_duration(alerts.get(key)) for key in DURATIONS}),
        openlineage=given.get("openlineage"),
        locks=given.get("lock") != "none",
        keep_runs=given.get("keep_runs", KEEP_RUNS),
        engine_idle=parse_duration(given.get("engine_idle")),
    )


def _keep_secrets(given: Mapping[str, Any], *sides: Mapping[str, Any]) -> None:
    """Hide what is secret also where the file is refused."""
    told = {name: given.get(name) for name in ("state", "openlineage")}
    sections = [told, given["alerts"], *(side.get("config") for side in sides)]
    keep_secret(*(section for section in sections if isinstance(section, Mapping)))


def _without_nulls(section: Mapping[Any, Any]) -> dict[str, Any]:
    kept = {str(key): value for key, value in section.items()}
    return {key: one for key, one in kept.items() if one is not None or key in NULL_IS_OFF}


def _with_config(
    given: dict[str, Any], name: str, folder: Path, problems: list[str]
) -> dict[str, Any]:
    """Put a plugin's settings where the name of their file stands, beside the pipeline's."""
    section = given[name]
    if not isinstance(section, dict):
        return {}
    config = section.get("config", {})
    try:
        config = read_document(folder / config) if isinstance(config, str) else config
        json.dumps(config, allow_nan=False)
    except SettingsError:
        problems.append(f"{name}.config: its file cannot be read, or is neither JSON nor YAML")
        config = {}
    except (TypeError, ValueError):
        problems.append(f"{name}.config: holds a value that JSON cannot carry; quote it")
        config = {}
    found = {**section, "config": {} if config is None else config}
    # What the plugin's settings may be is not for this file's schema to say.
    given[name] = {**found, "config": {}} if isinstance(config, Mapping) else found
    return found


def _ends_missing(destination: Mapping[str, Any]) -> list[str]:
    """Say what is missing of a target, or of the short form that names a place for ours."""
    if not {"bucket", "path", "compression"} & {*destination}:
        return [] if "target" in destination else ["destination.target: is required"]
    problems = (
        [] if "bucket" in destination else ["destination.bucket: is required in the short form"]
    )
    if "target" in destination or destination["config"]:
        problems.append(
            "destination: give target and config, or bucket, path and compression, not both"
        )
    return problems


def _target(destination: Mapping[str, Any]) -> Plugin:
    """Return the target; in the short form a bucket without a scheme lies in S3."""
    if "target" in destination:
        return Plugin(destination["target"], destination["config"])
    place = re.sub(r"^s3n?://", "s3a://", destination["bucket"])
    if "://" not in place and not place.startswith(("/", ".", "~")):
        place = f"s3a://{place}"
    parts = (place.rstrip("/"), destination.get("path", "").strip("/"))
    config = {"path": "/".join(filter(None, parts))}
    more = {key: destination[key] for key in ("compression",) if key in destination}
    return Plugin(OUR_TARGET, config | more)


def default_state(config: Mapping[str, Any], folder: Path) -> str:
    """Place the state under the destination; beside the file where that has no path."""
    path = config.get("path")
    if not isinstance(path, str) or not path:
        return str(folder / STATE_FOLDER)
    return re.sub(r"^s3[an]://", "s3://", path).rstrip("/") + f"/{STATE_FOLDER}"
