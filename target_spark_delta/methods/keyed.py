"""One row per key: what is known of the keys, and which record of a key counts."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window

from singer_spark.names import literal, quote
from target_spark_delta.methods.batch import Batch
from target_spark_delta.spool import CARRIED, LINE_NUMBER, KeyFacts, Range

_ORDERED = (T.IntegralType, T.DecimalType, T.StringType, T.DateType, T.TimestampType)
_ORDER = "\0order"


def carries(column: str) -> str:
    """Name the column that tells whether a folded row carries another."""
    return f"\0{column}"


def one_per_key(batch: Batch) -> tuple[DataFrame, KeyFacts]:
    """Return the row that counts of each key, and what is known of the keys.

    The last record counts or, with `dedupe_by`, the one with the highest value; of equals the last.
    """
    facts = batch.facts or key_facts(batch.rows, batch.keys)
    if batch.is_partial:
        return _folded(batch), facts
    if facts.keys < facts.rows:
        return _latest(batch), facts
    return batch.rows, facts


def key_facts(rows: DataFrame, keys: Sequence[str]) -> KeyFacts:
    """Count the rows and the different keys, and find the range of each key that has an order."""
    ordered = [key for key in keys if isinstance(rows.schema[key].dataType, _ORDERED)]
    counts = rows.groupBy(*map(quote, keys)).agg(F.count("*").alias("\0rows"))
    aggregates = ["sum(`\0rows`)", "count(*)", *(sql for key in ordered for sql in range_sql(key))]
    table = counts.selectExpr(*aggregates).toArrow()
    total, distinct, *values = (column[0].as_py() for column in table.columns)
    ranges = {key: Range(*values[3 * i : 3 * i + 3]) for i, key in enumerate(ordered)}
    return KeyFacts(total or 0, distinct, ranges)


def range_sql(column: str) -> list[str]:
    """Return the aggregates that make a column's range."""
    name = quote(column)
    low, high = f"cast(min({name}) as string)", f"cast(max({name}) as string)"
    return [low, high, f"count_if({name} is null)"]


def _latest(batch: Batch) -> DataFrame:
    newest_first = Window.partitionBy(*map(quote, batch.keys)).orderBy(_order(batch).desc())
    ranked = batch.rows.withColumn("\0rank", F.row_number().over(newest_first))
    return ranked.where("`\0rank` = 1").drop("\0rank")


def _folded(batch: Batch) -> DataFrame:
    """Fold the records of each key into one row, each column from the last record that carries it.

    Beside every column that is no key stands one that tells whether any record carries it.
    """
    keys = list(map(quote, batch.keys))
    outside = (LINE_NUMBER, CARRIED, *batch.keys)
    folded = [name for name in batch.rows.columns if name not in outside]
    values = [
        F.expr(
            f"max_by(named_struct('v', {quote(name)}), {quote(_ORDER)}) "
            f"filter (where {is_carried(name, batch.always)})"
        ).alias(name)
        for name in folded
    ]
    grouped = batch.rows.withColumn(_ORDER, _order(batch)).groupBy(*keys).agg(*values)
    return grouped.selectExpr(
        *keys,
        *(f"{quote(name)}.v as {quote(name)}" for name in folded),
        *(f"{quote(name)} is not null as {quote(carries(name))}" for name in folded),
    )


def _order(batch: Batch) -> Column:
    """Return what orders the records of a key.

    One that does not carry the value of `dedupe_by` is as new as the newest before it.
    """
    column = batch.options.dedupe_by
    if column is None:
        return F.col(quote(LINE_NUMBER))
    value = F.col(quote(column))
    if batch.is_partial:
        given = F.when(F.expr(is_carried(column, batch.always)), value)
        before = Window.partitionBy(*map(quote, batch.keys)).orderBy(quote(LINE_NUMBER))
        value = F.coalesce(given, F.max(given).over(before))
    return F.struct(value.alias("value"), F.col(quote(LINE_NUMBER)).alias("line"))


def is_carried(column: str, always: Collection[str]) -> str:
    """Return SQL that says whether a record carries a column."""
    if column in always:
        return "true"
    carried = quote(CARRIED)
    return f"({carried} is null or array_contains({carried}, {literal(column)}))"
