"""The pipeline file: what is read, where it goes, where its state is kept.

find         files by path, name or pattern
document     YAML with ${ENV}, every problem gathered
endpoints    source and destination
cron         when a run is due
alerts       when a pipeline needs a look, and who is told
load         the whole file
login        user and password taken out of a source's URL
new          a file for a new pipeline
"""

from __future__ import annotations

from singer_spark.pipeline.alerts import Alerts
from singer_spark.pipeline.find import (
    find_pipeline,
    find_pipelines,
    list_pipeline_files,
    refuse_twins,
)
from singer_spark.pipeline.load import Pipeline, load_pipeline, parse_pipeline

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
