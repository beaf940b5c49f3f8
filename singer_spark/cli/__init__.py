"""The command `singer-spark`: a group whose commands only parse, call and print."""

from __future__ import annotations

import click

from singer_spark import __version__
from singer_spark.cli import (
    check,
    completion,
    demo,
    engine,
    init,
    run,
    runs,
    schedule,
    state,
    status,
    unlock,
)

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="singer-spark")
def main() -> None:
    """Run Singer taps into targets and keep their state."""


for command in (
    run.run,
    runs.runs,
    status.status,
    state.state,
    check.check,
    init.init,
    schedule.schedule,
    unlock.unlock,
    engine.engine,
    demo.demo,
    completion.completion,
):
    main.add_command(command)
