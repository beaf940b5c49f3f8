"""upsert: the last record of a key is its row."""

from __future__ import annotations

from pyspark.sql import SparkSession

from singer_spark.names import quote
from target_spark_delta import commit
from target_spark_delta.commit import Counts
from target_spark_delta.methods.batch import Batch
from target_spark_delta.methods.keyed import one_per_key
from target_spark_delta.methods.merge import Changes, merge
from target_spark_delta.validation import DELETED_AT


def write(spark: SparkSession, batch: Batch) -> Counts:
    """Merge the rows by their key."""
    rows, facts = one_per_key(batch)
    if batch.is_new and not batch.is_partial:
        return commit.append(batch.table, rows.select(*map(quote, batch.columns)), facts.keys)
    changes = Changes(
        rows=rows,
        count=facts.keys,
        keys=batch.keys,
        columns=batch.columns,
        schema=batch.schema,
        ranges=facts.ranges,
        folded=batch.is_partial,
        skip_unchanged=batch.skip_unchanged,
        removed=f"s.{quote(DELETED_AT)} is not null" if batch.removes else None,
        newest_by=batch.options.dedupe_by,
        predicate=batch.options.merge_predicate,
        bookmark=batch.bookmark,
    )
    return merge(spark, batch.table, changes)
