"""partition-overwrite and delete-insert: a batch replaces a part of the table.

A part may span several batches of a run. What an earlier batch of the run has put there survives:
such a part is not replaced again, but added to, by key where the stream has one. Where records may
be set aside, the old rows go at the end of the stream, except those of such records; without a key
the new ones wait for it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from singer_spark.names import literal, quote
from singer_spark.protocol import Scope
from singer_spark.types import to_ddl
from target_spark_delta.intake.segments import Range
from target_spark_delta.intake.validation import DELETED_AT
from target_spark_delta.methods import retire
from target_spark_delta.methods.batch import Batch
from target_spark_delta.methods.equality import holds_all, holds_same, rows_unknown
from target_spark_delta.methods.merge import Changes, between, merge, same_key
from target_spark_delta.methods.per_key import (
    LIVES,
    carries,
    column_ranges,
    is_carried,
    key_facts,
    one_per_key,
)
from target_spark_delta.rows.spark_jobs import kept
from target_spark_delta.table import commit
from target_spark_delta.table.commit import Counts

_REMOVED = "\0removed"
# SQL that says whether a row is in a part of the table, given what stands before a column's name.
_Part = Callable[[str], str]


def write_partitions(spark: SparkSession, batch: Batch) -> Counts:
    """Replace the partitions that the batch has rows of; each keeps its own row of a key."""
    present = _partitions(batch)
    fresh = present - batch.progress.partitions
    part = _in_partitions(batch, fresh)
    if batch.keys and (batch.is_partial or fresh < present or batch.removes_at_end):
        counts = _merge(spark, _keyed_by_partition(spark, batch), part)
    else:
        counts = _replace(spark, batch, _rows(_keyed_by_partition(spark, batch)), part)
    batch.progress.partitions.update(fresh)
    return counts


def write_ranges(spark: SparkSession, batch: Batch) -> Counts:
    """Replace the rows with the keys of the batch, and those of the range that the run replaces."""
    column = batch.options.range_column
    if column is None:
        return _merge_rows(spark, batch, _rows(batch), _nothing)
    span = batch.progress.range
    if batch.scope is None:
        span = _hull(spark, batch, column)
        part = _outside(batch, column, span)
    else:
        part = _nothing if batch.progress.is_emptied else _in_scope(batch.scope, batch.schema)
    if batch.keys:
        counts = _merge(spark, batch, part)
    else:
        counts = _replace(spark, batch, _rows(batch), part)
    batch.progress.range, batch.progress.is_emptied = span, True
    return counts


def empty_range(spark: SparkSession, batch: Batch) -> Counts:
    """Remove the rows of the range that the tap read, if it had no record that did."""
    part = None if batch.progress.is_emptied else _range_of_run(batch)
    if part is None or batch.table.rows(spark).where(part("")).isEmpty():
        return Counts()
    return commit.execute(spark, batch.table, f"delete from {batch.table.sql} where {part('')}")


def remove_others(spark: SparkSession, batch: Batch, held: DataFrame | None) -> Counts:
    """Remove the rows of the parts of a run whose key did not come, and was not set aside.

    The batch stands for what came, `held` are the keys of what was set aside.
    """
    if batch.options.load_method == "partition-overwrite":
        came = batch.progress.partitions
        part: _Part | None = _in_partitions(batch, came) if came else None
        more = [name for name in batch.options.partition_by if name not in batch.keys]
    else:
        part, more = _range_of_run(batch), []
    if part is None:
        return Counts()
    table = batch.table.rows(spark)
    names = [quote(name) for name in (*batch.keys, *more)]
    kept = table.select(*names).limit(0)
    if held is not None:
        same = F.expr(same_key(batch.keys))
        kept = table.alias("t").join(held.alias("s"), same, "left_semi").select(*names)
    keys = retire.keys_of_run(spark, batch.progress.keys, kept)
    return retire.retire_others(spark, batch.table, keys, live=part("t."), retired=retire.REMOVED)


def other_partitions(batch: Batch, prefix: str = "") -> str:
    """Return SQL that says whether a row is in a partition that the run has no record of."""
    return f"{_in_partitions(batch, batch.progress.partitions)(prefix)} is not true"


def _range_of_run(batch: Batch) -> _Part | None:
    """Say which rows are in the range that a run replaces, None where it replaces nothing."""
    scope, column, span = batch.scope, batch.options.range_column, batch.progress.range
    if scope is None:
        if column is None or span is None:
            return None
        datatype = to_ddl(batch.schema[column].dataType)
        return lambda prefix: between(f"{prefix}{quote(column)}", datatype, span)
    if scope.column is not None and scope.column not in batch.schema.names:
        return None  # the table has no such column yet, and so no row of the range
    return _in_scope(scope, batch.schema)


def _nothing(_: str) -> str:
    return "false"


def _hull(spark: SparkSession, batch: Batch, column: str) -> Range:
    """Widen the range of the run by the values of the batch.

    All that a run replaces is one range, so it does not matter how batches are cut.
    """
    here = column_ranges(_telling(batch, [column]), [column])[column]
    before, datatype = batch.progress.range, to_ddl(batch.schema[column].dataType)
    if before is None:
        return here
    ends = []
    for choose, *texts in (("least", here.low, before.low), ("greatest", here.high, before.high)):
        known = ("cast(null as string)" if text is None else literal(text) for text in texts)
        values = [f"try_cast({text} as {datatype})" for text in known]
        ends.append(f"cast({choose}({', '.join(values)}) as string)")
    low, high = (ends[0].as_py() for ends in spark.sql(f"select {', '.join(ends)}").toArrow())
    return Range(low, high, here.nulls + before.nulls)


def _outside(batch: Batch, column: str, span: Range) -> _Part:
    """Say which rows are in a range, and not in the one that the run has replaced before."""
    before, datatype = batch.progress.range, to_ddl(batch.schema[column].dataType)

    def part(prefix: str) -> str:
        name = f"{prefix}{quote(column)}"
        known = "false" if before is None else between(name, datatype, before)
        return f"({between(name, datatype, span)} and {known} is not true)"

    return part


def _in_scope(scope: Scope, schema: T.StructType) -> _Part:
    """Say which rows the tap has read."""
    if scope.is_whole or scope.column is None:
        return lambda _: "true"
    column, datatype = scope.column, schema[scope.column].dataType

    def part(prefix: str) -> str:
        name = f"{prefix}{quote(column)}"
        bounds = [
            f"{name} {sign} {_bound(value, datatype)}"
            for sign, value in ((">=", scope.start), ("<", scope.end))
            if value is not None
        ]
        is_in = " and ".join(bounds or [f"{name} is not null"])
        return f"({is_in} or {name} is null)" if scope.nulls else f"({is_in})"

    return part


def _bound(value: object, datatype: T.DataType) -> str:
    """Return SQL for the end of a range, which a bookmark writes as text or as a number."""
    text = literal(str(value))
    if isinstance(datatype, (T.DateType, T.TimestampNTZType)):
        # By way of the instant, or Spark would drop an offset that the text carries.
        text = f"cast({text} as timestamp)"
    return f"cast({text} as {to_ddl(datatype)})"


def _rows(batch: Batch) -> DataFrame:
    """Return the rows of the batch, one per key where there are keys, removals marked."""
    rows = one_per_key(batch)[0] if batch.keys else batch.rows
    removed = f"{quote(DELETED_AT)} is not null" if batch.removes else "false"
    wanted = {*batch.columns, *(carries(name) for name in batch.columns), LIVES}
    names = [quote(name) for name in rows.columns if name in wanted]
    return rows.selectExpr(*names, f"{removed} as {quote(_REMOVED)}")


def _is_folded(batch: Batch) -> bool:
    """Say whether rows may be deletions that carry little more than their key."""
    return batch.is_partial and bool(batch.keys)


def _keyed_by_partition(spark: SparkSession, batch: Batch) -> Batch:
    """Make the partition a part of the key; a deletion that does not tell it is for all of them."""
    more = [name for name in batch.options.partition_by if name not in batch.keys]
    if not (more and batch.keys):
        return batch
    rows = _placed(spark, batch, more) if batch.is_partial else batch.rows
    return replace(batch, rows=rows, keys=[*batch.keys, *more], facts=None)


def _placed(spark: SparkSession, batch: Batch, more: list[str]) -> DataFrame:
    """Repeat each deletion without a partition for those that its key has been seen in."""
    tells = " and ".join(is_carried(name, batch.always) for name in more)
    with_place, without_place = (
        batch.rows.where(tells),
        batch.rows.where(f"not ({tells})").drop(*more),
    )
    without_place.createOrReplaceTempView("unplaced")
    names, same = [quote(name) for name in (*batch.keys, *more)], same_key(batch.keys)
    known = spark.sql(
        f"select {', '.join(names)} from {batch.table.sql} t left semi join unplaced s on {same}"
    )
    places = with_place.select(*names).unionByName(known).distinct().alias("t")
    placed = without_place.alias("s").join(places, F.expr(same))
    return with_place.unionByName(placed.selectExpr("s.*", *(f"t.{quote(name)}" for name in more)))


def _without_lost(spark: SparkSession, batch: Batch, rows: DataFrame, part: _Part) -> DataFrame:
    """Leave out deletions of rows that are not there, or not any more once the part is replaced."""
    if not _is_folded(batch):
        return rows
    rows.where(f"not {quote(LIVES)}").createOrReplaceTempView("deletion_rows")
    kept = spark.sql(
        f"select s.* from deletion_rows s left semi join {batch.table.sql} t "
        f"on {same_key(batch.keys)} and {part('t.')} is not true"
    )
    return rows.where(quote(LIVES)).unionByName(kept)


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
    if not partitions:
        return _nothing  # the table may not even have the columns
    types = [to_ddl(batch.schema[name].dataType) for name in columns]

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
    # By key, and where some are removals, fewer may be left.
    known = None if batch.keys or batch.removes else batch.count
    if batch.is_new or part is _nothing:
        return commit.append(table, rows, rows.count() if known is None else known)
    if batch.skip_unchanged and holds_same(spark, table, batch.schema, rows, where=where):
        return Counts()
    count = 0 if batch.keys else batch.progress.set_aside
    if count and not holds_all(spark, table, batch.schema, rows, where=where):
        why = f"{count} record(s) that were set aside have no key"
        raise rows_unknown(table, why, has_key=False)
    return commit.replace(spark, table, rows, where=where, count=known)


def _merge(spark: SparkSession, batch: Batch, part: _Part) -> Counts:
    """Merge the rows of a batch, and replace the part now or at the end of the stream."""
    rows = _without_lost(spark, batch, _rows(batch), part)
    if not batch.removes_at_end:
        return _merge_rows(spark, batch, rows, part)
    counts = _merge_rows(spark, batch, rows, _nothing)
    retire.stage_keys(spark, batch, rows.where(f"not {quote(_REMOVED)}"))
    return counts


def _merge_rows(spark: SparkSession, batch: Batch, rows: DataFrame, part: _Part) -> Counts:
    """Merge rows by key, and remove the rows of the part whose keys are not among them."""
    if batch.is_new:
        return _replace(spark, batch, rows, part)
    rows.createOrReplaceTempView("part_rows")
    names = ", ".join(f"t.{quote(key)}" for key in batch.keys)
    others = spark.sql(
        f"select distinct {names} from {batch.table.sql} t left anti join part_rows s "
        f"on {same_key(batch.keys)} where {part('t.')}"
    )
    removed = others.withColumn(_REMOVED, F.lit(col=True))
    with kept(rows.unionByName(removed, allowMissingColumns=True)) as merged:
        return merge(spark, batch.table, _changes(batch, merged))


def _changes(batch: Batch, merged: DataFrame) -> Changes:
    facts = key_facts(merged, batch.keys)
    folded = _is_folded(batch)
    return Changes(
        rows=merged,
        count=facts.keys,
        keys=batch.keys,
        columns=batch.columns,
        schema=batch.schema,
        ranges=facts.ranges,
        folded=folded,
        skip_unchanged=batch.skip_unchanged,
        removed=f"s.{quote(_REMOVED)}",
        afresh=f"s.{quote(LIVES)}" if folded else "true",
        scratch=batch.scratch,
    )
