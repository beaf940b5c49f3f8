"""How far watermarks lie behind a moment, how late rows were, and which lookback catches them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from singer_spark.figures import parse_time


def watermarks(bookmarks: Any, streams: Iterable[str]) -> dict[str, datetime]:
    """Find the watermarks of streams that are times; those of other kinds have no lag."""
    if not isinstance(bookmarks, Mapping):
        return {}
    found = {stream: _latest(bookmarks.get(stream)) for stream in streams}
    return {stream: moment for stream, moment in found.items() if moment}


def lag_seconds(watermark: datetime, moment: datetime) -> float:
    """Measure how far a watermark lies behind; what lies ahead does not lag."""
    return round(max(0.0, (moment - watermark).total_seconds()), 3)


def _latest(bookmark: Any) -> datetime | None:
    return max(filter(None, map(parse_time, _values(bookmark))), default=None)


def _values(bookmark: Any) -> Iterator[Any]:
    """List where a watermark can stand: as such, under the SDK's name, or under its column's."""
    if not isinstance(bookmark, Mapping):
        yield bookmark
        return
    if "replication_key_value" not in bookmark:
        yield from bookmark.values()
        return
    value = bookmark["replication_key_value"]
    yield value[0] if isinstance(value, list) and value else value


STEPS = (60, 300, 900, 3_600, 21_600, 86_400)  # seconds that people think in
MARGIN = 2  # what was seen is seldom the worst


def worst_lateness(runs: Iterable[Mapping[str, Any]], stream: str) -> float:
    """Find by how many seconds the latest row of a stream was late in any of these runs."""
    known = ((run.get("streams") or {}).get(stream) or {} for run in runs)
    return max((float(facts.get("late_seconds") or 0) for facts in known), default=0.0)


def suggest_lookback(worst: float, lookback: float) -> int | None:
    """Suggest a lookback of twice what was seen, in round steps; None where it is wide enough."""
    wanted = worst * MARGIN
    if not worst or lookback >= wanted:
        return None
    step = max((step for step in STEPS if step <= wanted), default=1)
    return int(-(-wanted // step) * step)
