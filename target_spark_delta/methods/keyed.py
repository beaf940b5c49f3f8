"""One row per key: what is known of the keys, and what their records make of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window

from singer_spark.names import quote
from target_spark_delta.commit import lost_rows
from target_spark_delta.methods.acting import (
    KNOWN,
    REMOVAL,
    acting,
    dated_by,
    is_carried,
    is_deletion,
    with_versions,
)
from target_spark_delta.methods.batch import Batch
from target_spark_delta.spool import CARRIED, FEW_VALUES, LINE_NUMBER, KeyFacts, Range
from target_spark_delta.validation import DELETED_AT

# Of a folded row: whether some record of it is no deletion, and whether one follows a removal.
LIVES, REBORN = "\0lives", "\0reborn"
_ORDERED = (T.IntegralType, T.DecimalType, T.StringType, T.DateType, T.TimestampType)


def carries(column: str) -> str:
    """Name the column that tells whether a folded row carries another."""
    return f"\0{column}"


def one_per_key(batch: Batch) -> tuple[DataFrame, KeyFacts]:
    """Return the row that counts of each key, and what is known of the keys.

    The last record counts or, with `dedupe_by`, the one with the highest value; of equals the last.
    """
    facts = facts_of(batch)
    if batch.is_partial:
        return _folded(batch), facts
    if facts.keys < facts.rows:
        return _latest(batch), facts
    return batch.rows, facts


def facts_of(batch: Batch) -> KeyFacts:
    """Return what is known of a batch's keys, noted while it was spooled or looked up now."""
    if batch.facts:
        return batch.facts
    facts = key_facts(batch.rows, batch.keys, listed=batch.options.partition_by)
    # A deletion may have been repeated for each partition that it is for.
    if facts.rows != batch.count and not batch.is_partial:
        raise lost_rows(batch.table, facts.rows, batch.count)
    return facts


def key_facts(rows: DataFrame, keys: Sequence[str], *, listed: Collection[str] = ()) -> KeyFacts:
    """Count the rows and the different keys, and find the range of each key that has an order.

    Args:
        rows: The rows.
        keys: The key columns.
        listed: Columns of few values, whose every value is of use.
    """
    counts = rows.groupBy(*map(quote, keys)).agg(F.count("*").alias("\0rows"))
    columns = ordered(rows, keys)
    (total, distinct), ranges = _aggregated(counts, ["sum(`\0rows`)", "count(*)"], columns, listed)
    return KeyFacts(total or 0, distinct, ranges)


def ordered(rows: DataFrame, columns: Iterable[str]) -> list[str]:
    """Choose the columns whose values have an order that SQL's texts of them keep exactly."""
    return [name for name in columns if isinstance(rows.schema[name].dataType, _ORDERED)]


def column_ranges(
    rows: DataFrame, columns: Sequence[str], *, listed: Collection[str] = ()
) -> Mapping[str, Range]:
    """Find the range of each column."""
    return _aggregated(rows, [], columns, listed)[1] if columns else {}


def _aggregated(
    rows: DataFrame, aggregates: Sequence[str], columns: Sequence[str], listed: Collection[str]
) -> tuple[list[Any], Mapping[str, Range]]:
    """Aggregate rows, and find the ranges of columns on the way."""
    ranges = [sql for name in columns for sql in _range_sql(name, is_listed=name in listed)]
    told = rows.selectExpr(*aggregates, *ranges).toArrow()
    numbers = [column[0].as_py() for column in told.columns]
    found = numbers[len(aggregates) :]
    return numbers[: len(aggregates)], {
        name: _range(*found[4 * place : 4 * place + 4]) for place, name in enumerate(columns)
    }


def _range_sql(column: str, *, is_listed: bool) -> list[str]:
    name = quote(column)
    low, high = f"cast(min({name}) as string)", f"cast(max({name}) as string)"
    values = (
        f"collect_set(cast({name} as string))" if is_listed else "cast(array() as array<string>)"
    )
    return [low, high, f"count_if({name} is null)", values]


def _range(low: str | None, high: str | None, nulls: int, values: list[str]) -> Range:
    return Range(low, high, nulls, tuple(sorted(values)) if len(values) <= FEW_VALUES else ())


def _latest(batch: Batch) -> DataFrame:
    newest_first = Window.partitionBy(*map(quote, batch.keys)).orderBy(_order(batch).desc())
    rows = with_versions(batch, batch.rows)
    ranked = rows.withColumn("\0rank", F.row_number().over(newest_first))
    return ranked.where("`\0rank` = 1").drop("\0rank")


def _folded(batch: Batch) -> DataFrame:
    """Fold the records of each key into one row, each column from the last record that carries it.

    Beside every column that is no key stands one that tells whether any record carries it. Of a
    deletion that removes its row nothing else counts.
    """
    rows = acting(batch)
    keys = list(map(quote, batch.keys))
    outside = (LINE_NUMBER, CARRIED, KNOWN, REMOVAL, *batch.keys)
    folded = [name for name in rows.columns if name not in outside]
    deleted = is_deletion(rows)

    def counts(name: str) -> str:
        carried = is_carried(name, batch.always)
        return f"{carried} and not {deleted}" if batch.removes and name != DELETED_AT else carried

    values = [
        F.expr(
            f"max_by(named_struct('v', {quote(name)}), {quote(LINE_NUMBER)}) "
            f"filter (where {counts(name)})"
        ).alias(name)
        for name in folded
    ]
    grouped = rows.groupBy(*keys).agg(
        *values,
        F.expr(f"bool_or(not {deleted})").alias(LIVES),
        F.expr(f"bool_or({quote(REMOVAL)} is not null)").alias(REBORN),
    )
    return grouped.selectExpr(
        *keys,
        *(f"{quote(name)}.v as {quote(name)}" for name in folded),
        *(f"{quote(name)} is not null as {quote(carries(name))}" for name in folded),
        quote(LIVES),
        quote(REBORN),
    )


def _order(batch: Batch) -> Column:
    """Return what orders the records of a key."""
    column, line = dated_by(batch), F.col(quote(LINE_NUMBER))
    return line if column is None else F.struct(F.col(quote(column)), line)
