"""`singer-spark run`: one run of a pipeline."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import click

from singer_spark.pipeline import find_pipeline, load_pipeline
from singer_spark.runner import PlainDisplay, RunOptions, RunResult, StateFiles, run_pipeline

path_type = click.Path(path_type=Path)


@click.command()
@click.argument("pipeline")
@click.option("--full", is_flag=True, help="Start afresh; the old state stays until success.")
@click.option("--resume", is_flag=True, help="Start where the last, failed run got to.")
@click.option("--state-in", type=path_type, help="Read the state from this file; use no store.")
@click.option("--state-out", type=path_type, help="Write the state to this file; use no store.")
@click.option("--json", "as_json", is_flag=True, help="Print the result, state included, as JSON.")
def run(
    pipeline: str,
    *,
    full: bool,
    resume: bool,
    state_in: Path | None,
    state_out: Path | None,
    as_json: bool,
) -> None:
    """Run PIPELINE once: a pipeline file, or its name in pipelines/."""
    files = StateFiles(state_in, state_out) if state_in or state_out else None
    options = RunOptions(full=full, resume=resume, files=files)
    options.check()
    if files and not files.result:
        click.echo("Warning: without --state-out the new state is not kept", err=True)
    result = run_pipeline(
        load_pipeline(find_pipeline(pipeline, Path.cwd())),
        options,
        display=PlainDisplay(partial(click.echo, err=as_json)),
    )
    if as_json:
        click.echo(json.dumps({**result.record, "state": result.state}))
    else:
        show_result(result)


def show_result(result: RunResult) -> None:
    """Print what a run did."""
    records = sum(result.records.values())
    click.echo(f"Done! {records} records in {len(result.records)} stream(s)")
    for stream, count in result.records.items():
        click.echo(f"  {stream}: {count}")
