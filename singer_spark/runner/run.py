"""One run of a pipeline, or several until nothing is left: state in, tap to target, state out.

Only one run of a pipeline is active, and the stored state advances only after both exited 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from singer_spark import exact_json
from singer_spark.assignment import Assignment
from singer_spark.errors import SettingsError
from singer_spark.pipeline import Pipeline
from singer_spark.pipeline.plugins import version_of
from singer_spark.protocol import is_unfinished
from singer_spark.runner.commands import Job, find_tap, find_target, open_folder, transfer_all
from singer_spark.runner.lineage import send_lineage
from singer_spark.runner.loading import copied_by, has_maps, loads_of
from singer_spark.runner.meter import Display, Meter, PlainDisplay
from singer_spark.runner.process import print_error
from singer_spark.runner.record import RunRecord, suggest_lookbacks, warnings_of
from singer_spark.runner.run_state import RunState, StateFiles, StateInFiles
from singer_spark.runner.sharing import engine_of_run, with_common_jars
from singer_spark.runner.start import RunOptions, Start, choose_start, renames
from singer_spark.runner.state_store import open_stored_state
from singer_spark.runner.supervisor import Children, Events, Stall, caught_signals, refuse_to_go_on
from singer_spark.runner.transfer import Transfer
from singer_spark.secrets import mask
from singer_spark.state.holder import new_run_id
from singer_spark.text import listed

EMPTY_STATE = (
    "Warning: the target wrote a state without any bookmark, which was not stored: the state from "
    "before stays. To start without one: singer-spark state delete"
)


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run did; the state is the one that the next run starts from."""

    pipeline_name: str
    run_id: str
    records: Mapping[str, int]
    state: Mapping[str, Any]
    record: Mapping[str, Any]


def run_pipeline(
    pipeline: Pipeline,
    options: RunOptions | None = None,
    *,
    display: Display | None = None,
    on_failure: Callable[[RunResult], None] | None = None,
) -> RunResult:
    """Run a pipeline once; `on_failure` gets the result of a run that failed."""
    options, display = options or RunOptions(), display or PlainDisplay()
    options.check()
    display.begin(pipeline.name)
    events: Events = SimpleQueue()
    record = _new_record(pipeline)
    opened: AbstractContextManager[RunState] = (
        nullcontext(StateInFiles(options.files, record))
        if options.files
        else open_stored_state(pipeline, record, events=events, report=display.say)
    )
    with (
        caught_signals(events, f"go on: singer-spark run {pipeline.name}"),
        opened as kept,
        open_folder(pipeline) as folder,
    ):
        job = Job(pipeline=pipeline, run_id=record.run_id, folder=folder)
        stall = Stall(pipeline.stall_timeout, job.report_file)
        children = Children(events, timeout=pipeline.timeout, stall=stall, quiet=kept.quiet)
        transfer = Transfer(children, Meter(display, job.report_file))
        advances = options.window is None
        try:
            kept.read()
            start = choose_start(pipeline, kept, options, display.say)
            record.mode = start.mode
            send_lineage("START", pipeline, record)
            job = replace(job, assignment=_assignment(kept, start))
            if pipeline.tap.is_ours:
                transfer.on_source = kept.note_source
            _move(job, record, transfer, start)
            _refuse_unread(start, record)
            record.suggested_lookback = suggest_lookbacks(pipeline, record, kept.history)
            reached = transfer.last_state if advances else None
            after = kept.finish(reached, transfer.meter.facts.found)
            if transfer.ended_with_empty_state and after:
                print_error(EMPTY_STATE)
        except Exception as error:
            record.close(error)
            reached = transfer.last_state if advances else None
            kept.fail(reached, transfer.meter.facts.found)
            send_lineage("FAIL", pipeline, record)
            if on_failure:
                on_failure(_result(record, record.state_after))
            raise
    send_lineage("COMPLETE", pipeline, record)
    for warning in warnings_of(record):
        print_error(f"Warning: {warning}")
    return _result(record, after)


def _assignment(kept: RunState, start: Start) -> Assignment:
    """Return what tap and target know of the run, and of how rows are loaded in it."""
    return replace(
        kept.begin(start),
        loads=loads_of(start.pipeline),
        renames=has_maps(start.pipeline),
        copied=copied_by(start.pipeline),
    )


def _refuse_unread(start: Start, record: RunRecord) -> None:
    """Fail where a stream was to be read afresh and our tap has not read it."""
    unread = [stream for stream in start.run.streams if stream not in record.streams]
    if unread and start.pipeline.tap.is_ours and not renames(start.pipeline):
        raise SettingsError(
            f"--refresh: the tap has sent no stream {listed(unread)}, only "
            f"{listed(record.streams)}; the stored state is unchanged; name one that it sends: "
            f"singer-spark run {start.pipeline.name} --refresh STREAM"
        )


