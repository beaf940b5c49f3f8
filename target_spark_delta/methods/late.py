"""Rows that came late: a commit changes them although they are below the tap's bookmark.

A tap with a `lookback` sends again what lies below its bookmark. Most of it is known; only what the
table did not have yet, or not so, has come late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from singer_spark.names import literal, quote
from singer_spark.report import last_told
from singer_spark.types import to_ddl
from target_spark_delta.commit import Late

_TIMES = (T.TimestampType, T.TimestampNTZType, T.DateType)


@dataclass(frozen=True, slots=True)
class Bookmark:
    """The value of a column below which the tap reads once more."""

    column: str
    value: Any


def told_bookmark(stream: str) -> Bookmark | None:
    """Return the bookmark of a stream, where a tap of this run has told it."""
    fact = last_told("bookmark", stream) or {}
    column, value = fact.get("column"), fact.get("value")
    return Bookmark(column, value) if isinstance(column, str) and value is not None else None


def count_late(rows: DataFrame, bookmark: Bookmark) -> Late | None:
    """Count those of some changed rows that are below the bookmark, if they have its column."""
    fields = {field.name.lower(): field.dataType for field in rows.schema}
    datatype = fields.get(bookmark.column.lower())
    if datatype is None:
        return None
    column = quote(bookmark.column)
    # By way of the instant, or Spark would drop an offset that the text carries.
    instant = f"cast({literal(str(bookmark.value))} as timestamp)"
    bound = instant if isinstance(datatype, _TIMES) else literal(str(bookmark.value))
    bound = f"try_cast({bound} as {to_ddl(datatype)})"
    lateness = "cast(null as bigint)"
    if isinstance(datatype, _TIMES):
        ends = (f"unix_micros(cast({end} as timestamp))" for end in (bound, column))
        lateness = " - ".join(ends)
    told = rows.where(f"{column} < {bound}").selectExpr("count(*)", f"max({lateness})").toArrow()
    count, worst = (values[0].as_py() for values in told.columns)
    return Late(count, None if worst is None else worst / 1e6)
