"""Bookmarks as marks: numbers exactly, times by Spark, in UTC, never by way of Python's clock."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from singer_spark.names import literal
from tap_spark_source.key import Key, Mark, mark_text, number_below
from tap_spark_source.table import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Clocks differ by a little; a time without a zone may be that of the furthest one.
_TOLERANCE = {"timestamp": "1 minute", "timestamp_ntz": "14 hours"}


def to_mark(spark: SparkSession, key: Key, values: Sequence[Any]) -> Mark:
    """Return JSON values of a key, or of its first parts, as the source's literals want them.

    Raises:
        ValueError: A value looks like one of its type but is none.
    """
    parts = key.parts[: len(values)]
    times = [_instant(part, value) for part, value in zip(parts, values, strict=True)]
    found = iter(_texts(spark, [time for time in times if time]))
    return tuple(
        next(found) if time else number_below(part, value, 0) if part.is_number else value
        for part, value, time in zip(parts, values, times, strict=True)
    )


def looked_back(spark: SparkSession, key: Key, mark: Mark, lookback: float) -> Mark | None:
    """Return the mark that is so much below; None where the key has no distances."""
    first = key.parts[0]
    if first.is_number:
        return (number_below(first, mark[0], lookback),)
    if not first.is_time:
        return None
    back = f"make_dt_interval(0, 0, 0, {Decimal(str(lookback)):f})"
    lower = f"cast(cast({_value(first, mark[0])} as timestamp) - {back} as {first.datatype})"
    return tuple(_texts(spark, [mark_text(lower, first.datatype)]))


def is_future(spark: SparkSession, column: Column, text: str) -> bool:
    """Say whether a time has not come yet, in any zone where it carries none."""
    ahead = _TOLERANCE.get(column.datatype, "26 hours")
    now = f"current_timestamp() + interval {ahead}"
    return bool(_texts(spark, [f"cast({_value(column, text)} as timestamp) > {now}"])[0])


def _instant(part: Column, value: Any) -> str | None:
    """Return the Spark SQL of a time's text; None for what is no time."""
    return mark_text(_value(part, str(value)), part.datatype) if part.is_time else None


def _value(part: Column, text: str) -> str:
    # By way of the instant, or Spark would drop an offset that the text carries.
    return f"cast(cast({literal(text)} as timestamp) as {part.datatype})"


def _texts(spark: SparkSession, expressions: Sequence[str]) -> list[Any]:
    from pyspark.errors import PySparkException

    if not expressions:
        return []
    try:
        (row,) = spark.sql(f"select {', '.join(expressions)}").toArrow().to_pylist()
    except PySparkException as error:
        raise ValueError("is no time that the calendar has") from error
    return list(row.values())