def _result(record: RunRecord, state: Mapping[str, Any]) -> RunResult:
    return RunResult(record.pipeline, record.run_id, record.records, state, record.to_dict())


def _new_record(pipeline: Pipeline) -> RunRecord:
    configs = (pipeline.tap.config, pipeline.target.config)
    return RunRecord(
        pipeline=pipeline.name,
        run_id=new_run_id(),
        # Stream maps may drop and rename on the way.
        compares=not pipeline.target.config.get("stream_maps"),
        mask=lambda text: mask(text, *configs),
    )


def _move(job: Job, record: RunRecord, transfer: Transfer, start: Start) -> None:
    """Join tap and target, and note what passed even where they fail."""
    start = start._replace(pipeline=with_common_jars(start.pipeline))
    # First, because nothing need be started where one is missing.
    sides = {"tap": find_tap(start.pipeline), "target": find_target(start.pipeline)}
    meter = transfer.meter
    try:
        with engine_of_run(start.pipeline, job.run_id) as engine, transfer.children:
            transfer_all(replace(job, engine=engine), transfer, start)
    finally:
        meter.refresh()
        record.streams = meter.streams
        record.moved_bytes = meter.moved_bytes
        record.extract_milliseconds = meter.extract_milliseconds
        record.peak_bytes = {side: meter.peak_bytes.get(c.name) for side, c in sides.items()}
        record.versions = {side: version_of(Path(c.argv[0])) for side, c in sides.items()}


def run_until_complete(
    pipeline: Pipeline,
    options: RunOptions,
    display: Display,
    on_failure: Callable[[RunResult], None] | None = None,
) -> Iterator[RunResult]:
    """Run again and again, each run from the state of the one before it."""
    _refuse_endless(pipeline, options)
    limit = pipeline.tap.config.get("max_rows")
    signals: Events = SimpleQueue()
    with caught_signals(signals):
        while True:
            result = run_pipeline(pipeline, options, display=display, on_failure=on_failure)
            yield result
            if not is_left(result.record, limit if isinstance(limit, int) else None):
                return
            # A signal in the last moments of a run does not undo it, but nothing follows it.
            refuse_to_go_on(signals)
            files = options.files and StateFiles(options.files.result, options.files.result)
            options = RunOptions(files=files)


def is_left(record: Mapping[str, Any], limit: int | None) -> bool:
    """Say whether another run would find more, judged by the record of this one.

    A run that moved no bookmark has come to the end. A comparison is always complete, and its new
    version says nothing. With a known limit so has one in which no
    stream reached it, none of those at least that go on from where they stopped.
    """
    before, after = (_bookmarks(record, key) for key in ("bookmarks_before", "bookmarks_after"))
    moved = {
        stream
        for stream, bookmark in after.items()
        if exact_json.canonical(bookmark) != exact_json.canonical(before.get(stream))
    }
    if limit is None or any(is_unfinished(after[stream]) for stream in moved):
        return bool(moved)
    # Our own tap reports it; of others records are counted, which may be fewer than were read.
    reached = {
        name
        for name, facts in record["streams"].items()
        if facts.get("limited") or _rows(facts) >= limit
    }
    return any(after[stream] for stream in moved & reached)


def _bookmarks(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = record[key]
    if not isinstance(value, Mapping):
        return {"": value}
    return {stream: _without_comparison(bookmark) for stream, bookmark in value.items()}


def _without_comparison(bookmark: Any) -> Any:
    """Leave out the version that a comparison of our tap has in each run."""
    kept = bookmark.get("snapshot") if isinstance(bookmark, Mapping) else None
    if not isinstance(kept, Mapping) or set(kept) != {"version"}:
        return bookmark
    return {name: value for name, value in bookmark.items() if name != "snapshot"}


def _rows(facts: Mapping[str, Any]) -> int:
    return facts["records"] if facts["records"] is not None else facts["loaded"] or 0


def _refuse_endless(pipeline: Pipeline, options: RunOptions) -> None:
    if options.window:
        raise SettingsError("--until-complete goes on from the state; --from/--to leave it alone")
    if not pipeline.incremental:
        raise SettingsError(
            "--until-complete goes on from the state, but incremental.enabled is false: each run "
            "would begin anew"
        )
    if options.files and not options.files.result:
        raise SettingsError("--until-complete goes on from the state: give --state-out too")
