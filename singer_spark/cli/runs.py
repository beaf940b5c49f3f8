"""`singer-spark runs`: what the runs of a pipeline did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import click

from singer_spark.cli.completion import complete_pipeline
from singer_spark.cli.options import Place, raise_all, read_places, state_option
from singer_spark.cli.output import (
    cut,
    json_option,
    lay_out,
    show_json,
    wrap,
)
from singer_spark.figures import format_count, format_duration, format_milliseconds, format_time
from singer_spark.health.collect import refuse_unknown
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

    def read(place: Place) -> list[dict[str, Any]]:
        if pipeline and url:
            refuse_unknown(pipeline, place.store.list_names(), place.store)
        found = list_runs(place.store, place.name, limit)
        return [{"pipeline": place.name, **run} for run in found]

    histories, errors = read_places(read, url, pipeline)
    newest = sorted(chain(*histories), key=lambda run: str(run.get("run_id")), reverse=True)[:limit]
    if as_json:
        show_json(newest)
    elif newest:
        _show(newest, one=pipeline is not None)
    elif not errors:
        click.echo(f"{pipeline} has not been run yet" if pipeline else "No pipeline has run yet")
    raise_all(errors)


def _show(found: Sequence[Mapping[str, Any]], *, one: bool) -> None:
    head = (*FACTS, "WATERMARK", "LAG", "EXIT") if one else ("PIPELINE", *FACTS, "LAG", "EXIT")
    rows = [_row(run, one=one) for run in found]
    last = len(head) - 1
    right = (1, 2, 3, last - 1, last) if one else (2, 3, 4, last - 1, last)
    title, *lines = lay_out([head, *rows], right=right)
    click.echo(title)
    for line, run in zip(lines, found, strict=True):
        click.echo(line)
        if run.get("error"):
            click.echo(wrap(str(run["error"])))


def _row(run: Mapping[str, Any], *, one: bool) -> tuple[str, ...]:
    lag = run.get("lag_seconds")
    facts = (
        format_time(run.get("started_at")),
        format_milliseconds(run.get("milliseconds")),
        format_count(run.get("records")),
        _changed(run),
    )
    ends = (format_duration(lag), str(run.get("exit_code", "?")))
    if one:
        return (*facts, _watermark(run), *ends)
    return (cut(str(run["pipeline"]), 20), *facts, *ends)


def _changed(run: Mapping[str, Any]) -> str:
    counts = [run.get(key) for key in ("inserted", "updated", "deleted")]
    known = [count for count in counts if isinstance(count, int)]
    return format_count(sum(known)) if known else "-"


def _watermark(run: Mapping[str, Any]) -> str:
    found = watermarks(run.get("bookmarks_after"), run.get("streams") or ())
    return f"{min(found.values()):%Y-%m-%d %H:%M}" if found else "-"
