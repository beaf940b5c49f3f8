"""How rows travel from tap to target: as messages, or as files that both sides reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from singer_spark.errors import SettingsError
from singer_spark.pipeline import Pipeline
from singer_spark.pipeline.endpoints import Plugin
from singer_spark.runner.start import OUR_TAP


def with_transport(pipeline: Pipeline, folder: Path) -> Pipeline:
    """Tell both sides to use files in a folder, where the pipeline asks for them.

    A tap that has a `batch_config` of its own keeps it, and the target what it finds there.
    """
    tap, target = pipeline.tap, pipeline.target
    if pipeline.transport != "batch" or tap.config.get("batch_config"):
        return pipeline
    if not all(map(_runs_here, (tap.config, target.config))):
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


def _runs_here(config: Mapping[str, Any]) -> bool:
    master = config.get("spark_master") or "local"
    return not config.get("spark_remote") and str(master).startswith("local")
