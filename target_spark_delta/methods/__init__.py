"""How the rows of a batch become the rows of a table: one module per load method.

A method decides; `commit` writes. Each makes one commit per batch, or none if nothing is new.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

from target_spark_delta.methods import append, history, replace, upsert
from target_spark_delta.methods.batch import Batch
from target_spark_delta.table.commit import Counts

Method = Callable[[SparkSession, Batch], Counts]
METHODS: dict[str, Method] = {
    "append-only": append.write,
    "upsert": upsert.write,
    "partition-overwrite": replace.write_partitions,
    "delete-insert": replace.write_ranges,
    "scd2": history.write,
}
__all__ = ["METHODS", "Batch", "Progress"]
