"""Runs repeated until nothing is left, for taps that send a limited number of rows per run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from queue import SimpleQueue
from typing import Any

from singer_spark import exact_json
from singer_spark.errors import SettingsError
from singer_spark.pipeline import Pipeline
from singer_spark.protocol import is_unfinished
from singer_spark.runner.files import StateFiles
from singer_spark.runner.options import RunOptions
from singer_spark.runner.progress import Display
from singer_spark.runner.run import RunResult, run_pipeline
from singer_spark.runner.supervisor import Events, caught_signals, refuse_to_go_on


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
    """Tell from a run's record whether another run would find more.

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
    # Our own tap tells; of others the records are counted, which may be fewer than they have read.
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
