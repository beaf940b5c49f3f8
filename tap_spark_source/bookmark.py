"""Bookmarks compared and written by the type of their column: times by Spark, in UTC."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from singer_spark.names import literal
from tap_spark_source.plan import Window, bad_start
from tap_spark_source.sources import Bounds
from tap_spark_source.table import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FORMATS = {
    "timestamp": "yyyy-MM-dd''T''HH:mm:ss.SSSSSSxxx",
    "timestamp_ntz": "yyyy-MM-dd''T''HH:mm:ss.SSSSSS",
    "date": "yyyy-MM-dd",
}
_EXACT = Context(prec=80)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The window once the source said how far it goes, and the bookmark after reading it."""

    bounds: Bounds
    bookmark: Any
    is_ahead: bool


def read_mark(marks: DataFrame, key: Column) -> str | None:
    """Return the text of the one value in the column `mark`."""
    text: str | None = marks.selectExpr(f"{_text('mark', key)} as mark").toArrow()[0][0].as_py()
    return text


def settle(spark: SparkSession, window: Window, *, stream: str, upper: str | None) -> Settled:
    """Turn a window into bounds: lookback for the query only, never below the old bookmark."""
    key = window.key
    lower, is_ahead = None, False
    if window.start is not None:
        lower, is_ahead = _lower(spark, window, stream=stream, upper=upper)
    keeps = upper is None or is_ahead
    bookmark = window.start if keeps and window.from_bookmark else None
    if not keeps:
        bookmark = int(str(upper)) if key.is_integer else upper
    bounds = Bounds(key=key, lower=lower, upper=upper, nulls=window.null_keys == "include")
    return Settled(bounds=bounds, bookmark=bookmark, is_ahead=is_ahead)


def _lower(
    spark: SparkSession, window: Window, *, stream: str, upper: str | None
) -> tuple[str, bool]:
    """Return the lower bound, and whether the start is ahead of all that the source has."""
    if window.key.is_number:
        return _lower_number(window, stream=stream, upper=upper)
    if not window.key.is_time:
        return str(window.start), False
    return _lower_time(spark, window, stream=stream, upper=upper)


def _lower_number(window: Window, *, stream: str, upper: str | None) -> tuple[str, bool]:
    try:
        start = Decimal(str(window.start))
    except InvalidOperation as error:
        raise bad_start(stream, window) from error
    scale = re.search(r",(\d+)\)", window.key.datatype)
    step = Decimal(1).scaleb(-int(scale[1]) if scale else 0)
    below = _EXACT.subtract(start, Decimal(str(window.lookback)))
    lower = below.quantize(step, rounding=ROUND_FLOOR, context=_EXACT)
    return f"{lower:f}", upper is not None and start > Decimal(upper)


def _lower_time(
    spark: SparkSession, window: Window, *, stream: str, upper: str | None
) -> tuple[str, bool]:
    kind = window.key.datatype
    # By way of the instant, or Spark would drop an offset that the text carries.
    start = f"cast(cast({literal(str(window.start))} as timestamp) as {kind})"
    lower = start
    if window.lookback:
        back = f"make_dt_interval(0, 0, 0, {Decimal(str(window.lookback)):f})"
        lower = f"cast(cast({start} as timestamp) - {back} as {kind})"
    ahead = f"{start} > cast({literal(upper)} as {kind})" if upper is not None else "false"
    from pyspark.errors import PySparkException

    try:
        row = spark.sql(f"select {_text(lower, window.key)}, {ahead}").toArrow()
    except PySparkException as error:
        raise bad_start(stream, window) from error
    return row[0][0].as_py(), row[1][0].as_py()


def _text(expression: str, key: Column) -> str:
    """Write a value of the key as the text that a bookmark holds."""
    if pattern := _FORMATS.get(key.datatype):
        return f"date_format({expression}, '{pattern}')".replace("''T''", "\\'T\\'")
    return f"cast({expression} as string)"
