"""Where a run starts: from the state, without it, or in between."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from singer_spark.assignment import EVERY_STREAM
from singer_spark.bookmark import bookmarked
from singer_spark.errors import SettingsError
from singer_spark.pipeline import Pipeline
from singer_spark.pipeline.endpoints import Plugin
from singer_spark.runner.options import RunOptions, Window
from singer_spark.state.checkpoint import Checkpoint

OUR_TAP = "tap-spark-source"
WINDOW = "window"  # the mode of a run that neither uses nor changes the state


class Start(NamedTuple):
    """How a run begins.

    `run` is the run as a checkpoint remembers it: a resumed one is still that which failed.
    `reload` are the streams whose rows are loaded afresh by this run; `*` is each one.
    """

    mode: str  # full · incremental · resume · refresh · window
    state: Mapping[str, Any]
    pipeline: Pipeline
    run: Checkpoint
    reload: frozenset[str] = frozenset()

    @property
    def is_asked(self) -> bool:
        """Tell that it begins elsewhere than the stored state because someone asked for it."""
        return self.mode in ("full", "refresh") and self.run.mode == self.mode

    @property
    def fresh(self) -> tuple[str, ...] | None:
        """The streams that do not begin from the stored state; None where none does."""
        if self.mode == WINDOW or self.run.mode == "full" or not self.pipeline.incremental:
            return None
        return self.run.streams


class Kept(Protocol):
    """The state that is kept between runs."""

    @property
    def state(self) -> Mapping[str, Any]:
        """The state that an incremental run starts from, once it is read."""

    @property
    def streams(self) -> Collection[str]:
        """Streams that are known beside those that have a bookmark."""

    @property
    def has_run(self) -> bool:
        """Tell that a run has succeeded before, as far as that is known."""

    def read(self) -> None:
        """Read the state."""

    def resume(self) -> Checkpoint | None:
        """Read how far a failed run got; None where there is none."""


def choose_start(
    pipeline: Pipeline, kept: Kept, options: RunOptions, say: Callable[[str], None]
) -> Start:
    """Choose where to start, and say so."""
    if options.window:
        start, end = (bound or "…" for bound in options.window)
        say(f"Reading the range from {start} to {end} again (the state stays as it is)")
        return Start(WINDOW, {}, _with_window(pipeline, options.window), Checkpoint(state={}))
    if options.resume and (failed := kept.resume()):
        return _resume(pipeline, kept.state, failed, say)
    if options.refresh:
        state = without_bookmarks(kept.state, options.refresh, kept.streams)
        say(f"Refreshing {', '.join(options.refresh)} (the other streams go on)")
        reload = frozenset(options.refresh)
        run = Checkpoint(state=state, mode="refresh", streams=options.refresh, reload=reload)
        return Start("refresh", state, pipeline, run, reload)
    if options.full:
        # There is nothing to retire before a first run: what lies there is not of this pipeline.
        reload = frozenset({EVERY_STREAM} if kept.has_run else ())
        return Start("full", {}, pipeline, Checkpoint(state={}, mode="full", reload=reload), reload)
    if not pipeline.incremental or not kept.state:
        return Start("full", {}, pipeline, Checkpoint(state={}))
    say("Incremental mode (using previous checkpoint)")
    return Start("incremental", kept.state, pipeline, Checkpoint(state=kept.state))


def _resume(
    pipeline: Pipeline, stored: Mapping[str, Any], failed: Checkpoint, say: Callable[[str], None]
) -> Start:
    names = {"full": " --full", "refresh": f" --refresh {', '.join(failed.streams)}"}
    say(f"Resuming{names.get(failed.mode, '')} (from the checkpoint of the failed run)")
    done = bookmarked(failed.state)
    if failed.reload and done:
        say(f"Rows of {', '.join(sorted(done))} that are gone at the source stay: only a read from")
        say("start to end can tell them; for that run --refresh")
    reload = failed.reload - done
    if EVERY_STREAM in reload and done:
        # What it has loaded goes on from its bookmark, as everything does that is not reloaded.
        reload = bookmarked(stored) - done
    return Start("resume", failed.state, pipeline, failed, reload)


def without_bookmarks(
    state: Mapping[str, Any], streams: Sequence[str], others: Collection[str] = ()
) -> dict[str, Any]:
    """Take the bookmarks of some streams out of a state; `others` are known without one."""
    bookmarks = state.get("bookmarks")
    known = bookmarks if isinstance(bookmarks, Mapping) else {}
    if unknown := [stream for stream in streams if stream not in known and stream not in others]:
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
