"""Options of several commands, and which store and name PIPELINE means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import click

from singer_spark.cli.completion import complete_pipeline
from singer_spark.errors import SingerSparkError
from singer_spark.pipeline import find_pipeline, list_pipeline_files, load_pipeline
from singer_spark.state import StateStore, create_state_store

T = TypeVar("T")
pipeline_argument = click.argument("pipeline", shell_complete=complete_pipeline)
pipelines_argument = click.argument(
    "pipelines", metavar="[PIPELINE]...", nargs=-1, shell_complete=complete_pipeline
)
state_option = click.option(
    "--state", "url", metavar="URL", help="Address this store; PIPELINE is a name in it then."
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


class Place(NamedTuple):
    """A pipeline's name and the store that keeps its state."""

    name: str
    store: StateStore


def find_place(pipeline: str, url: str | None) -> Place:
    """Find the store of one pipeline."""
    if url is not None:
        return Place(pipeline, create_state_store(url))
    return _open(find_pipeline(pipeline, Path.cwd()))


def read_places(
    read: Callable[[Place], T], url: str | None, pipeline: str | None = None
) -> tuple[list[T], list[SingerSparkError]]:
    """Read from one pipeline, or from all of `pipelines/` or a store; one that fails hides none."""
    found: list[T] = []
    errors: list[SingerSparkError] = []
    for find in [partial(find_place, pipeline, url)] if pipeline else _find_places(url):
        try:
            found.append(read(find()))
        except SingerSparkError as error:
            errors.append(error)
    return found, errors


def raise_all(errors: Sequence[SingerSparkError]) -> None:
    """Show errors, and let the first one end the command."""
    for error in errors[1:]:
        error.show()
    if errors:
        raise errors[0]


def _find_places(url: str | None) -> list[Callable[[], Place]]:
    if url is None:
        return [partial(_open, path) for path in list_pipeline_files(Path.cwd())]
    store = create_state_store(url)
    return [partial(Place, name, store) for name in store.list_names()]


def _open(path: Path) -> Place:
    pipeline = load_pipeline(path)
    return Place(pipeline.name, create_state_store(pipeline.state))
