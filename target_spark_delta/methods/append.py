"""append-only: every record is a new row, unless the table had it when the run began."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from target_spark_delta import commit
from target_spark_delta.commit import Counts
from target_spark_delta.methods.batch import Batch
from target_spark_delta.methods.lacking import lacked_rows


def write(spark: SparkSession, batch: Batch) -> Counts:
    """Add the rows that the table lacks."""
    with lacked_rows(spark, batch) as lacked:
        counts = Counts()
        if lacked.count:
            counts = commit.append(batch.table, lacked.rows, lacked.count)
        if lacked.overlap is not None:
            batch.progress.overlap.append(lacked.overlap)
        return replace(counts, unchanged=batch.count - lacked.count)
