"""The runs of a pipeline as a list that opens: each run's figures, its error, its streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from singer_spark.page.markup import Html, el
from singer_spark.page.words import (
    NOTHING,
    tell_bytes,
    tell_lag,
    tell_milliseconds,
    tell_number,
    tell_time,
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
