"""Where a run starts: from the state, without it, or in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, NamedTuple

from singer_spark import exact_json
from singer_spark.assignment import EVERY_STREAM, Attempt, TableIdentity
from singer_spark.errors import SettingsError
from singer_spark.pipeline import Pipeline
from singer_spark.pipeline.plugins import OUR_TAP
from singer_spark.protocol import bookmarked
from singer_spark.runner.failed_runs import go_on_after
from singer_spark.runner.identity import known_tables
from singer_spark.runner.run_state import KeptState, StateFiles
from singer_spark.state.store import Checkpoint
from singer_spark.text import listed


class Window(NamedTuple):
    """A range of replication keys, [start, end); None is open."""

    start: str | None
    end: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What was asked of a run.

    `full` starts afresh but keeps the old state until it succeeded, `resume` starts where a failed
    run got to, `refresh` starts some streams afresh, `window` reads a range again and leaves the
    state alone, and `files` stand for the store.
    """

    full: bool = False
    resume: bool = False
    refresh: tuple[str, ...] = ()
    window: Window | None = None
    files: StateFiles | None = None

    def check(self) -> None:
        """Refuse what contradicts itself."""
        given = {
            "--full": self.full,
            "--resume": self.resume,
            "--refresh": self.refresh,
            "--from/--to": self.window,
        }
        starts = [name for name, value in given.items() if value]
        if len(starts) > 1:
            raise SettingsError(f"{' and '.join(starts)} start in different ways; give one of them")
        if self.resume and self.files:
            raise SettingsError(
                "--resume needs the state store; leave --state-in and --state-out out"
            )


WINDOW = "window"  # the mode of a run that neither uses nor changes the state


class Start(NamedTuple):
    """How a run begins.

    `run` is the run as a checkpoint remembers it: a resumed one is still that which failed.
    `reload` are the streams whose rows are loaded afresh by this run; `*` is each one.
    `belongs` is the source and the tables that `state` belongs to, `source` that of the rows which
    failed runs have left, if the run adds to them.
    `failed` are the runs before it that have not succeeded, `read` the versions of tables that were
    looked at to see how far they got, and `unread` the streams whose rows it leaves to later runs,
    because it does not read them.
    """

    mode: str  # full · incremental · resume · refresh · window
    state: Mapping[str, Any]
    pipeline: Pipeline
    run: Checkpoint
    reload: frozenset[str] = frozenset()
    belongs: Mapping[str, Any] = {}
    source: Mapping[str, Any] | None = None
    failed: Mapping[str, Attempt] = {}
    read: Mapping[str, int] = {}
    unread: frozenset[str] = frozenset()

    @property
    def is_asked(self) -> bool:
        """Whether it begins elsewhere than at the stored state because someone asked for it."""
        return self.mode in ("full", "refresh") and self.run.mode == self.mode

    @property
    def attempt(self) -> Attempt | None:
        """How it begins, for runs that follow if it fails; None where it lies aside of the state.

        A first run reads everything too, but from the stored state, which is empty.
        """
        if self.mode == WINDOW:
            return None
        is_full = (self.run.mode == "full" and self.run.reload) or not self.pipeline.incremental
        return Attempt(fresh=(EVERY_STREAM,) if is_full else self.run.streams)

    @property
    def begins(self) -> dict[str, str] | None:
        """The bookmarks that streams begin from, each in the one way that equal ones share."""
        if self.mode == WINDOW:
            return None
        bookmarks = self.state.get("bookmarks") or {}
        return {stream: exact_json.canonical(one) for stream, one in bookmarks.items()}


def choose_start(
    pipeline: Pipeline, kept: KeptState, options: RunOptions, say: Callable[[str], None]
) -> Start:
    """Choose where to start, and say so."""
    start = _chosen(pipeline, kept, options, say)
    return go_on_after(start, kept, say) if pipeline.is_ours else start


def _chosen(
    pipeline: Pipeline, kept: KeptState, options: RunOptions, say: Callable[[str], None]
) -> Start:
    belongs = kept.belongs
    if options.window:
        start, end = (bound or "…" for bound in options.window)
        say(f"Reading the range from {start} to {end} again (the state stays as it is)")
        ranged = _with_window(pipeline, options.window)
        return Start(WINDOW, {}, ranged, Checkpoint(state={}), belongs=belongs)
    if options.resume and (failed := kept.resume()):
        return _resume(pipeline, kept, failed, say)
    if options.refresh:
        tables = {} if renames(pipeline) else known_tables(belongs)
        _refuse_unselected(pipeline, options.refresh, tables)
        # A table may have rows of a stream that no state knows; our tap says what it reads.
        is_sure = not pipeline.tap.is_ours
        others = without_bookmarks(kept.state, options.refresh, tables, is_sure=is_sure)
        state = others if pipeline.incremental else {}
        say(f"Refreshing {', '.join(options.refresh)} (the other streams go on)")
        reload = frozenset(options.refresh)
        run = Checkpoint(state=state, mode="refresh", streams=options.refresh, reload=reload)
        return Start("refresh", state, pipeline, run, reload, belongs)
    if options.full:
        # After the state was lost there are rows to retire too.
        reload = frozenset({EVERY_STREAM})
        run = Checkpoint(state={}, mode="full", reload=reload)
        return Start("full", {}, pipeline, run, reload, belongs)
    if not pipeline.incremental or not kept.state:
        return Start("full", {}, pipeline, Checkpoint(state={}), belongs=belongs)
    say("Incremental mode (using previous checkpoint)")
    return Start("incremental", kept.state, pipeline, Checkpoint(state=kept.state), belongs=belongs)


