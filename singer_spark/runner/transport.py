"""How rows travel from tap to target: as messages, or as files that both sides reach."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from singer_spark.errors import SettingsError
from singer_spark.pipeline import Pipeline
from singer_spark.pipeline.endpoints import Plugin
from singer_spark.runner.start import OUR_TAP
from singer_spark.settings import SparkSettings


def with_transport(pipeline: Pipeline, folder: Path) -> Pipeline:
    """Tell both sides to use files in a folder, where the pipeline asks for them.

    A tap that has a `batch_config` of its own keeps it, and the target what it finds there.
    """
    tap, target = pipeline.tap, pipeline.target
    if pipeline.transport != "batch" or tap.config.get("batch_config"):
        return pipeline
    if not all(SparkSettings.from_config(side.config).is_local for side in (tap, target)):
        raise SettingsError(
            "transport: batch needs a place that both sides reach, but Spark runs elsewhere; set "
            "batch_config.storage.root of the tap to one, or use records"
        )
    is_ours = Path(tap.command).name == OUR_TAP
    encoding = {"format": "parquet"} if is_ours else {"format": "jsonl", "compression": "gzip"}
    batch = {"encoding": encoding, "storage": {"root": folder.as_uri()}}
    return replace(
        pipeline,
        tap=Plugin(tap.command, {**tap.config, "batch_config": batch}),
        target=Plugin(target.command, {**target.config, "clean_up_batch_files": True}),
    )
