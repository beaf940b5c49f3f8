"""Whether messages may quote values of records: not unless `show_values` is set.

What is logged, and what an error says, goes on into records of runs, to webhooks and OpenLineage.
It is one choice of the whole process. Names, types, rules and bookmarks are no such values.
"""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "…"
A_VALUE: Final = "a value"
# How Spark and drivers begin to say that a value does not fit; the value stands beside it.
_MISFIT = re.compile(
    r"\[(?:CAST|NUMERIC|ARITHMETIC|DATETIME|MALFORMED|INVALID|UNPARSE|DUPLICATED_MAP|CANNOT_PARSE)"
    r"[A-Z0-9_.]*\]|Bad value for type \w+|invalid input (?:syntax|value)(?: for [a-z ]+)?"
    r"|out of range(?: for type [a-z ]+)?|Incorrect \w+ value|Data truncation|Conversion failed"
    r"|Error converting|overflow|For input string|duplicate (?:key|entry)|value too long"
    r"|SQLSTATE:? 2[23]\w{3}",
    re.IGNORECASE,
)


class _Choice:
    shows = False


def choose_values(*, shows: bool) -> None:
    """Say for this process whether values may be shown."""
    _Choice.shows = shows


def shows_values() -> bool:
    """Say whether values may be shown."""
    return _Choice.shows


def shown(value: object) -> str:
    """Return a value as a message may have it."""
    return str(value) if _Choice.shows else HIDDEN


def without_values(said: str) -> str:
    """Return what Spark or a driver says, of a value that does not fit only what is wrong."""
    if _Choice.shows or not (found := _MISFIT.search(said)):
        return said
    return found[0].strip()
