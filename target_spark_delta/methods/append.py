"""append-only: every record is a new row, unless the table had it when the run began.

Rows are counted over the whole run, as multisets. A tap sends the rows at its bookmark again, and
after a crash all since the last STATE. Of each distinct row as many are added as were sent in the
run, less those that the table had when the run began. The range of the replication key only spares
the look at rows that cannot be the same. What may be there already, the overlap, is kept until the
end of the run, so that two equal rows in two batches are not both taken for the one that the table
has.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from singer_spark.names import literal, quote
from singer_spark.types import to_ddl
from target_spark_delta.intake.validation import DELETED_AT
from target_spark_delta.methods.batch import Batch, FirstLook, Held, Staged
from target_spark_delta.methods.equality import projected, shared_type
from target_spark_delta.methods.merge import between
from target_spark_delta.methods.per_key import column_ranges
from target_spark_delta.methods.staging import stage_rows, staged_rows
from target_spark_delta.rows import spark_jobs
from target_spark_delta.table import commit
from target_spark_delta.table.commit import Counts
from target_spark_delta.table.log import newest_version
from target_spark_delta.table.table import Table

# So many rows are kept in memory, more of them on disk.
_FEW_ROWS = 10_000
_TABLE, _EARLIER, _HERE = range(3)
_SIDE, _ROW, _KNOWN, _PLACE = "\0side", "\0row", "\0known", "\0place"
# Delta would answer from statistics, in which times have milliseconds only.
_FROM_STATISTICS = "spark.databricks.delta.optimizeMetadataQuery.enabled"
# Values whose text, cast back, is the same value.
_EXACT = (
    T.IntegralType,
    T.FractionalType,
    T.StringType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
)


def write(spark: SparkSession, batch: Batch) -> Counts:
    """Add the rows that the table lacks."""
    with missing_rows(spark, batch) as missing:
        counts = Counts()
        if missing.count:
            counts = commit.append(batch.table, missing.rows, missing.count)
        if missing.overlap is not None:
            batch.progress.overlap.append(missing.overlap)
        return replace(counts, unchanged=batch.count - missing.count)


@dataclass(frozen=True, slots=True)
class Missing:
    """The rows of a batch that are to be added."""

    rows: DataFrame  # the rows
    count: int  # how many there are
    overlap: Staged | Held | None = None  # what must be kept for the batches that follow


def first_look_at(spark: SparkSession, table: Table, schema: T.StructType | None) -> FirstLook:
    """Note what a table is when a run begins; one without a schema is not there yet."""
    if schema is None:
        return FirstLook()
    version = newest_version(spark, table)
    return FirstLook(version, table.rows_at(spark, version).schema)


@contextmanager
def missing_rows(spark: SparkSession, batch: Batch) -> Iterator[Missing]:
    """Give the rows of a batch that the table lacks."""
    rows = batch.rows.select(*map(quote, batch.columns))
    everything = Missing(rows, batch.count)
    look, column = batch.progress.first_look, batch.compares_by
    if column is None or look is None or look.version is None or look.schema is None:
        yield everything
        return
    if not (shared := _shared_columns(batch, look.schema)):
        yield everything
        return
    table = batch.table.rows_at(spark, look.version)
    near = _Near.of(spark, batch, table, column)
    if near.is_empty:
        yield everything
        return
    overlap = _set_apart(spark, batch, rows.where(near.here))
    known = _side(table.where(near.there), _TABLE, shared)
    with _missing_of(spark, batch, overlap, known, near, shared) as (left, more):
        new = rows.where(f"({near.here}) is not true")
        new = new.unionByName(left) if more else new
        yield Missing(new, batch.count - overlap.rows + more, overlap)


@contextmanager
def _missing_of(
    spark: SparkSession,
    batch: Batch,
    overlap: Staged | Held,
    known: DataFrame,
    near: _Near,
    shared: list[tuple[str, T.DataType]],
) -> Iterator[tuple[DataFrame, int]]:
    """Give those rows of the overlap that are to be added, and their number."""
    here = _side(_opened(spark, overlap), _HERE, shared)
    if isinstance(overlap, Held) and not batch.progress.overlap:
        left = _missing_of_few(here, known)
        if left is not None:
            yield _opened(spark, Held(left, overlap.schema)), left.num_rows
            return
    earlier = (_opened(spark, kept) for kept in batch.progress.overlap)
    column = batch.compares_by or ""
    parts = (_earlier_side(_near(part, column, near.there), known, shared) for part in earlier)
    union = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), [here, known, *parts])
    with _settled(spark, _missing_among(union), are_few=isinstance(overlap, Held)) as settled:
        yield settled


def _missing_of_few(here: DataFrame, known: DataFrame) -> pa.Table | None:
    """Leave out of few rows those that the table has, without a shuffle.

    None where there are too many, or values that Python does not know.
    """
    there = known.drop(_SIDE).limit(_FEW_ROWS + 1).toArrow()
    if there.num_rows > _FEW_ROWS:
        return None
    compared = [f"{name} as {quote(f'{_PLACE}{name}')}" for name in there.column_names]
    sent = here.selectExpr(f"{quote(_ROW)}.*", *compared).toArrow()
    split = sent.num_columns - len(compared)
    rows, compared_rows = sent.select(range(split)), sent.select(range(split, sent.num_columns))
    kept = []
    try:
        unused = Counter(_as_tuples(there))
        for number, row in enumerate(_as_tuples(compared_rows)):
            if unused[row] > 0:
                unused[row] -= 1
            else:
                kept.append(number)
    except (ValueError, OverflowError):
        # Years that Python does not count to.
        return None
    return rows.take(pa.array(kept, pa.int64()))


def _as_tuples(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Return rows as values that are equal just where Spark says so."""
    columns = [map(_hashable, column.to_pylist()) for column in rows.columns]
    return zip(*columns, strict=True)