def _resume(
    pipeline: Pipeline, kept: KeptState, failed: Checkpoint, say: Callable[[str], None]
) -> Start:
    names = {"full": " --full", "refresh": f" --refresh {', '.join(failed.streams)}"}
    say(f"Resuming{names.get(failed.mode, '')} (from the checkpoint of the failed run)")
    done = bookmarked(failed.state)
    if failed.reload and done:
        say(
            f"Rows of {', '.join(sorted(done))} that were deleted at the source stay in the tables;"
        )
        say("to remove them, read the stream from start to end with --refresh")
    reload = failed.reload - done
    if EVERY_STREAM in reload and done:
        # What it has loaded goes on from its bookmark, as everything does that is not reloaded.
        filled = {one.state_of or name for name, one in known_tables(kept.belongs).items()}
        reload = (bookmarked(kept.state) | filled) - done
    # What it began from belongs to what the stored state does.
    belongs = failed.belongs or ({} if failed.mode == "full" else kept.belongs)
    return Start("resume", failed.state, pipeline, failed, reload, belongs)


def renames(pipeline: Pipeline) -> bool:
    """Say whether the tap may send streams under other names than it knows them by."""
    return bool(pipeline.tap.config.get("stream_maps"))


def names_differ(pipeline: Pipeline) -> bool:
    """Say whether streams may have other names than their bookmarks."""
    return renames(pipeline) or not pipeline.tap.is_ours


def _refuse_unselected(
    pipeline: Pipeline, streams: Sequence[str], tables: Mapping[str, TableIdentity]
) -> None:
    """Refuse to refresh what the pipeline does not read.

    Others' taps may name their bookmarks otherwise than their streams: of those only what has been
    loaded is known to be a stream.
    """
    selected = pipeline.streams
    known = {one.state_of or name for name, one in tables.items()}
    left_out = [
        one
        for one in streams
        if pipeline.tap.is_ours or one in known
        if one not in selected and not any(fnmatchcase(one, s) for s in selected)
    ]
    if selected and left_out:
        raise SettingsError(
            f"--refresh: source.streams leaves out {listed(left_out)}; it selects "
            f"{listed(selected)}; add what is missing, or name one of these: singer-spark run "
            f"{pipeline.name} --refresh STREAM"
        )


def without_bookmarks(
    state: Mapping[str, Any],
    streams: Sequence[str],
    tables: Mapping[str, TableIdentity] = MappingProxyType({}),
    *,
    is_sure: bool = True,
) -> dict[str, Any]:
    """Take the bookmarks of some streams out of a state; `tables` are known, some without one.

    With `is_sure` a stream that has neither is refused.
    """
    bookmarks = state.get("bookmarks")
    known = bookmarks if isinstance(bookmarks, Mapping) else {}
    sources = {table.state_of or name for name, table in tables.items()}
    there = dict.fromkeys([*known, *sorted(sources)])
    for stream in streams:
        if stream in there:
            continue
        if stream in tables:
            of = tables[stream].state_of
            raise SettingsError(
                f"--refresh: {stream} is the table of stream {of}; name that one: --refresh {of}"
            )
        if not is_sure:
            continue
        raise SettingsError(
            f"--refresh: the run has no stream {stream} that it knows; it has "
            f"{', '.join(there) or 'none'}. A stream without a bookmark is read in full anyway"
        )
    kept = {stream: value for stream, value in known.items() if stream not in streams}
    return {**state, "bookmarks": kept}


def _with_window(pipeline: Pipeline, window: Window) -> Pipeline:
    """Give the range to our own tap; there is no setting for it that every tap understands."""
    if not pipeline.tap.is_ours:
        raise SettingsError(
            f"--from/--to: only {OUR_TAP} can read a range; with {pipeline.tap.command} set the "
            "state back instead: singer-spark state set"
        )
    bounds = {"window_start": window.start, "window_end": window.end}
    given = {key: bound for key, bound in bounds.items() if bound is not None}
    return replace(pipeline, tap=pipeline.tap.with_config(**given))
