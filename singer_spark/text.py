"""Text from outside, made safe for a terminal, a log and a record; lists of names.

A stream's name may clear a screen, turn the order of signs, or begin a line that looks like ours.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import Any

from singer_spark.secrets import mask

_CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_IN_TEXT = re.compile(f"[{_CONTROL}]")
_IN_LINE = re.compile(f"[\n{_CONTROL}]")


def printable(text: str) -> str:
    """Escape control characters; lines and tabs stay."""
    return _IN_TEXT.sub(_escape, text)


def one_line(text: str) -> str:
    """Escape control characters, line breaks among them."""
    return _IN_LINE.sub(_escape, text)


def printable_json(text: str) -> str:
    """Escape control characters in JSON as JSON does; they stand in its texts alone."""
    return _IN_TEXT.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape", "surrogatepass").decode("ascii")


def guard_logs() -> None:
    """Escape what this process logs from now on, whoever logs it, and hide secrets in it."""
    make = logging.getLogRecordFactory()
    if getattr(make, "is_guarded", False):
        return

    def guarded(*args: Any, **members: Any) -> logging.LogRecord:
        record = make(*args, **members)
        try:
            message = record.getMessage()
        except (TypeError, ValueError):  # logging tells of it by itself
            return record
        if (safe := one_line(mask(message))) != message:
            record.msg, record.args = safe, ()
        return record

    guarded.is_guarded = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(guarded)


def listed(names: Iterable[str], most: int = 5) -> str:
    """List names for a message, of many the first."""
    known = [*names] or ["none"]
    more = len(known) - most
    return ", ".join(known) if more <= 0 else f"{', '.join(known[:most])} and {more} more"
