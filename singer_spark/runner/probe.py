"""Tries both sides of a pipeline without moving anything: streams, one row of each, a start."""

from __future__ import annotations

import math
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

import msgspec

from singer_spark.pipeline import Pipeline
from singer_spark.runner.commands import Job, catalog_of, find_command, open_folder
from singer_spark.runner.selection import chosen_ids
from singer_spark.runner.stall import Stall
from singer_spark.runner.start import OUR_TAP
from singer_spark.runner.supervisor import ChildError, Children, Events, Exited, caught_signals
from singer_spark.runner.verdict import loading_of_schema
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
    tap = find_command("source.tap", pipeline.tap)
    config = dict(pipeline.tap.config)
    if Path(pipeline.tap.command).name == OUR_TAP:
        config["max_rows"] = 1
    with workshop(pipeline, LIMIT_SECONDS) as (job, children):
        told = tap.given("--config", config)
        catalog = catalog_of(job, children, told)
        samples = Samples(chosen_ids(catalog, pipeline.streams))
        told = told.given("--catalog", catalog)
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
        child = children.start(told, env=job.env, **pipes)
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
    target = find_command("destination.target", pipeline.target)
    with workshop(pipeline, LIMIT_SECONDS) as (job, children):
        told = target.given("--config", pipeline.target.config)
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        child = children.start(told, env=job.env, **pipes)
        children.await_success(child, "the end")


@contextmanager
def workshop(pipeline: Pipeline, limit: float | None = None) -> Iterator[tuple[Job, Children]]:
    """Open a private folder, with children that end before it goes, in a limit at the latest."""
    timeout = min(pipeline.timeout or math.inf, limit or math.inf)
    events: Events = SimpleQueue()
    with open_folder(pipeline) as folder, caught_signals(events):
        job = Job(pipeline=pipeline, run_id=new_run_id(), folder=folder, quiet=True)
        stall = Stall(pipeline.stall_timeout, job.report_file)
        limit = None if math.isinf(timeout) else timeout
        with Children(events, timeout=limit, stall=stall) as children:
            yield job, children
