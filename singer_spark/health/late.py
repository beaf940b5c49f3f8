"""How late rows were, and which lookback would have caught them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

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
