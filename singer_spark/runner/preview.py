"""What a run would read, without reading or writing it: no lock, no record, no row.

Our own tap answers `--plan`; of any other its streams and bookmarks are told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, final

from singer_spark.assignment import Attempt
from singer_spark.errors import ProtocolError
from singer_spark.pipeline import Pipeline
from singer_spark.runner.commands import Job, ask_tap, catalog_of, find_command
from singer_spark.runner.files import FileBook
from singer_spark.runner.handover import Command
from singer_spark.runner.options import RunOptions
from singer_spark.runner.probe import workshop
from singer_spark.runner.record import RunRecord
from singer_spark.runner.selection import key_properties, stream_ids
from singer_spark.runner.start import OUR_TAP, Kept, Start, choose_start
from singer_spark.runner.supervisor import Children
from singer_spark.runner.verdict import loading_of_plan
from singer_spark.state import PipelineState, StateStore, create_state_store
from singer_spark.state.generation import read_failed, read_generation
from singer_spark.state.store import Checkpoint


@final
class StoredState:
    """The state in a store, only looked at."""

    def __init__(self, store: StateStore, name: str) -> None:
        self._store, self._name = store, name
        self.state: Mapping[str, Any] = {}
        self.belongs: Mapping[str, Any] = {}

    def read(self) -> None:
        """Read the state."""
        known = self._store.get(self._name) or PipelineState(self._name)
        self.state = known.watermark
        self.belongs = known.metadata

    def resume(self) -> Checkpoint | None:
        """Read how far a failed run got; None where there is none."""
        return read_failed(self._store, self._name, self.state)

    def attempts(self) -> Mapping[str, Attempt]:
        """Name the runs that have not succeeded since the state was stored."""
        return read_generation(self._store, self._name)[0].attempts_from(self.state)


def preview_run(
    pipeline: Pipeline, options: RunOptions, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Describe each stream: how it is read and loaded, its window's ends, about how many rows."""
    kept: Kept = (
        FileBook(options.files, RunRecord(pipeline=pipeline.name, run_id=""))
        if options.files
        else StoredState(create_state_store(pipeline.state), pipeline.name)
    )
    kept.read()
    start = choose_start(pipeline, kept, options, say)
    tap = find_command("source.tap", start.pipeline.tap)
    with workshop(start.pipeline) as (job, children):
        told = tap.given("--config", start.pipeline.tap.config)
        if Path(pipeline.tap.command).name == OUR_TAP:
            streams = _from_tap(job, children, told, start)
        else:
            streams = _from_catalog(catalog_of(job, children, told), start.state)
    return [_with_loading(start.pipeline, one) for one in streams]


def _with_loading(pipeline: Pipeline, told: dict[str, Any]) -> dict[str, Any]:
    loading = loading_of_plan(pipeline, told)
    method = {"load_method": loading.load_method, "key_properties": list(loading.keys)}
    return {**told, **method, "summary": loading.summary, "verdict": loading.verdict}


def _from_tap(job: Job, children: Children, tap: Command, start: Start) -> list[dict[str, Any]]:
    if start.pipeline.streams:
        tap = tap.given("--catalog", catalog_of(job, children, tap))
    if start.state:
        tap = tap.given("--state", start.state)
    try:
        streams: list[dict[str, Any]] = ask_tap(job, children, tap, "--plan")["streams"]
    except (KeyError, TypeError):
        raise ProtocolError(f"{tap.name} --plan printed no plan; try it by hand") from None
    return streams


def _from_catalog(catalog: Mapping[str, Any], state: Mapping[str, Any]) -> list[dict[str, Any]]:
    bookmarks = state.get("bookmarks")
    known = bookmarks if isinstance(bookmarks, Mapping) else {}
    return [
        {"stream": stream, "method": None, "key": None, "high": None, "rows": None,
         "low": known.get(stream), "key_properties": key_properties(entry)}
        for stream, entry in zip(stream_ids(catalog), catalog["streams"], strict=True)
        if _is_selected(entry)
    ]  # fmt: skip


def _is_selected(entry: Mapping[str, Any]) -> bool:
    root = [node["metadata"] for node in entry["metadata"] if not node["breadcrumb"]]
    return any(facts.get("selected") for facts in root)
