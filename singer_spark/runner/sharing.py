"""What both sides of a run share: one engine, the same jars, a place for batch files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from singer_spark.engine.lease import (
    ENGINE,
    Lease,
    engines_at_hand,
    get_lease,
    settle_engines,
)
from singer_spark.engine.machine import expects_shared_disk
from singer_spark.engine.registry import shared_engines
from singer_spark.engine.spec import Spec
from singer_spark.errors import SettingsError
from singer_spark.pipeline import Pipeline
from singer_spark.pipeline.plugins import Plugin
from singer_spark.settings import SparkSettings

_JARS = ("spark_packages", "spark_jars")


@contextmanager
def engine_of_run(pipeline: Pipeline, run_id: str) -> Iterator[dict[str, str]]:
    """Lend an engine to both sides for the time of a run; yields what their environment says of it.

    It is theirs alone unless a shared one serves. Sides with settings of their own start their own.
    """
    needs = needs_of(pipeline)
    try:
        if needs is None:
            yield {}
        else:
            with _lent(*needs, pipeline.engine_idle) as lease:
                yield {ENGINE: lease.engine}
    finally:
        # Sides that did not find it good enough have started their own.
        settle_engines(run_id)


@contextmanager
def _lent(settings: SparkSettings, urls: list[str], idle_seconds: float | None) -> Iterator[Lease]:
    spec = Spec.of(settings, urls)
    lease = get_lease(spec, lambda: engines_at_hand(None), idle_seconds or settings.engine_idle)
    try:
        yield lease
    finally:
        # What a side that was killed left running must not commit after the lock is released.
        lease.settle()
        lease.end()


def started_cold(pipeline: Pipeline) -> bool:
    """Say whether a run of this pipeline had to start a Spark that no other run can use."""
    needs = needs_of(pipeline)
    if needs is None or os.environ.get(ENGINE):
        return False
    return not (pipeline.engine_idle or needs[0].engine_idle or shared_engines())


def with_common_jars(pipeline: Pipeline) -> Pipeline:
    """Give each side the packages and jars that the other names as well: they share an engine.

    Those of the tap come first. Packages on one side and files on the other cannot be joined.
    """
    sides = (pipeline.tap, pipeline.target)
    if not pipeline.is_ours or any(_settings(side).remote for side in sides):
        return pipeline
    both = {name: _joined(sides, name) for name in _JARS}
    if all(both.values()):
        return pipeline
    named = {name: listed for name, listed in both.items() if listed}
    tap, target = (side.with_config(**named) for side in sides)
    return replace(pipeline, tap=tap, target=target)


def _joined(sides: Iterable[Plugin], name: str) -> list[str]:
    return list(dict.fromkeys(one for side in sides for one in side.config.get(name) or ()))


def needs_of(pipeline: Pipeline) -> tuple[SparkSettings, list[str]] | None:
    """Return what both sides need of Spark, None where they are not ours or not of one mind."""
    if not pipeline.is_ours:
        return None
    common = with_common_jars(pipeline)
    tap, target = _settings(common.tap), _settings(common.target)
    return None if tap != target or tap.remote else (tap, _urls(pipeline))


def _settings(side: Plugin) -> SparkSettings:
    return SparkSettings.from_config({**side.config, "engine_idle": None})


def _urls(pipeline: Pipeline) -> list[str]:
    """List what is read and written, which decides on drivers."""
    tap, target = pipeline.tap.config, pipeline.target.config
    batch = (tap.get("batch_config") or {}).get("storage") or {}
    known = (tap.get("source_url"), tap.get("snapshot_path"), batch.get("root"), target.get("path"))
    return [url for url in known if isinstance(url, str)]


def with_transport(pipeline: Pipeline, folder: Path) -> Pipeline:
    """Let both sides use files in a folder, where the pipeline asks for them or gains by them.

    A tap that has a `batch_config` of its own keeps it, and the target what it finds there. Our
    target reads files of the place that is chosen, and of those that its settings name; none at
    all where rows travel as messages, whatever the tap says.
    """
    tap, target = pipeline.tap, pipeline.target
    own = tap.config.get("batch_config")
    if own or not _goes_by_files(pipeline):
        root = _own_root(own) or folder.as_uri()
        return replace(pipeline, target=_with_root(target, root))
    encoding = {"format": "parquet"} if tap.is_ours else {"format": "jsonl", "compression": "gzip"}
    batch: dict[str, Any] = {"encoding": encoding, "storage": {"root": folder.as_uri()}}
    target = target.with_config(clean_up_batch_files=True)
    return replace(
        pipeline,
        tap=tap.with_config(batch_config=batch),
        target=_with_root(target, folder.as_uri()),
    )


def _own_root(batch: object) -> str | None:
    storage = batch.get("storage") if isinstance(batch, Mapping) else None
    root = storage.get("root") if isinstance(storage, Mapping) else None
    return root if isinstance(root, str) else None


def _with_root(target: Plugin, root: str) -> Plugin:
    """Let our target read the files below a root; a message may name any other file."""
    roots = [*(target.config.get("batch_roots") or ()), root]
    return target.with_config(batch_roots=roots) if target.is_ours else target


def _goes_by_files(pipeline: Pipeline) -> bool:
    sides = (pipeline.tap, pipeline.target)
    share_a_disk = all(
        expects_shared_disk(SparkSettings.from_config(side.config)) for side in sides
    )
    if pipeline.transport == "batch" and not share_a_disk:
        raise SettingsError(
            "transport: batch needs a place that both sides reach, but Spark runs elsewhere; set "
            "batch_config.storage.root of the tap to one, or use records"
        )
    if pipeline.transport == "auto":
        return share_a_disk and pipeline.is_ours and not any(map(_looks_at_records, sides))
    return pipeline.transport == "batch"


def _looks_at_records(plugin: Plugin) -> bool:
    """Say whether the SDK is to change records one by one, for which files are a detour."""
    return bool(plugin.config.get("stream_maps") or plugin.config.get("flattening_enabled"))
