"""Options of several commands, and which store and name PIPELINE means."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click

from singer_spark.pipeline import find_pipeline, list_pipeline_files, load_pipeline
from singer_spark.state import StateStore, create_state_store

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


def find_places(url: str | None) -> Iterator[Callable[[], Place]]:
    """Find all pipelines, of `pipelines/` or of a store; each opens, or fails, by itself."""
    if url is None:
        for path in list_pipeline_files(Path.cwd()):
            yield partial(_open, path)
        return
    store = create_state_store(url)
    for name in store.list_names():
        yield partial(Place, name, store)


def _open(path: Path) -> Place:
    pipeline = load_pipeline(path)
    return Place(pipeline.name, create_state_store(pipeline.state))
