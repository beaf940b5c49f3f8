"""Both sides of a pipeline tried, and what a run would read, without loading anything.

No lock, no record, no state: one row of each stream at most is read.
"""

from __future__ import annotations

import math
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from queue import SimpleQueue
from typing import IO, Any

import msgspec

from singer_spark.errors import ProtocolError
from singer_spark.pipeline import Pipeline
from singer_spark.runner.commands import (
    Job,
    ask_tap,
    catalog_of,
    chosen_ids,
    find_tap,
    find_target,
    key_properties,
    open_folder,
    stream_ids,
)
from singer_spark.runner.loading import loading_of_plan, loading_of_schema
from singer_spark.runner.process import Command
from singer_spark.runner.record import RunRecord
from singer_spark.runner.run_state import KeptState, StateInFiles
from singer_spark.runner.start import RunOptions, Start, choose_start
from singer_spark.runner.state_store import StoredState
from singer_spark.runner.supervisor import (
    ChildError,
    Children,
    Events,
    Exited,
    Stall,
    caught_signals,
)
from singer_spark.state import create_state_store
from singer_spark.state.holder import new_run_id

SAMPLE_SECONDS = 120.0
LIMIT_SECONDS = 900.0  # for each side; a server that does not answer must not hold a check


class Samples:
    """SCHEMA and first record of each stream, as far as they came."""

    def __init__(self, streams: Sequence[str]) -> None:
        self.rows: dict[str, Any] = dict.fromkeys(streams)
        self.schemas: dict[str, Mapping[str, Any]] = {}
        self.complete = threading.Event()

    def read(self, source: IO[bytes]) -> None:
        """Read messages until every stream has given a record."""
        missing = set(self.rows)
        for line in source:
            if missing and (b'"RECORD"' in line or b'"SCHEMA"' in line):
                missing.discard(self._keep(line))
            if not missing:
                self.complete.set()

    def _keep(self, line: bytes) -> str:
        """Keep what a message says; return the stream whose record it is."""
        try:
            message = msgspec.json.decode(line)
            stream = str(message["stream"])
            if message["type"] == "SCHEMA":
                self.schemas.setdefault(stream, message)
                return ""
            if message["type"] == "RECORD" and self.rows.get(stream) is None:
                self.rows[stream] = message["record"]
        except (msgspec.DecodeError, KeyError, TypeError):
            return ""
        return stream

    def verdicts(self, pipeline: Pipeline) -> dict[str, str]:
        """Say what becomes of the rows of each stream, where that should be known beforehand."""
        known = {
            stream: loading_of_schema(pipeline, schema) for stream, schema in self.schemas.items()
        }
        return {
            stream: f"{loading.summary}: {loading.verdict}"
            for stream, loading in known.items()
            if loading.verdict
        }


def sample_source(pipeline: Pipeline) -> Samples:
    """Discover the source and read one row per stream; None where none came in time."""
    limited = pipeline.tap.with_config(max_rows=1) if pipeline.tap.is_ours else pipeline.tap
    tap = find_tap(replace(pipeline, tap=limited))
    with open_trial(pipeline, LIMIT_SECONDS) as (job, children):
        catalog = catalog_of(job, children, tap)
        samples = Samples(chosen_ids(catalog, pipeline.streams))
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
        child = children.start(tap.given("--catalog", catalog), env=job.env, **pipes)
        children.watch(child)
        child.read_with(samples.read, child.process.stdout)
        until = time.monotonic() + SAMPLE_SECONDS
        while not samples.complete.is_set() and time.monotonic() < until:
            if isinstance(children.next_event(0.1), Exited):
                child.join(5.0)
                if child.code and not samples.complete.is_set():
                    raise ChildError(child)
                break
        children.end(child)
    return samples


def start_target(pipeline: Pipeline) -> None:
    """Start the target with nothing to load; it must end in peace."""
    target = find_target(pipeline)
    with open_trial(pipeline, LIMIT_SECONDS) as (job, children):
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        child = children.start(target, env=job.env, **pipes)
        children.await_success(child, "the end")


@contextmanager
def open_trial(pipeline: Pipeline, limit: float | None = None) -> Iterator[tuple[Job, Children]]:
    """Open a private folder, with children that end before it goes, in a limit at the latest."""
    timeout = min(pipeline.timeout or math.inf, limit or math.inf)
    events: Events = SimpleQueue()
    with open_folder(pipeline) as folder, caught_signals(events):
        job = Job(pipeline=pipeline, run_id=new_run_id(), folder=folder, quiet=True)
        stall = Stall(pipeline.stall_timeout, job.report_file)
        limit = None if math.isinf(timeout) else timeout
        with Children(events, timeout=limit, stall=stall) as children:
            yield job, children


def preview_run(
    pipeline: Pipeline, options: RunOptions, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Describe each stream: how it is read and loaded, its window's ends, about how many rows."""
    kept: KeptState = (
        StateInFiles(options.files, RunRecord(pipeline=pipeline.name, run_id=""))
        if options.files
        else StoredState(create_state_store(pipeline.state), pipeline.name)
    )
    kept.read()
    start = choose_start(pipeline, kept, options, say)
    tap = find_tap(start.pipeline)
    with open_trial(start.pipeline) as (job, children):
        if pipeline.tap.is_ours:
            streams = _from_tap(job, children, tap, start)
        else:
            streams = _from_catalog(catalog_of(job, children, tap), start.state)
    return [_with_loading(start.pipeline, one) for one in streams]


def _with_loading(pipeline: Pipeline, plan: dict[str, Any]) -> dict[str, Any]:
    loading = loading_of_plan(pipeline, plan)
    method = {"load_method": loading.load_method, "key_properties": list(loading.keys)}
    return {**plan, **method, "summary": loading.summary, "verdict": loading.verdict}


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
