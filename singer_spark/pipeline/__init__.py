"""The pipeline file: what is read, where it goes, where its state is kept.

document     YAML with ${ENV}, every problem gathered
endpoints    source and destination
load         the whole file
"""

from __future__ import annotations

from singer_spark.pipeline.load import (
    Alerts,
    Pipeline,
    find_pipeline,
    list_pipeline_files,
    load_pipeline,
    parse_pipeline,
)

__all__ = [
    "Alerts",
    "Pipeline",
    "find_pipeline",
    "list_pipeline_files",
    "load_pipeline",
    "parse_pipeline",
]
