"""How large what comes from outside may be, so that a small message cannot grow without end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from singer_spark.errors import SchemaError

# Of JSON; a struct is two, and 500 of them is what the type mapping takes.
MOST_LEVELS = 1200
# Of a JSON Schema, where every reference counts as all that it refers to.
MOST_PARTS = 300_000
# Of a table, those inside structs included.
MOST_COLUMNS = 30_000
# Of the name of a column, in characters.
LONGEST_NAME = 1000
# Of a message, in bytes.
LONGEST_LINE = 2**28


class TooLargeError(SchemaError):
    """A JSON Schema that is beyond a limit."""


def check_depth(stream: str, schema: Mapping[str, Any]) -> None:
    """Refuse a JSON Schema that is nested too deeply to be walked by recursion."""
    waiting: list[tuple[Any, int]] = [(schema, 1)]
    while waiting:
        node, level = waiting.pop()
        if level > MOST_LEVELS:
            raise too_deep(f"stream {stream}: its SCHEMA")
        waiting.extend((part, level + 1) for part in parts_in(node).values())


def too_deep(what: str) -> TooLargeError:
    """Return the error of what is nested too deeply."""
    return TooLargeError(
        f"{what} is nested deeper than {MOST_LEVELS} levels of JSON; flatten it in the tap"
    )


def parts_in(node: Any) -> Mapping[Any, Any]:
    """Return what an object or a list of JSON holds, nothing for anything else."""
    if isinstance(node, list):
        return dict(enumerate(node))
    return node if isinstance(node, Mapping) else {}
