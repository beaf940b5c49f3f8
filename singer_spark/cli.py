"""The command `singer-spark`: a group whose commands only parse, call and print."""

from __future__ import annotations

from pathlib import Path

import click

from singer_spark import __version__
from singer_spark.pipeline import find_pipeline, load_pipeline
from singer_spark.runner import RunResult, run_pipeline


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="singer-spark")
def main() -> None:
    """Run Singer taps into targets and keep their state."""


@main.command()
@click.argument("pipeline")
@click.option("--full", is_flag=True, help="Start afresh; the old state stays until success.")
def run(pipeline: str, *, full: bool) -> None:
    """Run PIPELINE once: a pipeline file, or its name in pipelines/."""
    path = find_pipeline(pipeline, Path.cwd())
    show_result(run_pipeline(load_pipeline(path), full=full))


@main.command()
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the example lives and stays; a temporary folder otherwise.",
)
def demo(directory: Path | None) -> None:
    """Show the whole of it: make a source, load it, change it, load the change."""
    from singer_spark.demo import run_demo

    run_demo(directory)


def show_result(result: RunResult) -> None:
    """Print what a run did."""
    records = sum(result.records.values())
    click.echo(f"Done! {records} records in {len(result.records)} stream(s)")
    for stream, count in result.records.items():
        click.echo(f"  {stream}: {count}")
