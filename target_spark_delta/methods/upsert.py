"""upsert: the last record of a key is its row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from singer_spark.names import quote
from target_spark_delta.intake.segments import Range
from target_spark_delta.intake.validation import DELETED_AT
from target_spark_delta.methods.batch import Batch
from target_spark_delta.methods.merge import Changes, merge
from target_spark_delta.methods.per_key import (
    KNOWN,
    REBORN,
    column_ranges,
    counts_versions,
    dated_by,
    facts_of,
    one_per_key,
    ordered,
)
from target_spark_delta.rows.columns import TABLE_VERSION
from target_spark_delta.table import commit
from target_spark_delta.table.commit import Counts, Tally


def write(spark: SparkSession, batch: Batch) -> Counts:
    """Merge the rows by their key."""
    facts, tally = facts_of(batch), Tally()
    if batch.is_partial:
        # Before they are folded.
        batch = replace(batch, rows=tally.of(batch.rows))
    changes = Changes(
        rows=batch.rows,
        count=facts.keys,
        keys=batch.keys,
        columns=batch.columns,
        schema=batch.schema,
        ranges={**facts.ranges, **_tied_ranges(batch)},
        folded=batch.is_partial,
        skip_unchanged=batch.skip_unchanged,
        removed=f"s.{quote(DELETED_AT)} is not null" if batch.removes else None,
        newest_by=dated_by(batch),
        rising=TABLE_VERSION if counts_versions(batch) else None,
        predicate=batch.options.merge_predicate,
        bookmark=batch.bookmark,
        afresh=f"s.{quote(REBORN)}" if batch.removes else "false",
        left_out=_lacking(batch),
        is_counted=not batch.is_partial,
        came=(tally, batch.count) if batch.is_partial else None,
        scratch=batch.scratch,
    )
    known = _with_known(spark, batch, changes)
    rows, _ = one_per_key(replace(batch, rows=known, facts=facts))
    if batch.is_new and not batch.is_partial:
        return commit.append(batch.table, rows.select(*map(quote, batch.columns)), facts.keys)
    return merge(spark, batch.table, replace(changes, rows=rows))


def _lacking(batch: Batch) -> str:
    """Return SQL that says whether a row is a deletion without a value that the table requires."""
    required = [f.name for f in batch.schema if not f.nullable and f.name not in batch.keys]
    if not required or DELETED_AT not in batch.columns:
        return "false"
    lacks = " or ".join(f"s.{quote(name)} is null" for name in required)
    return f"s.{quote(DELETED_AT)} is not null and ({lacks})"


def _tied_ranges(batch: Batch) -> Mapping[str, Range]:
    """Find the ranges of the columns in which every match is promised to be the same."""
    tied = batch.options.tied_columns
    columns = [name for name in batch.columns if name.lower() in tied and name not in batch.keys]
    known = ordered(batch.rows, columns)
    return column_ranges(batch.rows, known, listed=batch.options.partition_by)


def _with_known(spark: SparkSession, batch: Batch, changes: Changes) -> DataFrame:
    """Add what the table knows of `dedupe_by`, where each of the records is to be compared with it.

    Of whole records only the newest counts, which the MERGE compares.
    """
    column = changes.newest_by
    if column is None or batch.is_new or not batch.is_partial:
        return batch.rows
    keys = ", ".join(f"s.{quote(key)}" for key in batch.keys)
    there = batch.table.rows(spark).alias("t")
    # No view: behind one Spark Connect counts no rows.
    return (
        batch.rows.alias("s")
        .join(there, F.expr(changes.matches), "left")
        .selectExpr("s.*", f"max(t.{quote(column)}) over (partition by {keys}) as {quote(KNOWN)}")
    )
