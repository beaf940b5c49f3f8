"""How a run begins after others that failed, where their rows look like those to come."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from singer_spark.assignment import EVERY_STREAM, Assignment, Attempt, is_same_source
from singer_spark.errors import SingerSparkError, StateError
from singer_spark.pipeline import Pipeline
from singer_spark.pipeline.plugins import Plugin
from singer_spark.pipeline.tables import find_tables
from singer_spark.protocol import bookmarked
from singer_spark.runner.identity import known_source, known_tables
from singer_spark.runner.loading import loads_of, may_read
from singer_spark.state.change import without_tables
from singer_spark.state.generation import ATTEMPTS_KEPT
from singer_spark.state.reached import Known, Reached, find_reached, move_to

if TYPE_CHECKING:
    from singer_spark.runner.run_state import KeptState
    from singer_spark.runner.start import Start  # which begins a run, and asks here


APPEND_ONLY = "append-only"
_UNMAPPED = object()


def go_on_after(start: Start, kept: KeptState, say: Callable[[str], None]) -> Start:
    """Begin streams without a key where the failed runs before this one stopped.

    Only for our own tap and target. A stream that is replaced, or read in a range, says for itself
    where it begins; one that is appended to whatever the table has goes on with what had begun.
    """
    attempts = kept.attempts()
    if not attempts or start.attempt is None:
        return start
    known = Known(
        state=kept.state,
        attempts=attempts,
        tables=lambda stream: _tables_of(kept.belongs, stream),
        width=lambda stream: _width(start.pipeline, stream),
        released=lambda stream: _released(kept, stream),
    )
    start = start._replace(failed=attempts)
    start = start._replace(source=_source_of(start, attempts))
    try:
        found = find_reached(find_tables(start.pipeline.target), start.pipeline.name, known)
    except SingerSparkError:
        found = None
    if len(attempts) >= ATTEMPTS_KEPT and (found is None or found.has_appended):
        raise _too_many(start.pipeline, len(attempts))
    # Where no log can be read each stream may have such rows.
    streams = found.streams if found else _streams(kept)
    unread = frozenset(one for one in streams if not may_read(start.pipeline, one))
    start = start._replace(read=found.versions if found else {}, unread=unread)
    for stream, reached in sorted(found.streams.items() if found else ()):
        if stream not in unread and _goes_on(start, stream, reached, known, kept):
            start = _moved(start, stream, reached, kept, say)
    return start._replace(source=_source_of(start, attempts))


def _too_many(pipeline: Pipeline, count: int) -> StateError:
    return StateError(
        f"{count} runs have failed since the state was stored, and the rows of one more could not "
        f"be recognised; take the state from the tables: singer-spark state recover "
        f"{pipeline.name}, or give it: singer-spark state set {pipeline.name} FILE"
    )


def _streams(kept: KeptState) -> Collection[str]:
    """Name the streams that the state or a table is known of."""
    tables = known_tables(kept.belongs)
    return bookmarked(kept.state) | {one.state_of or name for name, one in tables.items()}


def _source_of(start: Start, attempts: Mapping[str, Attempt]) -> Mapping[str, Any] | None:
    """Return the source of all rows that a run adds to, which it must find; None is any.

    Raises:
        StateError: They are of several.
    """
    is_held = EVERY_STREAM not in start.reload and bookmarked(start.state) - start.reload
    found, whose = known_source(start.belongs) if is_held else None, "the state belongs to"
    for run_id, attempt in attempts.items():
        if attempt.source is None or not _adds_to(start, attempt):
            continue
        if found is not None and not is_same_source(found, attempt.source):
            raise StateError(
                f"run {run_id}, which failed, loaded rows of {attempt.source.get('place')}, but "
                f"{whose} {found.get('place')}; {_ways_on(start)}"
            )
        if found is None:
            found, whose = attempt.source, "another one loaded rows of"
    return found


def _ways_on(start: Start) -> str:
    loads, resumes = loads_of(start.pipeline), start.mode == "resume"
    run = Assignment(run_id="", pipeline=start.pipeline.name, loads=loads, resumes=resumes)
    return run.ways_on()


def _adds_to(start: Start, attempt: Attempt) -> bool:
    """Say whether a run adds to rows that a failed one may have left, and replaces them not all."""
    if EVERY_STREAM in start.reload:
        return False
    owed = attempt.owes
    return not owed or any(may_read(start.pipeline, one) for one in {*owed} - start.reload)


def _goes_on(start: Start, stream: str, reached: Reached, known: Known, kept: KeptState) -> bool:
    """Say whether a stream begins where failed runs stopped.

    Raises:
        StateError: No start is right.
    """
    fresh, name = start.attempt.fresh if start.attempt else (), start.pipeline.name
    appended = _appended(start.pipeline, stream, reached)
    is_asked = bool({stream, EVERY_STREAM} & {*fresh})
    if is_asked and stream not in bookmarked(start.state) and (reached.replaces or not appended):
        return False  # its rows take the place of those that are there
    is_same = known.begins_afresh(stream, fresh) == reached.is_afresh
    if is_asked and not is_same and not reached.replaces:
        return False  # all of it is to be appended once more, behind those that are there
    anew = _way_anew(start.pipeline, stream, appended)
    if reached.is_torn:
        raise StateError(
            f"{stream}: run {reached.run_id}, which failed, left rows in "
            f"{', '.join(reached.tables)}, and another table of the stream may lack them; {anew}"
        )
    if reached.has_lost_rows:
        raise StateError(
            f"{stream}: run {reached.run_id}, which failed, left a commit that lacks rows, and the "
            f"rows that are there cannot be recognised when they come again; {anew}"
        )
    if not is_same and not reached.replaces:
        raise StateError(
            f"{stream}: run {reached.run_id}, which was to append all of it once more, failed and "
            f"left rows; go on with that: singer-spark run {name} {_same_again(kept, stream)}"
        )
    return True


def _moved(
    start: Start, stream: str, reached: Reached, kept: KeptState, say: Callable[[str], None]
) -> Start:
    state = move_to(start.state, stream, reached.bookmark)
    if state is None:
        return start
    say(f"{stream}: begins after the rows that run {reached.run_id}, which failed, left")
    reload = start.reload
    if EVERY_STREAM in reload:
        reload = frozenset(_streams(kept))
    belongs = start.belongs
    if reached.is_afresh or reached.replaces:
        # The table of before may have been removed first.
        belongs = without_tables(belongs, {stream})
    return start._replace(state=state, belongs=belongs, reload=frozenset(reload - {stream}))


def _same_again(kept: KeptState, stream: str) -> str:
    """Name the option that goes on with a run which read a stream afresh."""
    failed = kept.resume()
    is_that = failed and (failed.mode == "full" or stream in failed.streams)
    return "--resume" if is_that else f"--refresh {stream}"


def _way_anew(pipeline: Pipeline, stream: str, appended: Sequence[str]) -> str:
    """Say how a stream is loaded anew."""
    anew = f"load it anew: singer-spark run {pipeline.name} --refresh {stream}"
    if not appended:
        return anew
    return f"remove its table{'s ' + ', '.join(appended) if appended[1:] else ''}, then {anew}"


def _appended(pipeline: Pipeline, stream: str, reached: Reached) -> tuple[str, ...]:
    """Name the tables of a stream whose rows replace none, whatever is asked for."""
    filled = (*reached.tables, *reached.others)
    by_name = any(_appends_by_name(pipeline.target, one) for one in filled)
    return filled if by_name or _is_limited(pipeline, stream) else ()


def _is_limited(pipeline: Pipeline, stream: str) -> bool:
    """Say whether our tap never reads all rows of a stream, so that they replace none."""
    config = pipeline.tap.config
    options = pipeline.tap.options_of(stream)
    is_part = any(options.get(name) for name in ("where", "sample")) or config.get("max_rows")
    return bool(is_part) or str(config.get("source_url")).startswith("kafka:")


def _tables_of(belongs: Mapping[str, Any], stream: str) -> Collection[str]:
    """Name the tables that a stream of the tap filled when the last run succeeded."""
    tables = known_tables(belongs)
    return {name for name, one in tables.items() if (one.state_of or name) == stream}


def _width(pipeline: Pipeline, stream: str) -> int:
    """Count the tables that stream_maps make of a stream."""
    copies, itself = 0, 1
    for maps in (pipeline.tap.stream_maps, pipeline.target.stream_maps):
        for one in maps.values():
            if isinstance(one, Mapping) and "__source__" in one:
                copies += fnmatchcase(stream, str(one["__source__"]))
        own = next((one for name, one in maps.items() if fnmatchcase(stream, name)), _UNMAPPED)
        if (maps.get("__else__", _UNMAPPED) if own is _UNMAPPED else own) in (None, "__NULL__"):
            itself = 0
    return max(1, copies + itself)


def _released(kept: KeptState, stream: str) -> Any:
    """Return the bookmark of a stream that a failed run's target had committed to."""
    failed = kept.resume()
    bookmarks = failed.state.get("bookmarks") if failed else None
    return bookmarks.get(stream) if isinstance(bookmarks, Mapping) else None


def _appends_by_name(target: Plugin, table: str) -> bool:
    """Say whether a stream is appended because someone chose that."""
    return bool(target.setting("load_method", table) == APPEND_ONLY)
