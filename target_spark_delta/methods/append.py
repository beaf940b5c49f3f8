"""append-only: every record is a new row."""

from __future__ import annotations

from pyspark.sql import SparkSession

from singer_spark.names import quote
from target_spark_delta import commit
from target_spark_delta.commit import Counts
from target_spark_delta.methods.batch import Batch


def write(spark: SparkSession, batch: Batch) -> Counts:  # noqa: ARG001 - as every method
    """Add the rows."""
    return commit.append(batch.table, batch.rows.select(*map(quote, batch.columns)), batch.count)
