"""The two commands of a run: found, given their settings in private, asked for their streams."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from singer_spark.assignment import PIPELINE, RUN_FILE, RUN_ID, STATE_URL, STREAMS, Assignment
from singer_spark.errors import ProtocolError, SettingsError
from singer_spark.names import chosen_names
from singer_spark.pipeline import Pipeline
from singer_spark.pipeline.plugins import Plugin
from singer_spark.report import REPORT_FILE
from singer_spark.runner.process import Command
from singer_spark.runner.sharing import with_transport
from singer_spark.runner.start import Start
from singer_spark.runner.supervisor import Children
from singer_spark.runner.transfer import Transfer
from singer_spark.scratch import OURS, RUN, make_scratch, remove_scratch, sweep


@contextmanager
def open_folder(pipeline: Pipeline) -> Iterator[Path]:
    """Make a run's private folder; whatever killed runs have left is removed first."""
    given = pipeline.target.config.get("temp_dir") if pipeline.target.is_ours else None
    for place in {"", str(given or "")}:
        sweep(OURS, place)
    folder = make_scratch(RUN)
    try:
        yield folder
    finally:
        remove_scratch(folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A run's fixed facts; `folder` is private and holds what it moves, but no settings."""

    pipeline: Pipeline
    run_id: str
    folder: Path
    assignment: Assignment | None = None
    quiet: bool = False  # both sides log problems only, unless somebody asked otherwise
    engine: Mapping[str, str] = field(default_factory=dict)  # what says which one both use

    @property
    def env(self) -> dict[str, str]:
        """The environment, from which tap and target learn whom they work for."""
        names = {
            PIPELINE: self.pipeline.name,
            RUN_ID: self.run_id,
            REPORT_FILE: str(self.report_file),
        }
        level = {"LOGLEVEL": "WARNING"} if self.quiet else {}
        return {**level, **os.environ, **names, **self._assigned, **self.engine}

    @property
    def _assigned(self) -> dict[str, str]:
        """Name the file that says more of the run, and the store that keeps its lock."""
        if self.assignment is None:
            return {RUN_FILE: "", STATE_URL: "", STREAMS: ""}  # those of a run around are not ours
        path = self.folder / "run.json"
        if not path.exists():
            path.touch(0o600)
            path.write_text(self.assignment.to_json(), encoding="utf-8")
        locked = self.assignment.generation is not None
        url = json.dumps(self.pipeline.state) if locked else ""
        return {RUN_FILE: str(path), STATE_URL: url, STREAMS: ""}

    @property
    def report_file(self) -> Path:
        """Where tap and target write what they report."""
        return self.folder / "report.jsonl"


def find_command(key: str, plugin: Plugin) -> Command:
    """Find a plugin's command, and give it its settings."""
    path = plugin.path
    if path is None:
        raise SettingsError(
            f"{key}: there is no command {plugin.command}; install it (pip install "
            f"{Path(plugin.command).name}) or put its folder on PATH"
        )
    return Command(Path(plugin.command).name, (str(path),)).given("--config", plugin.config)


def find_tap(pipeline: Pipeline) -> Command:
    """Find the command that reads."""
    return find_command("source.tap", pipeline.tap)


def find_target(pipeline: Pipeline) -> Command:
    """Find the command that loads."""
    return find_command("destination.target", pipeline.target)


def transfer_all(job: Job, transfer: Transfer, start: Start) -> None:
    """Give both commands what they need for this run, then join them."""
    pipeline = with_transport(start.pipeline, job.folder / "batches")
    tap, target, env = find_tap(pipeline), find_target(pipeline), job.env
    if pipeline.streams and pipeline.tap.is_ours:
        env[STREAMS] = json.dumps(pipeline.streams)
    elif pipeline.streams:
        tap = tap.given("--catalog", catalog_of(job, transfer.children, tap))
    if start.state:
        tap = tap.given("--state", start.state)
    transfer.run(tap, target, env)


def catalog_of(job: Job, children: Children, tap: Command) -> dict[str, Any]:
    """Discover what the tap offers, the pipeline's streams selected."""
    catalog = ask_tap(job, children, tap, "--discover")
    return select_streams(catalog, job.pipeline.streams)


def ask_tap(job: Job, children: Children, tap: Command, question: str) -> Any:
    """Let the tap answer a question, such as --discover, in JSON."""
    path = job.folder / f"answer{question}.json"
    with path.open("xb") as output:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": output}
        child = children.start(tap, question, env=job.env, **pipes)
    children.await_success(child, f"the answer to {question}")
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise ProtocolError(f"{tap.name} {question} printed no JSON; try it by hand") from None


def select_streams(catalog: Any, wanted: Sequence[str]) -> dict[str, Any]:
    """Mark the wanted streams of a catalog as selected, with all their columns, and no others."""
    chosen = chosen_ids(catalog, wanted)
    streams = [_mark(entry, _stream_id(entry) in chosen) for entry in catalog["streams"]]
    return {**catalog, "streams": streams}


def chosen_ids(catalog: Any, wanted: Sequence[str]) -> list[str]:
    """List the streams that names or shell patterns choose; without any, those that are advised."""
    known = stream_ids(catalog)
    return chosen_names(known, wanted) if wanted else _advised(known, catalog)


def stream_ids(catalog: Any) -> list[str]:
    """List the streams of a catalog."""
    if not isinstance(catalog, dict) or not isinstance(catalog.get("streams"), list):
        raise ProtocolError("the tap's --discover printed no catalog; try it by hand")
    return [_stream_id(entry) for entry in catalog["streams"]]


def key_properties(entry: Mapping[str, Any]) -> list[str]:
    """Name the columns that a catalog's entry says are the key."""
    known = entry.get("key_properties") or _root(entry).get("table-key-properties")
    return list(map(str, known)) if isinstance(known, list) else []


def _advised(ids: Sequence[str], catalog: Mapping[str, Any]) -> list[str]:
    """Leave out the streams that the tap itself advises against."""
    entries = zip(ids, catalog["streams"], strict=True)
    return [name for name, entry in entries if _root(entry).get("selected-by-default", True)]


def _root(entry: Mapping[str, Any]) -> dict[str, Any]:
    nodes = entry.get("metadata") or []
    facts = [node.get("metadata") or {} for node in nodes if not node.get("breadcrumb")]
    return {key: value for known in facts for key, value in known.items()}


def _stream_id(entry: Mapping[str, Any]) -> str:
    return str(entry.get("tap_stream_id") or entry.get("stream"))


def _mark(entry: Mapping[str, Any], selected: bool) -> dict[str, Any]:
    nodes: list[dict[str, Any]] = entry.get("metadata") or []
    marked = {"breadcrumb": [], "metadata": {**_root(entry), "selected": selected}}
    columns = [node for node in nodes if node.get("breadcrumb")]
    if selected:
        columns = [_mark_column(node) for node in columns]
    flag = {"selected": selected} if "selected" in entry else {}
    return {**entry, **flag, "metadata": [marked, *columns]}


def _mark_column(node: Mapping[str, Any]) -> dict[str, Any]:
    """Select a column unless the tap advises against it: many taps send only what is marked."""
    facts = node.get("metadata") or {}
    advised = facts.get("inclusion") != "unsupported" and facts.get("selected-by-default", True)
    return {**node, "metadata": {"selected": bool(advised), **facts}}
