"""How to read a column that a plain read would bend, and what is wrong with a value. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Reading:
    """How to read a column that a plain read would bend; `{}` stands for the column.

    `read` is for the database, `parse` for Spark, `hint` is added to the JSON Schema. What a
    bookmark would not be compared with as the database sorts it cannot be a key.
    """

    read: str | None = None
    parse: str | None = None
    hint: Mapping[str, Any] = field(default_factory=dict)
    can_be_key: bool = True


PLAIN = Reading()
DECIMAL_HINT = {"format": "x-singer.decimal"}
OUT_OF_RANGE = "is outside the years 1 to 9999"
TOO_FINE = "is finer than a microsecond"
WITHOUT_DAY = "is a time without a day"
OTHER_KIND = "is no value of its column's declared type"
NO_SCALE = "is no scale of a number"
MISFITS = (OUT_OF_RANGE, TOO_FINE, WITHOUT_DAY, OTHER_KIND, NO_SCALE)


def exact_time(datatype: str, text: str = "{}") -> str:
    """Parse a time of any precision; what is finer than a microsecond is an error."""
    return (
        f"if({{}} rlike '[.][0-9]{{6}}[0-9]*[1-9]', raise_error(concat({{}}, ' {TOO_FINE}')), "
        f"cast({text} as {datatype}))"
    )