def _hashable(value: Any) -> Any:
    if isinstance(value, float):
        # Not a number is equal to itself, as in Spark.
        return "NaN" if math.isnan(value) else value
    if isinstance(value, dict):
        return tuple(map(_hashable, value.values()))
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


@contextmanager
def _settled(
    spark: SparkSession, left: DataFrame, *, are_few: bool
) -> Iterator[tuple[DataFrame, int]]:
    """Work out rows once, before the commit, and count them."""
    if are_few:
        held = Held(left.toArrow(), left.schema)
        yield _opened(spark, held), held.rows
        return
    with spark_jobs.kept(left) as settled:
        yield settled, settled.count()


@dataclass(frozen=True, slots=True)
class _Near:
    """Which rows of the batch, and which of the table, may be equal, as SQL."""

    here: str
    there: str
    is_empty: bool = False

    @classmethod
    def of(cls, spark: SparkSession, batch: Batch, table: DataFrame, column: str) -> _Near:
        """Find out by the range of a column, in the batch and then in that part of the table."""
        name = quote(column)
        kinds = {field.name.lower(): field.dataType for field in batch.schema}
        datatype = kinds[column.lower()]
        there = {field.lower() for field in table.columns}
        if not isinstance(datatype, _EXACT) or column.lower() not in there:
            return cls("true", "true", is_empty=table.isEmpty())
        kind = to_ddl(datatype)
        span = column_ranges(batch.rows, [column])[column]
        spark.conf.set(_FROM_STATISTICS, "false")
        part = table.where(between(name, kind, span)).selectExpr(
            f"cast({name} as {kind}) as {name}"
        )
        near = between(name, kind, column_ranges(part, [column])[column])
        return cls(near, near, is_empty=near == "(false)")


