"""How rows travel from tap to target: as messages, or as files that both sides reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from singer_spark.engine.disk import expects_shared_disk
from singer_spark.errors import SettingsError
from singer_spark.pipeline import Pipeline
from singer_spark.pipeline.endpoints import Plugin
from singer_spark.runner.start import OUR_TAP
from singer_spark.settings import SparkSettings

OUR_TARGET = "target-spark-delta"


def with_transport(pipeline: Pipeline, folder: Path) -> Pipeline:
    """Tell both sides to use files in a folder, where the pipeline asks for them or gains by them.

    A tap that has a `batch_config` of its own keeps it, and the target what it finds there. Our
    target reads files of the place that is chosen, and of those that its settings name; none at
    all where rows travel as messages, whatever the tap says.
    """
    tap, target = pipeline.tap, pipeline.target
    own = tap.config.get("batch_config")
    if own or not _goes_by_files(pipeline):
        root = _own_root(own) or folder.as_uri()
        return replace(pipeline, target=_with_root(target, root))
    is_ours = _is(OUR_TAP, tap)
    encoding = {"format": "parquet"} if is_ours else {"format": "jsonl", "compression": "gzip"}
    batch: dict[str, Any] = {"encoding": encoding, "storage": {"root": folder.as_uri()}}
    return replace(
        pipeline,
        tap=Plugin(tap.command, {**tap.config, "batch_config": batch}),
        target=_with_root(
            Plugin(target.command, {**target.config, "clean_up_batch_files": True}),
            batch["storage"]["root"],
        ),
    )


def _own_root(batch: object) -> str | None:
    storage = batch.get("storage") if isinstance(batch, Mapping) else None
    root = storage.get("root") if isinstance(storage, Mapping) else None
    return root if isinstance(root, str) else None


def _with_root(target: Plugin, root: str) -> Plugin:
    """Let our target read the files below a root; a message may name any other file."""
    if not _is(OUR_TARGET, target):
        return target
    roots = [*(target.config.get("batch_roots") or ()), root]
    return Plugin(target.command, {**target.config, "batch_roots": roots})


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
        are_ours = _is(OUR_TAP, pipeline.tap) and _is(OUR_TARGET, pipeline.target)
        return share_a_disk and are_ours and not any(map(_looks_at_records, sides))
    return pipeline.transport == "batch"


def _is(command: str, plugin: Plugin) -> bool:
    return Path(plugin.command).name == command


def _looks_at_records(plugin: Plugin) -> bool:
    """Say whether the SDK is to change records one by one, for which files are a detour."""
    return bool(plugin.config.get("stream_maps") or plugin.config.get("flattening_enabled"))
