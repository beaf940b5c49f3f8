"""`singer-spark demo`: the embedded example."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="Load an embedded example, change it, load the change.")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the example lives and stays; a temporary folder otherwise.",
)
def demo(directory: Path | None) -> None:
    """Show the whole of it: make a source, load it, change it, load the change."""
    from singer_spark.demo import run_demo

    run_demo(directory)
