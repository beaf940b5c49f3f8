"""The dashboard: one page that needs no network, no script and no server. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from html import escape
from importlib.resources import files
from typing import Any, NamedTuple, TypeAlias

from singer_spark import __version__
from singer_spark.figures import (
    NOTHING,
    tell_age,
    tell_bytes,
    tell_lag,
    tell_milliseconds,
    tell_number,
    tell_time,
    tell_until,
)
from singer_spark.health.rules import Health

VOID = ("meta", "rect", "circle", "path", "line")


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Child: TypeAlias = "str | Html | Iterable[str | Html | None] | None"


def el(tag: str, /, *children: Child, **attributes: str | float | None) -> Html:
    """Make an element; `_` in the name of an attribute is a dash, one at its end is left out."""
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(map(_render, children))
    if tag in VOID and not inner:
        return Html(f"<{tag}{told}/>")
    return Html(f"<{tag}{told}>{inner}</{tag}>")


def _render(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, str):
        return escape(child)
    return "".join(map(_render, child))


WIDTH, HEIGHT = 300, 64
GAP = 0.25  # of a bar's width


class Point(NamedTuple):
    """One run: a number, where there is one, what to say of it, and whether the run failed."""

    value: float | None
    label: str
    failed: bool = False


def draw_bars(points: Sequence[Point]) -> Html:
    """Draw a bar per run; one that failed stands out, even with nothing to show."""
    most = max((point.value or 0 for point in points), default=0) or 1
    step = WIDTH / max(len(points), 12)
    bars = []
    for number, point in enumerate(points):
        height = max(HEIGHT * (point.value or 0) / most, 2.0)
        bars.append(
            el(
                "rect",
                el("title", point.label),
                x=round(number * step, 2),
                y=round(HEIGHT - height, 2),
                width=round(step * (1 - GAP), 2),
                height=round(height, 2),
                rx=1,
                class_="bad" if point.failed else None,
            )
        )
    return _picture(*bars)


def draw_line(points: Sequence[Point]) -> Html:
    """Draw a line from run to run over a filled ground; runs that tell nothing are passed over."""
    known = [(number, point) for number, point in enumerate(points) if point.value is not None]
    if not known:
        return _picture()
    most = max(point.value or 0 for _, point in known) or 1
    step = WIDTH / max(len(points) - 1, 1)
    places = [
        (round(number * step, 2), round(HEIGHT - 3 - (HEIGHT - 6) * (point.value or 0) / most, 2))
        for number, point in known
    ]
    line = " L".join(f"{x} {y}" for x, y in places)
    ground = f"M{places[0][0]} {HEIGHT} L{line} L{places[-1][0]} {HEIGHT} Z"
    dots = [
        el("circle", el("title", point.label), cx=x, cy=y, r=6, class_="touch")
        for (x, y), (_, point) in zip(places, known, strict=True)
    ]
    return _picture(
        el("path", d=ground, class_="ground"), el("path", d=f"M{line}", class_="line"), *dots
    )


def chart(
    title: str,
    points: Sequence[Point],
    draw: Callable[[Sequence[Point]], Html],
    tell: Callable[[float], str],
) -> Html:
    """Put a picture between its title and its range."""
    values = [point.value for point in points if point.value is not None]
    last, most = (tell(values[-1]), f"max {tell(max(values))}") if values else (NOTHING, "")
    caption = el("figcaption", el("span", title), el("b", last), el("small", most))
    return el("figure", caption, draw(points))


def _picture(*shapes: Html) -> Html:
    return el(
        "svg",
        *shapes,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_hidden="true",
    )


RUNS_SHOWN = 20
STREAMS_SHOWN = 50
COLUMNS: tuple[tuple[str, str, Callable[[object], str]], ...] = (
    ("records", "records", tell_number),
    ("loaded", "loaded", tell_number),
    ("inserted", "inserted", tell_number),
    ("updated", "updated", tell_number),
    ("deleted", "deleted", tell_number),
    ("quarantined", "set aside", tell_number),
    ("late", "late", tell_number),
    ("lag_seconds", "lag", tell_lag),
)


def list_runs(runs: Sequence[Mapping[str, Any]]) -> Html:
    """List the last runs, newest first."""
    shown = [_run(run) for run in runs[:RUNS_SHOWN]]
    return el(
        "details",
        el("summary", "Runs ", el("span", str(len(runs)), class_="count")),
        el("div", *shown, class_="runs"),
    )


def _run(run: Mapping[str, Any]) -> Html:
    failed = bool(run.get("exit_code"))
    head = el(
        "summary",
        el("i", class_="dot critical" if failed else "dot ok"),
        el("time", tell_time(run.get("started_at"))),
        el("span", str(run.get("mode") or ""), class_="mode"),
        el("span", f"{tell_number(run.get('records'))} records", class_="figure"),
        el("span", tell_milliseconds(run.get("milliseconds")), class_="figure"),
    )
    error = el("p", str(run["error"]), class_="error") if run.get("error") else None
    differs = [
        el("p", f"{stream}: {told}", class_="error")
        for stream, told in (run.get("mismatches") or {}).items()
    ]
    return el("details", head, error, differs, _facts(run), _streams(run))


def _facts(run: Mapping[str, Any]) -> Html:
    peaks = run.get("peak_memory_bytes") or {}
    facts = {
        "run": str(run.get("run_id") or NOTHING),
        "host": str(run.get("host") or NOTHING),
        "exit code": str(run.get("exit_code", NOTHING)),
        "extraction": tell_milliseconds(run.get("extract_milliseconds")),
        "load": tell_milliseconds(run.get("load_milliseconds")),
        "messages": tell_bytes(run.get("bytes")),
        "memory": " · ".join(f"{side} {tell_bytes(size)}" for side, size in peaks.items()),
    }
    pairs = [el("div", el("dt", name), el("dd", told or NOTHING)) for name, told in facts.items()]
    return el("dl", *pairs)


def _streams(run: Mapping[str, Any]) -> Html | None:
    streams: Mapping[str, Mapping[str, Any]] = run.get("streams") or {}
    if not streams:
        return None
    # A column that no stream knows anything of is left out.
    columns = [
        column
        for column in COLUMNS
        if any(facts.get(column[0]) is not None for facts in streams.values())
    ]
    head = el("tr", el("th", "stream"), [el("th", title) for _, title, _ in columns])
    rows = [
        el("tr", el("td", name), [el("td", tell(facts.get(key))) for key, _, tell in columns])
        for name, facts in list(streams.items())[:STREAMS_SHOWN]
    ]
    return el("div", el("table", el("thead", head), el("tbody", *rows)), class_="scroll")


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
        el("style", Html(files("singer_spark.health").joinpath("page.css").read_text("utf-8"))),
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