def _near(part: DataFrame, column: str, condition: str) -> DataFrame:
    """Choose those of earlier rows that may be equal; all of them, had they another key then."""
    given = {name.lower() for name in part.columns}
    return part.where(condition) if column.lower() in given else part


def _shared_columns(batch: Batch, before: T.StructType) -> list[tuple[str, T.DataType]]:
    """Choose what two rows are compared in: what the stream and the table of then both have.

    A deletion says something of the source too, also to a table that had none.
    """
    then = {field.name.lower(): field.dataType for field in before}
    now = {field.name.lower(): field.dataType for field in batch.schema}
    shared = [
        (name, shared_type(now[name.lower()], then[name.lower()]))
        for name in batch.columns
        if name.lower() in then and not name.startswith("_sdc_")
    ]
    return [*shared, (DELETED_AT, now.get(DELETED_AT, T.TimestampType()))] if shared else []


def _side(rows: DataFrame, side: int, shared: list[tuple[str, T.DataType]]) -> DataFrame:
    """Return what is compared of rows; those of the batch with all that they have."""
    types = {field.name.lower(): field.dataType for field in rows.schema}
    compared = [
        f"{projected(quote(name), types.get(name.lower()), datatype)} as c{number}"
        for number, (name, datatype) in enumerate(shared)
    ]
    whole = ", ".join(f"{literal(name)}, {quote(name)}" for name in rows.columns)
    row = [f"named_struct({whole}) as {quote(_ROW)}"] if side == _HERE else []
    return rows.selectExpr(f"{side} as {quote(_SIDE)}", *compared, *row)


def _earlier_side(
    part: DataFrame, known: DataFrame, shared: list[tuple[str, T.DataType]]
) -> DataFrame:
    """Return what is compared of earlier rows.

    One that came under a SCHEMA without some of the columns may have been taken for any row of the
    table that is equal in the others, so it counts for each of them.
    """
    rows = _side(part, _EARLIER, shared)
    given = {name.lower() for name in (*part.columns, DELETED_AT)}
    numbers = [n for n, (name, _) in enumerate(shared) if name.lower() in given]
    if len(numbers) == len(shared):
        return rows
    same = " and ".join(f"t.c{n} <=> s.c{n}" for n in numbers)
    columns = [f"t.c{n}" for n in range(len(shared))]
    distinct = known.distinct().alias("t")
    matches = distinct.join(rows.alias("s"), F.expr(same))
    return matches.selectExpr(f"{_EARLIER} as {quote(_SIDE)}", *columns)


def _missing_among(sides: DataFrame) -> DataFrame:
    """Leave out of the batch's rows those that the table has, less what earlier batches used up.

    Where the table has n of a row, the first n that were sent in the run are the table's own.
    """
    columns = ", ".join(name for name in sides.columns if name not in (_SIDE, _ROW))
    side, row = quote(_SIDE), quote(_ROW)
    return (
        sides.selectExpr(
            side,
            row,
            f"count_if({side} = {_TABLE}) over (partition by {columns}) as {quote(_KNOWN)}",
            f"row_number() over (partition by {columns} order by {side}) as {quote(_PLACE)}",
        )
        .where(f"{side} = {_HERE} and {quote(_PLACE)} > 2 * {quote(_KNOWN)}")
        .selectExpr(f"{row}.*")
    )


def _set_apart(spark: SparkSession, batch: Batch, rows: DataFrame) -> Staged | Held:
    """Keep rows for the rest of the run, in memory or beside the table."""
    few = rows.limit(_FEW_ROWS + 1).toArrow()
    if few.num_rows <= _FEW_ROWS:
        return Held(few, rows.schema)
    place = batch.staged_table(len(batch.progress.overlap))
    return stage_rows(spark, place, rows)


def _opened(spark: SparkSession, kept: Staged | Held) -> DataFrame:
    if isinstance(kept, Staged):
        return staged_rows(spark, kept)
    return spark.createDataFrame(kept.table, kept.schema)
