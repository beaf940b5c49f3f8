"""`singer-spark runs`: what the runs of a pipeline did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from singer_spark.cli.completion import complete_pipeline
from singer_spark.cli.options import Place, find_place, find_places, state_option
from singer_spark.cli.output import (
    cut,
    json_option,
    lay_out,
    show_json,
    tell_count,
    tell_duration,
    wrap,
)
from singer_spark.errors import SingerSparkError, StateError
from singer_spark.figures import tell_seconds
from singer_spark.health.lag import watermarks
from singer_spark.state.runs import list_runs

FACTS = ("STARTED (UTC)", "TOOK", "RECORDS", "CHANGED")


@click.command(short_help="List the last runs, of one pipeline or of all.")
@click.argument("pipeline", required=False, shell_complete=complete_pipeline)
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, metavar="N",
              help="Show the newest N.")  # fmt: skip
@state_option
@json_option
def runs(pipeline: str | None, *, limit: int, url: str | None, as_json: bool) -> None:
    """List the last runs of PIPELINE, or of all in pipelines/, newest first.

    CHANGED are rows inserted, updated or deleted; WATERMARK is that of the stream that lies behind
    the most, LAG how far it did when the run ended. Failed runs have their error below them.
    """
    errors: list[SingerSparkError] = []
    places = [find_place(pipeline, url)] if pipeline else list(_open_all(url, errors))
    if pipeline and url and pipeline not in (known := places[0].store.list_names()):
        raise StateError(
            f"{places[0].store.objects.place} knows no pipeline {pipeline}; there are "
            f"{', '.join(known) or 'none'}"
        )
    found = [run for place in places for run in _read(place, limit, errors)]
    newest = sorted(found, key=lambda run: str(run.get("run_id")), reverse=True)[:limit]
    if as_json:
        show_json(newest)
    elif newest:
        _show(newest, one=pipeline is not None)
    elif not errors:
        click.echo(
            f"{places[0].name} has not been run yet" if pipeline else "No pipeline has run yet"
        )
    for error in errors[1:]:
        error.show()
    if errors:
        raise errors[0]


def _open_all(url: str | None, errors: list[SingerSparkError]) -> Iterator[Place]:
    for find in find_places(url):
        try:
            yield find()
        except SingerSparkError as error:
            errors.append(error)


def _read(place: Place, limit: int, errors: list[SingerSparkError]) -> list[dict[str, Any]]:
    """Read a pipeline's runs; one that cannot be read does not hide the others."""
    try:
        runs = list_runs(place.store, place.name, limit)
    except SingerSparkError as error:
        errors.append(error)
        return []
    return [{"pipeline": place.name, **run} for run in runs]


def _show(found: Sequence[Mapping[str, Any]], *, one: bool) -> None:
    head = (*FACTS, "WATERMARK", "LAG", "EXIT") if one else ("PIPELINE", *FACTS, "LAG", "EXIT")
    rows = [_row(run, one=one) for run in found]
    last = len(head) - 1
    right = (1, 2, 3, last - 1, last) if one else (2, 3, 4, last - 1, last)
    told, *lines = lay_out([head, *rows], right=right)
    click.echo(told)
    for line, run in zip(lines, found, strict=True):
        click.echo(line)
        if run.get("error"):
            click.echo(wrap(str(run["error"])))


def _row(run: Mapping[str, Any], *, one: bool) -> tuple[str, ...]:
    lag = run.get("lag_seconds")
    facts = (
        str(run.get("started_at", "?"))[:16].replace("T", " "),
        tell_duration(int(run.get("milliseconds") or 0)),
        tell_count(int(run.get("records") or 0)),
        _changed(run),
    )
    ends = ("-" if lag is None else tell_seconds(lag), str(run.get("exit_code", "?")))
    if one:
        return (*facts, _watermark(run), *ends)
    return (cut(str(run["pipeline"]), 20), *facts, *ends)


def _changed(run: Mapping[str, Any]) -> str:
    counts = [run.get(key) for key in ("inserted", "updated", "deleted")]
    known = [count for count in counts if isinstance(count, int)]
    return tell_count(sum(known)) if known else "-"


def _watermark(run: Mapping[str, Any]) -> str:
    found = watermarks(run.get("bookmarks_after"), run.get("streams") or ())
    return f"{min(found.values()):%Y-%m-%d %H:%M}" if found else "-"
