"""Dates and times that stay text: the formats that no cast into a column checks.

A column of dates or times takes more spellings than RFC 3339, and so does text that declares one.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any

from pyspark.sql import types as T

from singer_spark.types import to_spark_type

_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9](:([0-5][0-9]|60)([.][0-9]+)?)?"
_OFFSET = r" ?([Zz]|[+-][0-9]{2}(:?[0-9]{2}(:[0-9]{2})?)?)"
_MOMENT = re.compile(f"{_DAY}([Tt ]{_TIME}({_OFFSET})?)?")
_MIDNIGHT = re.compile(f"{_DAY}([Tt ]00:00(:00([.]0+)?)?([Zz]|[+-]00:?00)?)?")


def is_moment(value: object) -> bool:
    """Say whether a text is a point in time; a format says nothing of what is no text."""
    return not isinstance(value, str) or _is_day(value, _MOMENT)


def is_date(value: object) -> bool:
    """Say whether a text is a date, or the midnight at which one begins."""
    return not isinstance(value, str) or _is_day(value, _MIDNIGHT)


def _is_day(text: str, pattern: re.Pattern[str]) -> bool:
    try:
        dt.date.fromisoformat(text[:10])
    except ValueError:
        return False
    return pattern.fullmatch(text) is not None


CHECKS = {"date-time": is_moment, "date": is_date}


def is_text(schema: Mapping[str, Any]) -> bool:
    """Say whether a property's values stay text."""
    return isinstance(to_spark_type(schema), T.StringType)


def is_checked_as_text(schema: Mapping[str, Any]) -> bool:
    """Say whether a property declares a date or a time that no cast checks."""
    return schema.get("format") in tuple(CHECKS) and is_text(schema)
