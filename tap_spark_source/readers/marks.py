"""Bookmarks as marks: numbers exactly, times by Spark, in UTC, never by way of Python's clock."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from singer_spark.names import literal
from tap_spark_source.dialects.statements import mark_text
from tap_spark_source.plan.key import Key, Mark, number_below
from tap_spark_source.plan.table import Column

# Clocks differ by a little; a time without a zone may be that of the furthest one.
_TOLERANCE = {"timestamp": "1 minute", "timestamp_ntz": "14 hours"}
# How a mark writes times: one that reads so needs no Spark to become one.
_WRITTEN = {
    "timestamp": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", re.ASCII),
    "timestamp_ntz": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}", re.ASCII),
    "date": re.compile(r"\d{4}-\d\d-\d\d", re.ASCII),
}
# As far back as times are written without an era, and seconds enough to come there from any time.
_FIRST, _AGES = "timestamp'0001-01-01 00:00:00'", Decimal(10) ** 11


def to_mark(spark: SparkSession, key: Key, values: Sequence[Any], rounds_up: bool = False) -> Mark:
    """Return JSON values of a key, or of its first parts, as the source's literals want them.

    A value that is finer than its type becomes the one below it, or that above it; one that only
    looks like one of its type is a ValueError.
    """
    parts = key.parts[: len(values)]
    times = [
        mark_text(_value(part, str(value), rounds_up=rounds_up), part.datatype)
        if part.is_time and not _is_mark(part, value)
        else None
        for part, value in zip(parts, values, strict=True)
    ]
    found = iter(_steady_texts(spark, tuple(time for time in times if time)))
    return tuple(
        next(found)
        if time
        else number_below(part, value, 0, rounds_up=rounds_up)
        if part.is_number
        else value
        for part, value, time in zip(parts, values, times, strict=True)
    )


def looked_back(spark: SparkSession, key: Key, mark: Mark, lookback: float) -> Mark | None:
    """Return the mark that is so much below; None where the key has no distances."""
    first = key.parts[0]
    if first.is_number:
        return (number_below(first, mark[0], lookback),)
    if not first.is_time:
        return None
    back = f"make_dt_interval(0, 0, 0, {min(Decimal(str(lookback)), _AGES):f})"
    lower = f"cast({_value(first, mark[0])} as timestamp) - {back}"
    bounded = f"cast(greatest({lower}, {_FIRST}) as {first.datatype})"
    return _steady_texts(spark, (mark_text(bounded, first.datatype),))


def is_future(spark: SparkSession, column: Column, text: str) -> bool:
    """Say whether a time has not come yet, in any zone where it carries none."""
    ahead = _TOLERANCE.get(column.datatype, "26 hours")
    now = f"current_timestamp() + interval {ahead}"
    return bool(_texts(spark, [f"cast({_value(column, text)} as timestamp) > {now}"])[0])


def _is_mark(part: Column, value: Any) -> bool:
    written = _WRITTEN.get(part.datatype)
    if written is None or not written.fullmatch(str(value)):
        return False
    try:
        return bool(datetime.fromisoformat(str(value)))
    except ValueError:  # no day of the calendar; Spark says so
        return False


def _value(part: Column, text: str, *, rounds_up: bool = False) -> str:
    # By way of the instant, or Spark would drop an offset that the text carries.
    instant = f"cast({literal(text)} as timestamp)"
    if rounds_up and re.search(r"\.\d{6}\d*[1-9]", text):
        instant = f"({instant} + interval 1 microsecond)"
    if rounds_up and part.datatype == "date":
        instant = f"({instant} + interval 1 day - interval 1 microsecond)"
    return f"cast({instant} as {part.datatype})"


@lru_cache
def _steady_texts(spark: SparkSession, expressions: tuple[str, ...]) -> tuple[str, ...]:
    """Return what expressions give that never change: a window is opened more than once."""
    return tuple(_texts(spark, expressions))


def _texts(spark: SparkSession, expressions: Sequence[str]) -> list[Any]:
    if not expressions:
        return []
    try:
        # Of a row that the statement itself holds, which Spark works out without a job.
        (row,) = spark.sql(f"select {', '.join(expressions)} from values (0)").collect()
    except PySparkException as error:
        raise ValueError("is no time that the calendar has") from error
    return list(row)
