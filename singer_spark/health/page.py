"""The dashboard: one page that needs no network, no script and no server. Pure.

`page.html` is its template, in which every text is escaped; here are the figures that it shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from singer_spark import __version__
from singer_spark.figures import (
    NOTHING,
    format_bytes,
    format_count,
    format_distance,
    format_duration,
    format_milliseconds,
    format_time,
)
from singer_spark.health.history import started_at
from singer_spark.health.rules import Health

WORDS = ("critical", "warning", "running", "ok", "new")
CHARTS = (
    ("Records per run", "bars", "records", format_count),
    ("Duration", "bars", "milliseconds", format_milliseconds),
    ("Lag after the run", "line", "lag_seconds", format_duration),
)
CHARTED_RUNS = 40
CHART_SIZE = WIDTH, HEIGHT = 300, 64
GAP = 0.25  # of a bar's width
SIGNS = {"inserted": "+", "updated": "~", "deleted": "\N{MINUS SIGN}"}
COLUMNS = (
    ("records", "records", format_count),
    ("loaded", "loaded", format_count),
    ("inserted", "inserted", format_count),
    ("updated", "updated", format_count),
    ("deleted", "deleted", format_count),
    ("quarantined", "set aside", format_count),
    ("late", "late", format_count),
    ("lag_seconds", "lag", format_duration),
)


def write_page(healths: Iterable[Health]) -> str:
    """Write the whole page, the worst pipelines first."""
    from jinja2 import Environment, PackageLoader  # only who wants a page waits

    ordered = sorted(healths, key=lambda health: (-health.level, health.pipeline))
    now = max((health.history.now for health in ordered), default=datetime.now(timezone.utc))
    page = Environment(
        autoescape=True,
        loader=PackageLoader("singer_spark.health", ""),
        lstrip_blocks=True,
        trim_blocks=True,
    )
    page.filters |= {
        "bytes": format_bytes,
        "count": format_count,
        "milliseconds": format_milliseconds,
        "time": format_time,
    }
    counts = Counter(health.word for health in ordered)
    return page.get_template("page.html").render(
        charts=charts,
        chart_size=CHART_SIZE,
        columns=columns,
        counts=[(word, counts[word]) for word in WORDS if counts[word]],
        figures=figures,
        headline=_headline(ordered),
        healths=ordered,
        now=now,
        version=__version__,
    )


def _headline(healths: Sequence[Health]) -> str:
    bad = sum(health.level > 0 for health in healths)
    if not healths:
        return "Nothing to show"
    return f"{bad} of {len(healths)} need a look" if bad else "All is well"


def figures(health: Health) -> Iterator[tuple[str, str, str]]:
    """List the figures at the top of a card: name, value, what is said below it."""
    last: Mapping[str, Any] = health.history.last or {}
    now = health.history.now
    started = f"{format_time(last.get('started_at'))} UTC" if last else ""
    yield "last run", format_distance(started_at(last), now) if last else "never", started
    yield "took", format_milliseconds(last.get("milliseconds")), ""
    changes = {sign: last.get(key) for key, sign in SIGNS.items()}
    told = " ".join(f"{sign}{format_count(n)}" for sign, n in changes.items() if n is not None)
    yield "records", format_count(last.get("records")), told
    yield "lag", format_duration(health.history.lag), ""
    if due := health.next_due:
        when = f"{format_time(due)} UTC · {health.history.cron}"
        yield "next run", format_distance(due, now), when


def columns(streams: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str, Any]]:
    """Choose the columns of a run's streams: those that a stream knows anything of."""
    return [
        column
        for column in COLUMNS
        if any(facts.get(column[0]) is not None for facts in streams.values())
    ]


def charts(runs: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Lay out small pictures of the last runs: a bar each, or a line from run to run."""
    shown = list(reversed(runs[:CHARTED_RUNS]))
    for title, shape, key, write in CHARTS:
        values = [run.get(key) for run in shown]
        known = [float(value) for value in values if isinstance(value, (int, float))]
        most = max(known, default=0) or 1
        step = WIDTH / (max(len(shown), 12) if shape == "bars" else max(len(shown) - 1, 1))
        spots = []
        for number, (run, value) in enumerate(zip(shown, values, strict=True)):
            share = value / most if isinstance(value, (int, float)) else None
            if share is None and shape == "line":
                continue
            height = max(HEIGHT * (share or 0), 2.0)  # a run with nothing to show is seen too
            y = HEIGHT - height if shape == "bars" else HEIGHT - 3 - (HEIGHT - 6) * (share or 0)
            failed = bool(run.get("exit_code"))
            label = f"{format_time(run.get('started_at'))}: {write(value)}"
            spots.append(
                {
                    "x": round(number * step, 2),
                    "y": round(y, 2),
                    "height": round(height, 2),
                    "failed": failed,
                    "label": label + (", failed" if failed else ""),
                }
            )
        yield {
            "title": title,
            "shape": shape,
            "width": round(step * (1 - GAP), 2),
            "spots": spots,
            "line": " L".join(f"{spot['x']} {spot['y']}" for spot in spots),
            "last": write(known[-1]) if known else NOTHING,
            "most": f"max {write(max(known))}" if known else "",
        }
