"""One run of a pipeline: state in, tap to target, state out.

The stored state advances only after both exited 0; a failed run leaves it untouched and keeps
the last state that the target had committed to beside it, as a checkpoint.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import IO, Any
from uuid import uuid4

import click

from singer_spark.errors import ProtocolError, SettingsError, StateError
from singer_spark.pipeline import Pipeline
from singer_spark.pipeline.endpoints import Plugin
from singer_spark.runner.selection import select_streams
from singer_spark.runner.supervisor import ChildError, Children, Events, Exited, caught_signals
from singer_spark.runner.transfer import Command, Transfer
from singer_spark.state import PipelineState, StateStore, create_state_store


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a successful run did."""

    pipeline_name: str
    run_id: str
    records: Mapping[str, int]
    state: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A run's fixed facts; `folder` is private and holds what commands are told by file."""

    pipeline: Pipeline
    tap: Command
    target: Command
    folder: Path
    run_id: str = field(default_factory=lambda: str(uuid4()))

    @property
    def env(self) -> dict[str, str]:
        """Tell tap and target whom they work for."""
        names = {"SINGER_SPARK_PIPELINE": self.pipeline.name, "SINGER_SPARK_RUN_ID": self.run_id}
        return {**os.environ, **names}


def run_pipeline(
    pipeline: Pipeline, *, full: bool = False, report: Callable[[str], None] = click.echo
) -> RunResult:
    """Run a pipeline once; `full` starts afresh but keeps the old state until it succeeded."""
    report(f"Running: {pipeline.name}")
    tap = find_command("source.tap", pipeline.tap)
    target = find_command("destination.target", pipeline.target)
    store = create_state_store(pipeline.state)
    before = store.get(pipeline.name) or PipelineState(pipeline.name)
    given = {} if full or not pipeline.incremental else before.watermark
    if given:
        report("Incremental mode (using previous checkpoint)")
    events: Events = SimpleQueue()
    with caught_signals(events), TemporaryDirectory(prefix="singer-spark-") as folder:
        run = _Run(pipeline=pipeline, tap=tap, target=target, folder=Path(folder))
        children = Children(events, timeout=pipeline.timeout)
        transfer = Transfer(children, report)
        try:
            with children:
                _transfer(run, children, transfer, given)
            after = _store_result(store, before, run.run_id, transfer.last_state)
        except Exception:
            _keep_checkpoint(store, pipeline.name, transfer.last_state)
            raise
    return RunResult(pipeline.name, run.run_id, dict(transfer.tally.counts), after.watermark)


def find_command(key: str, plugin: Plugin) -> Command:
    """Find a command on PATH, or beside the Python that runs us: a venv need not be active."""
    beside = str(Path(sys.executable).parent)
    path = shutil.which(plugin.command) or shutil.which(plugin.command, path=beside)
    if path is None:
        raise SettingsError(
            f"{key}: there is no command {plugin.command}; install it (pip install "
            f"{Path(plugin.command).name}) or put its folder on PATH"
        )
    return Command(Path(plugin.command).name, (path,))


def _transfer(run: _Run, children: Children, transfer: Transfer, state: Mapping[str, Any]) -> None:
    """Tell both commands their part by private files, then join them."""
    tap = _with_file(run, run.tap, "--config", run.pipeline.tap.config)
    target = _with_file(run, run.target, "--config", run.pipeline.target.config)
    if run.pipeline.streams:
        catalog = select_streams(_discover(run, children, tap), run.pipeline.streams)
        tap = _with_file(run, tap, "--catalog", catalog)
    if state:
        tap = _with_file(run, tap, "--state", state)
    transfer.run(tap, target, run.env)


def _with_file(run: _Run, command: Command, option: str, value: Mapping[str, Any]) -> Command:
    """Pass a value by a file that only this user can read; arguments are public."""
    path = run.folder / f"{command.name}{option}-{uuid4().hex}.json"
    with _private_file(path) as file:
        json.dump(value, file)
    return replace(command, argv=(*command.argv, option, str(path)))


def _discover(run: _Run, children: Children, tap: Command) -> Any:
    path = run.folder / "discovered.json"
    with path.open("xb") as output:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": output}
        child = children.start(tap.name, (*tap.argv, "--discover"), env=run.env, **pipes)
    children.watch(child)
    while not isinstance(children.next_event(1.0), Exited):
        pass
    children.end(child)
    if child.code:
        raise ChildError(tap.name, child.code)
    try:
        return json.loads(path.read_bytes())
    except ValueError:
        raise ProtocolError(f"{tap.name} --discover printed no JSON; try it by hand") from None


def _store_result(
    store: StateStore, before: PipelineState, run_id: str, watermark: Mapping[str, Any] | None
) -> PipelineState:
    """Store the final state over what the run began with; without one the old stays."""
    after = store.save(
        replace(
            before,
            watermark=before.watermark if watermark is None else watermark,
            last_run_id=run_id,
            last_run_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            run_count=before.run_count + 1,
        )
    )
    store.delete_checkpoint(before.pipeline_name)
    return after


def _keep_checkpoint(store: StateStore, name: str, watermark: Mapping[str, Any] | None) -> None:
    if watermark is None:
        return
    try:
        store.save_checkpoint(name, watermark)
    except StateError as error:
        click.echo(f"Warning: the checkpoint of this run is lost: {error.message}", err=True)


def _private_file(path: Path) -> IO[str]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w")
