"""A pipeline file (YAML) as a value: which tap, which target, and how the runner joins them.

Parsing is pure; every problem of a file is gathered into one SettingsError.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from singer_spark.errors import SettingsError
from singer_spark.pipeline.alerts import Alerts, read_alerts
from singer_spark.pipeline.cron import is_cron
from singer_spark.pipeline.document import Section, expand, read_document
from singer_spark.pipeline.endpoints import Plugin, default_state, read_destination, read_source
from singer_spark.secrets import keep_secret
from singer_spark.state.documents import PIPELINE_NAME

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
    told = {"state": pipeline.state, "openlineage": pipeline.openlineage}
    keep_secret(tap.config, target.config, told, {"webhook": pipeline.alerts.webhook})
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
