"""One row per key: what is known of the keys, and which record of a key counts."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window

from singer_spark.names import literal, quote
from target_spark_delta.spool import CARRIED, LINE_NUMBER, KeyFacts, Range

_ORDERED = (T.IntegralType, T.DecimalType, T.StringType, T.DateType, T.TimestampType)


def carries(column: str) -> str:
    """Name the column that tells whether a folded row carries another."""
    return f"\0{column}"


def key_facts(rows: DataFrame, keys: Sequence[str]) -> KeyFacts:
    """Count the rows and the different keys, and find the range of each key that has an order."""
    ordered = [key for key in keys if isinstance(rows.schema[key].dataType, _ORDERED)]
    counts = rows.groupBy(*map(quote, keys)).agg(F.count("*").alias("\0rows"))
    aggregates = ["sum(`\0rows`)", "count(*)"]
    for key in map(quote, ordered):
        low, high = f"cast(min({key}) as string)", f"cast(max({key}) as string)"
        aggregates += [low, high, f"count_if({key} is null)"]
    table = counts.selectExpr(*aggregates).toArrow()
    total, distinct, *values = (column[0].as_py() for column in table.columns)
    ranges = {key: Range(*values[3 * i : 3 * i + 3]) for i, key in enumerate(ordered)}
    return KeyFacts(total or 0, distinct, ranges)


def latest_per_key(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Keep the last record of each key."""
    newest_first = Window.partitionBy(*map(quote, keys)).orderBy(F.col(quote(LINE_NUMBER)).desc())
    ranked = rows.withColumn("\0rank", F.row_number().over(newest_first))
    return ranked.where("`\0rank` = 1").drop("\0rank")


def folded_per_key(rows: DataFrame, keys: Sequence[str], always: Collection[str]) -> DataFrame:
    """Fold the records of each key into one row, each column from the last record that carries it.

    Beside every column that is no key stands one that tells whether any record carries it;
    all of them carry what is in `always`.
    """
    folded = [name for name in rows.columns if name not in (LINE_NUMBER, CARRIED, *keys)]
    carried = quote(CARRIED)
    values = [
        F.expr(
            f"max_by(named_struct('v', {quote(name)}), {quote(LINE_NUMBER)}) filter (where "
            f"{carried} is null or array_contains({carried}, {literal(name)}) "
            f"or {str(name in always).lower()})"
        ).alias(name)
        for name in folded
    ]
    grouped = rows.groupBy(*map(quote, keys)).agg(*values)
    return grouped.selectExpr(
        *map(quote, keys),
        *(f"{quote(name)}.v as {quote(name)}" for name in folded),
        *(f"{quote(name)} is not null as {quote(carries(name))}" for name in folded),
    )
