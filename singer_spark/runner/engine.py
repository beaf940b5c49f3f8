"""The engine of a run: started by the runner, for both sides at once, before they ask for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from singer_spark.engine.lease import ENGINE, find_lease, start_engine
from singer_spark.engine.place import shared_engines
from singer_spark.engine.spec import Spec
from singer_spark.pipeline import Pipeline
from singer_spark.pipeline.endpoints import Plugin
from singer_spark.runner.start import OUR_TAP
from singer_spark.runner.transport import OUR_TARGET
from singer_spark.settings import SparkSettings


@contextmanager
def engine_of_run(pipeline: Pipeline) -> Iterator[dict[str, str]]:
    """Lend an engine to both sides for the time of a run; yields what their environment says of it.

    It is theirs alone unless a shared one serves. Sides with settings of their own start their own.
    """
    needs = needs_of(pipeline)
    if needs is None or os.environ.get(ENGINE):
        yield {}
        return
    settings, urls = needs
    spec = Spec.of(settings, urls)
    lease = find_lease(spec, shared_engines())
    if lease is None:
        lease = start_engine(spec, pipeline.engine_idle or settings.engine_idle)
        lease.ask(spec)
    try:
        yield {ENGINE: lease.engine}
    finally:
        # What a side that was killed left running must not commit after the lock is released.
        lease.settle()
        lease.end()


def needs_of(pipeline: Pipeline) -> tuple[SparkSettings, list[str]] | None:
    """Return what both sides need of Spark, None where they are not ours or not of one mind."""
    sides = {OUR_TAP: pipeline.tap, OUR_TARGET: pipeline.target}
    if any(Path(side.command).name != name for name, side in sides.items()):
        return None
    tap, target = (_settings(side) for side in sides.values())
    return None if tap != target or tap.remote else (tap, _urls(pipeline))


def _settings(side: Plugin) -> SparkSettings:
    return SparkSettings.from_config({**side.config, "engine_idle": None})


def _urls(pipeline: Pipeline) -> list[str]:
    """List what is read and written, which decides on drivers."""
    tap, target = pipeline.tap.config, pipeline.target.config
    batch = (tap.get("batch_config") or {}).get("storage") or {}
    known = (tap.get("source_url"), tap.get("snapshot_path"), batch.get("root"), target.get("path"))
    return [url for url in known if isinstance(url, str)]
