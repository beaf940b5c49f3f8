"""The pipeline file: what is read, where it goes, where its state is kept.

find         files by path, name or pattern
document     YAML with ${ENV}, every problem gathered
file         the whole file as a value
source_url   the URL of a source: its login, and whether the server proves who it is
tables       where a target keeps its tables
cron         when a run is due
"""

from __future__ import annotations

from singer_spark.pipeline.file import Alerts, Pipeline, load_pipeline, parse_pipeline
from singer_spark.pipeline.find import (
    find_pipeline,
    find_pipelines,
    list_pipeline_files,
    refuse_twins,
)

__all__ = [
    "Alerts",
    "Pipeline",
    "find_pipeline",
    "find_pipelines",
    "list_pipeline_files",
    "load_pipeline",
    "parse_pipeline",
    "refuse_twins",
]
