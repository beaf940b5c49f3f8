"""Where a run begins after one that failed: appended rows that are in their table stay away."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from singer_spark import digits
from singer_spark.errors import SingerSparkError
from singer_spark.pipeline.tables import find_tables, is_ours
from singer_spark.runner.process import tell_error
from singer_spark.runner.start import OUR_TAP, Start
from singer_spark.state.appended import find_reached


def after_failed_runs(
    start: Start, attempts: Mapping[str, tuple[str, ...]], say: Callable[[str], None]
) -> Start:
    """Begin appended streams where the failed runs before this one stopped.

    Only of runs that began from the stored state, and only where this one does: a stream that is
    read afresh, in full or in a range says for itself where it begins.
    """
    fresh = start.fresh
    ours = is_ours(start.pipeline.target) and Path(start.pipeline.tap.command).name == OUR_TAP
    if not attempts or fresh is None or not ours:
        return start
    try:
        found = find_reached(find_tables(start.pipeline.target), start.pipeline.name, attempts)
    except SingerSparkError as error:
        tell_error(
            "Warning: the logs of the tables cannot be read, so that streams without a key may get "
            f"the rows of the failed run twice: {error.message}"
        )
        return start
    state = start.state
    for stream, reached in sorted(found.items()):
        moved = _with_bookmark(state, stream, reached.bookmark) if stream not in fresh else None
        if moved is not None and digits.canonical(moved) != digits.canonical(state):
            say(f"{stream}: begins after the rows that run {reached.run_id}, which failed, left")
            state = moved
    return start._replace(state=state)


def _with_bookmark(
    state: Mapping[str, Any], stream: str, bookmark: Any
) -> Mapping[str, Any] | None:
    """Return the state with another bookmark; None where it is none of our tap."""
    if state and "bookmarks" not in state:
        return None
    return {**state, "bookmarks": {**(state.get("bookmarks") or {}), stream: bookmark}}
