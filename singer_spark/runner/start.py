"""Where a run starts: from the state, without it, or in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from singer_spark.errors import SettingsError
from singer_spark.pipeline import Pipeline
from singer_spark.pipeline.endpoints import Plugin
from singer_spark.runner.options import RunOptions, Window

OUR_TAP = "tap-spark-source"
WINDOW = "window"  # the mode of a run that neither uses nor changes the state


class Start(NamedTuple):
    """How a run begins."""

    mode: str  # full · incremental · resume · refresh · window
    state: Mapping[str, Any]
    pipeline: Pipeline


class Kept(Protocol):
    """The state that is kept between runs."""

    @property
    def state(self) -> Mapping[str, Any]:
        """The state that an incremental run starts from, once it is read."""

    def read(self) -> None:
        """Read the state."""

    def resume(self) -> bool:
        """Start from the checkpoint of a failed run, where there is one."""


def choose_start(
    pipeline: Pipeline, kept: Kept, options: RunOptions, say: Callable[[str], None]
) -> Start:
    """Choose where to start, and say so."""
    if options.window:
        start, end = (bound or "…" for bound in options.window)
        say(f"Reading the range from {start} to {end} again (the state stays as it is)")
        return Start(WINDOW, {}, _with_window(pipeline, options.window))
    if options.resume and kept.resume():
        say("Resuming (from the checkpoint of the failed run)")
        return Start("resume", kept.state, pipeline)
    if options.refresh:
        state = without_bookmarks(kept.state, options.refresh)
        say(f"Refreshing {', '.join(options.refresh)} (the other streams go on)")
        return Start("refresh", state, pipeline)
    if options.full or not pipeline.incremental or not kept.state:
        return Start("full", {}, pipeline)
    say("Incremental mode (using previous checkpoint)")
    return Start("incremental", kept.state, pipeline)


def without_bookmarks(state: Mapping[str, Any], streams: Sequence[str]) -> dict[str, Any]:
    """Take the bookmarks of some streams out of a state."""
    bookmarks = state.get("bookmarks")
    known = bookmarks if isinstance(bookmarks, Mapping) else {}
    if unknown := [stream for stream in streams if stream not in known]:
        raise SettingsError(
            f"--refresh: the state has no bookmark of {', '.join(unknown)}; "
            f"there are {', '.join(known) or 'none'}. A stream without one is read in full anyway"
        )
    kept = {stream: value for stream, value in known.items() if stream not in streams}
    return {**state, "bookmarks": kept}


def _with_window(pipeline: Pipeline, window: Window) -> Pipeline:
    """Tell the range to our own tap; there is no word for it that every tap understands."""
    if Path(pipeline.tap.command).name != OUR_TAP:
        raise SettingsError(
            f"--from/--to: only {OUR_TAP} can read a range; with {pipeline.tap.command} set the "
            "state back instead: singer-spark state set"
        )
    bounds = {"window_start": window.start, "window_end": window.end}
    given = {key: bound for key, bound in bounds.items() if bound is not None}
    tap = Plugin(pipeline.tap.command, {**pipeline.tap.config, **given})
    return replace(pipeline, tap=tap)
