"""partition-overwrite and delete-insert: a batch replaces a part of the table.

A part may span several batches of a run. What an earlier batch of the run has put there survives:
such a part is not replaced again, but added to, by key where the stream has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from singer_spark.names import literal, quote
from target_spark_delta import commit
from target_spark_delta.commit import Counts
from target_spark_delta.methods.batch import Batch
from target_spark_delta.methods.keyed import carries, is_carried, key_facts, one_per_key, range_sql
from target_spark_delta.methods.merge import Changes, between, merge, same_key
from target_spark_delta.methods.same import holds_same
from target_spark_delta.spool import Range
from target_spark_delta.validation import DELETED_AT

_REMOVED = "\0removed"
# SQL that says whether a row is in a part of the table, given what stands before a column's name.
_Part = Callable[[str], str]


def write_partitions(spark: SparkSession, batch: Batch) -> Counts:
    """Replace the partitions that the batch has rows of."""
    rows = _rows(batch)
    present = _partitions(batch)
    fresh = present - batch.progress.partitions
    part = _in_partitions(batch, fresh)
    if _is_folded(batch):
        counts = _merge(spark, batch, rows, part)
    elif batch.keys and fresh < present:
        counts = _merge(spark, batch, rows, part, within=_in_partitions(batch, present))
    else:
        counts = _replace(spark, batch, rows, part)
    batch.progress.partitions.update(fresh)
    return counts


def write_ranges(spark: SparkSession, batch: Batch) -> Counts:
    """Replace the rows with the keys of the batch, and those within the range of its values."""
    column = batch.options.range_column
    rows = _rows(batch)
    if column is None:
        return _merge(spark, batch, rows, lambda _: "false")
    values = _telling(batch, [column]).selectExpr(*range_sql(column)).toArrow()
    span = Range(*(value[0].as_py() for value in values.columns))
    earlier = tuple(batch.progress.ranges)
    datatype = batch.schema[column].dataType.simpleString()

    def part(prefix: str) -> str:
        is_in = [between(f"{prefix}{quote(column)}", datatype, known) for known in (span, *earlier)]
        return " and not ".join(is_in)

    counts = (_merge if batch.keys else _replace)(spark, batch, rows, part)
    batch.progress.ranges.append(span)
    return counts


def _rows(batch: Batch) -> DataFrame:
    """Return the rows of the batch, one per key where there are keys, removals marked."""
    rows = one_per_key(batch)[0] if batch.keys else batch.rows
    removed = f"{quote(DELETED_AT)} is not null" if batch.removes else "false"
    told = {*batch.columns, *(carries(name) for name in batch.columns)}
    names = [quote(name) for name in rows.columns if name in told]
    return rows.selectExpr(*names, f"{removed} as {quote(_REMOVED)}")


def _is_folded(batch: Batch) -> bool:
    """Say whether rows may be deletions that carry little more than their key."""
    return batch.is_partial and bool(batch.keys)


def _telling(batch: Batch, columns: Iterable[str]) -> DataFrame:
    """Leave out the deletions, and what else says nothing of these columns."""
    conditions = [is_carried(name, batch.always) for name in columns]
    if DELETED_AT in batch.rows.columns:
        conditions.append(f"{quote(DELETED_AT)} is null")
    return batch.rows.where(" and ".join(conditions))


def _partitions(batch: Batch) -> set[tuple[str | None, ...]]:
    columns = batch.options.partition_by
    texts = [f"cast({quote(name)} as string)" for name in columns]
    found = _telling(batch, columns).selectExpr(*texts).distinct().toArrow()
    return set(zip(*(column.to_pylist() for column in found.columns), strict=True))


def _in_partitions(batch: Batch, partitions: set[tuple[str | None, ...]]) -> _Part:
    columns = batch.options.partition_by
    types = [batch.schema[name].dataType.simpleString() for name in columns]

    def part(prefix: str) -> str:
        names = [f"{prefix}{quote(name)}" for name in columns]
        any_of = [
            " and ".join(
                f"{name} is null" if value is None else f"{name} = cast({literal(value)} as {kind})"
                for name, value, kind in zip(names, values, types, strict=True)
            )
            for values in sorted(partitions, key=str)
        ]
        return f"({' or '.join(any_of) or 'false'})"

    return part


def _replace(spark: SparkSession, batch: Batch, rows: DataFrame, part: _Part) -> Counts:
    table, where = batch.table, part("")
    rows = rows.where(f"not {quote(_REMOVED)}").select(*map(quote, batch.columns))
    if batch.is_new:
        return commit.append(table, rows, rows.count())
    if batch.skip_unchanged and holds_same(spark, table, batch.schema, rows, where=where):
        return Counts()
    return commit.replace(spark, table, rows, where=where)


def _merge(
    spark: SparkSession, batch: Batch, rows: DataFrame, part: _Part, *, within: _Part | None = None
) -> Counts:
    """Merge the rows by key, and remove the rows of the part whose keys are not among them."""
    if batch.is_new:
        return _replace(spark, batch, rows, part)
    rows.createOrReplaceTempView("part_rows")
    names = ", ".join(f"t.{quote(key)}" for key in batch.keys)
    gone = spark.sql(
        f"select distinct {names} from {batch.table.sql} t left anti join part_rows s "
        f"on {same_key(batch.keys)} where {part('t.')}"
    )
    removed = gone.withColumn(_REMOVED, F.lit(col=True))
    merged = rows.unionByName(removed, allowMissingColumns=True).persist(StorageLevel.DISK_ONLY)
    try:
        return merge(spark, batch.table, _changes(batch, merged, within))
    finally:
        merged.unpersist()


def _changes(batch: Batch, merged: DataFrame, within: _Part | None) -> Changes:
    facts = key_facts(merged, batch.keys)
    known = {name.lower() for name in batch.columns}
    return Changes(
        rows=merged,
        count=facts.keys,
        keys=batch.keys,
        columns=batch.columns,
        schema=batch.schema,
        ranges=facts.ranges,
        folded=_is_folded(batch),
        skip_unchanged=batch.skip_unchanged,
        removed=f"s.{quote(_REMOVED)}",
        predicate=within("t.") if within else None,
        cleared=[name for name in batch.schema.names if name.lower() not in known],
    )
