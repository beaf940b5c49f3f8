"""Starts and stops a bare Spark session with Delta: `session.py JOB`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession


def open_session(job: dict) -> SparkSession:
    """Open a classic session, tuned for one machine, from jars that are already there."""
    cores = str(job["cores"])
    settings = {
        "spark.jars": ",".join(job["jars"]),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": cores,
        "spark.databricks.delta.snapshotPartitions": cores,
        "spark.driver.memory": f"{job['memory_mb']}m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[*]").appName("bench")  # noqa: TID251
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    open_session(json.loads(Path(sys.argv[1]).read_text())).stop()
