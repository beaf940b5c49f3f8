"""One run of a pipeline: state in, tap to target, state out.

Only one run of a pipeline is active, and the stored state advances only after both exited 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any

import click

from singer_spark.pipeline import Pipeline
from singer_spark.runner.book import Book, open_store_book
from singer_spark.runner.commands import Job, transfer_all
from singer_spark.runner.files import FileBook, StateFiles
from singer_spark.runner.record import RunRecord
from singer_spark.runner.supervisor import Children, Events, caught_signals
from singer_spark.runner.transfer import Transfer
from singer_spark.state.holder import new_run_id


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a successful run did."""

    pipeline_name: str
    run_id: str
    records: Mapping[str, int]
    state: Mapping[str, Any]
    record: Mapping[str, Any]


def run_pipeline(
    pipeline: Pipeline,
    *,
    full: bool = False,
    resume: bool = False,
    files: StateFiles | None = None,
    report: Callable[[str], None] = click.echo,
) -> RunResult:
    """Run a pipeline once.

    `full` starts afresh but keeps the old state until it succeeded, `resume` starts where a failed
    run got to, and `files` stand for the store.
    """
    report(f"Running: {pipeline.name}")
    events: Events = SimpleQueue()
    record = RunRecord(pipeline=pipeline.name, run_id=new_run_id())
    opened: AbstractContextManager[Book] = (
        nullcontext(FileBook(files, record))
        if files
        else open_store_book(pipeline, record, events=events, report=report)
    )
    with caught_signals(events), opened as book:
        transfer = Transfer(Children(events, timeout=pipeline.timeout, quiet=book.quiet), report)
        try:
            state = _choose_state(pipeline, book, full=full, resume=resume, report=report)
            _move(pipeline, record, transfer, state)
            after = book.finish(transfer.last_state)
        except Exception as error:
            record.close(error)
            book.fail(transfer.last_state)
            raise
    return RunResult(pipeline.name, record.run_id, record.records, after, record.to_dict())


def _choose_state(
    pipeline: Pipeline, book: Book, *, full: bool, resume: bool, report: Callable[[str], None]
) -> Mapping[str, Any]:
    if resume and book.resume():
        report("Resuming (from the checkpoint of the failed run)")
        return book.state
    if full or not pipeline.incremental or not book.state:
        return {}
    report("Incremental mode (using previous checkpoint)")
    return book.state


def _move(
    pipeline: Pipeline, record: RunRecord, transfer: Transfer, state: Mapping[str, Any]
) -> None:
    """Join tap and target, and note what passed even where they fail."""
    with TemporaryDirectory(prefix="singer-spark-") as folder:
        job = Job(pipeline=pipeline, run_id=record.run_id, folder=Path(folder))
        try:
            with transfer.children:
                transfer_all(job, transfer, state)
        finally:
            record.records = dict(transfer.tally.counts)
            record.moved_bytes = transfer.moved_bytes
