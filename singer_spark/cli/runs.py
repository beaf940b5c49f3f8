"""`singer-spark runs`: what the runs of a pipeline did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from singer_spark.cli.places import find_place, state_option
from singer_spark.cli.table import (
    cut,
    json_option,
    lay_out,
    show_json,
    tell_count,
    tell_duration,
)
from singer_spark.state.runs import list_runs

HEAD = ("RUN", "STARTED (UTC)", "TOOK", "RECORDS", "EXIT")


@click.command()
@click.argument("pipeline")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, metavar="N")
@state_option
@json_option
def runs(pipeline: str, *, limit: int, url: str | None, as_json: bool) -> None:
    """List the last runs of PIPELINE, newest first."""
    name, store = find_place(pipeline, url)
    found = list_runs(store, name, limit)
    if as_json:
        show_json(found)
    elif not found:
        click.echo(f"{name} has not been run yet")
    else:
        head, *lines = lay_out([HEAD, *map(_row, found)], right=(2, 3, 4))
        click.echo(head)
        for line, run in zip(lines, found, strict=True):
            click.echo(line)
            if run.get("error"):
                click.echo(cut(f"  {run['error']}"))


def _row(run: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        str(run.get("run_id", "?")),
        str(run.get("started_at", "?"))[:19].replace("T", " "),
        tell_duration(int(run.get("milliseconds") or 0)),
        tell_count(int(run.get("records") or 0)),
        str(run.get("exit_code", "?")),
    )
