"""The page: what needs a look first, then every pipeline with its history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from importlib.resources import files
from typing import Any

from singer_spark import __version__
from singer_spark.health.report import Health
from singer_spark.page.charts import Point, chart, draw_bars, draw_line
from singer_spark.page.markup import Html, el
from singer_spark.page.runs import list_runs
from singer_spark.page.words import (
    tell_age,
    tell_lag,
    tell_milliseconds,
    tell_number,
    tell_time,
    tell_until,
)

CHARTED_RUNS = 40
TITLE = "Pipelines"


def write_page(healths: Iterable[Health]) -> str:
    """Write the whole page, the worst pipelines first."""
    ordered = sorted(healths, key=lambda health: (-health.level, health.pipeline))
    now = max((health.case.now for health in ordered), default=datetime.now(timezone.utc))
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"{_headline(ordered)} · {TITLE}"),
        el("style", Html(files("singer_spark.page").joinpath("style.css").read_text("utf-8"))),
    )
    cards = [_card(health) for health in ordered]
    main = el("main", _banner(ordered, now), *(cards or [_nothing()]))
    footer = el("footer", f"singer-spark {__version__} · as of {tell_time(now)} UTC")
    return f"<!doctype html>\n{el('html', head, el('body', main, footer), lang='en')}\n"


def _headline(healths: Sequence[Health]) -> str:
    bad = sum(health.level > 0 for health in healths)
    if not healths:
        return "Nothing to show"
    return f"{bad} of {len(healths)} need a look" if bad else "All is well"


def _banner(healths: Sequence[Health], now: datetime) -> Html:
    counts = Counter(health.word for health in healths)
    words = ("critical", "warning", "running", "ok", "new")
    chips = [
        el("span", el("i", class_=f"dot {word}"), f"{counts[word]} {word}", class_="chip")
        for word in words
        if counts[word]
    ]
    return el(
        "header",
        el("div", el("h1", TITLE), el("p", f"{_headline(healths)}, {tell_time(now)} UTC")),
        el("div", *chips, class_="chips"),
    )


def _nothing() -> Html:
    text = "There are no pipelines in pipelines/ yet. Write one with: singer-spark init"
    return el("section", el("p", text, class_="empty"), class_="card")


def _card(health: Health) -> Html:
    reasons = [
        el("li", finding.reason, class_=finding.level.name.lower()) for finding in health.findings
    ]
    heading = el(
        "div",
        el("h2", el("i", class_=f"dot {health.word}"), health.pipeline),
        el("span", health.word, class_=f"badge {health.word}"),
        class_="heading",
    )
    runs = health.case.runs
    return el(
        "section",
        heading,
        el("ul", *reasons, class_="reasons") if reasons else None,
        _figures(health),
        _charts(runs) if runs else None,
        list_runs(runs) if runs else None,
        class_=f"card {health.word}",
    )


def _figures(health: Health) -> Html:
    last: Mapping[str, Any] = health.last or {}
    age = "never" if health.last is None else tell_age(last.get("started_at"), health.case.now)
    figures = {
        "last run": (age, f"{tell_time(last.get('started_at'))} UTC" if last else ""),
        "took": (tell_milliseconds(last.get("milliseconds")), ""),
        "records": (tell_number(last.get("records")), _changes(last)),
        "lag": (tell_lag(health.lag), ""),
    }
    if due := health.next_due:
        until = tell_until(due, health.case.now)
        figures["next run"] = (until, f"{tell_time(due)} UTC · {health.case.cron}")
    tiles = [
        el("div", el("dt", name), el("dd", told), el("small", more) if more else None)
        for name, (told, more) in figures.items()
    ]
    return el("dl", *tiles, class_="figures")


def _changes(run: Mapping[str, Any]) -> str:
    signs = {"inserted": "+", "updated": "~", "deleted": "\N{MINUS SIGN}"}
    known = {sign: run.get(key) for key, sign in signs.items()}
    return " ".join(f"{sign}{tell_number(n)}" for sign, n in known.items() if n is not None)


def _charts(runs: Sequence[Mapping[str, Any]]) -> Html:
    shown = list(reversed(runs[:CHARTED_RUNS]))
    records = [_point(run, "records", tell_number) for run in shown]
    seconds = [_point(run, "milliseconds", tell_milliseconds) for run in shown]
    lags = [_point(run, "lag_seconds", tell_lag) for run in shown]
    return el(
        "div",
        chart("Records per run", records, draw_bars, tell_number),
        chart("Duration", seconds, draw_bars, tell_milliseconds),
        chart("Lag after the run", lags, draw_line, tell_lag),
        class_="charts",
    )


def _point(run: Mapping[str, Any], key: str, tell: Any) -> Point:
    value = run.get(key)
    number = float(value) if isinstance(value, (int, float)) else None
    failed = bool(run.get("exit_code"))
    outcome = ", failed" if failed else ""
    return Point(number, f"{tell_time(run.get('started_at'))}: {tell(value)}{outcome}", failed)
