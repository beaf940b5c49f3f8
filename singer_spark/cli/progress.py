"""A run on a terminal: one moving line per stream, with rate, batches and a bar."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, final

import click

from singer_spark.cli.output import cut
from singer_spark.runner import Display, PlainDisplay
from singer_spark.runner.streams import StreamCounts
from singer_spark.text import printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


@contextmanager
def open_display(*, err: bool) -> Iterator[Display]:
    """Show a run on standard output, or on standard error: live on a terminal, else in lines."""
    stream = sys.stderr if err else sys.stdout
    if stream is None or not stream.isatty():
        yield PlainDisplay(partial(print_line, err=err))
        return
    with make_progress(err=err) as progress:
        display = LiveDisplay(progress)
        yield display
        display.finish()


def print_line(line: str, *, err: bool = False) -> None:
    """Print a line; a reader who has gone away is no reason to end a run."""
    try:
        click.echo(printable(line), err=err)
    except OSError:
        # What could not be written would be tried again, and fail, when the program ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2 if err else 1)
        os.close(nowhere)


def make_progress(*, err: bool) -> Progress:
    """Lay out the moving lines within 80 columns."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    return Progress(
        SpinnerColumn(finished_text="[green]✓"),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=16),
        TextColumn("{task.fields[rows]:>13} rows", markup=False),
        TextColumn("{task.fields[rate]:>9}/s", markup=False, style="cyan"),
        TextColumn("{task.fields[commits]}", markup=False, style="dim"),
        console=Console(stderr=err),
        refresh_per_second=4,
    )


@dataclass(slots=True)
class Moving:
    """The line of one stream, and how long it has been moving."""

    task: TaskID
    rows: int = 0
    seconds: float = 0.0
    _begun: float = field(default_factory=time.monotonic)

    def note(self, rows: int) -> None:
        """Take the time while rows come in, so that the rate of a finished stream stays."""
        if rows != self.rows:
            self.rows, self.seconds = rows, time.monotonic() - self._begun


@final
class LiveDisplay:
    """Moving lines at the bottom; everything else is printed above them."""

    interval = 0.5

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: dict[str, Moving] = {}

    def begin(self, pipeline: str) -> None:
        """Leave the lines of an earlier run behind."""
        self.finish()
        self._tasks.clear()
        self.say(f"Running: {pipeline}")

    def say(self, line: str) -> None:
        """Print a line above the moving ones."""
        with suppress(OSError):
            self._progress.console.print(
                printable(line), markup=False, highlight=False, soft_wrap=True
            )

    def show(self, streams: Mapping[str, StreamCounts]) -> None:
        """Move the lines of the streams."""
        for name, facts in streams.items():
            moving = self._find(name)
            moving.note(facts.rows)
            self._progress.update(
                moving.task,
                completed=facts.rows,
                total=max(facts.expected, facts.rows) if facts.expected else None,
                rows=f"{facts.rows:,}",
                rate=f"{facts.rows / max(moving.seconds, self.interval):,.0f}",
                commits=_commits(facts),
            )

    def finish(self) -> None:
        """Fill the bars of a run that succeeded."""
        for task in self._progress.tasks:
            self._progress.update(
                task.id, total=max(task.completed, 1), completed=max(task.completed, 1)
            )

    def _find(self, name: str) -> Moving:
        if name not in self._tasks:
            task = self._progress.add_task(
                cut(name, 24), total=None, rows="0", rate="0", commits=""
            )
            self._tasks[name] = Moving(task)
        return self._tasks[name]


def _commits(facts: StreamCounts) -> str:
    return "" if not facts.commits else f"{facts.commits} committed"
