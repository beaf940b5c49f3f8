"""Keys that a table is read along, ranges of their values, and slices: what is read at once. Pure.

A mark is one value of a key: the texts of its parts as bookmarks hold them, written by Spark.
Whether one mark is above another is for the source to say, whose order may be its own.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation, Overflow
from typing import Any

from tap_spark_source.plan.table import Column

Mark = tuple[str, ...]


_TIME = re.compile(r"\+?\d{4,6}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?\s*(Z|[+-]\d\d(:?\d\d)?)?")
_EXACT = Context(prec=100)
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_LOWEST = {name: -Decimal(2 ** (bits - 1)) for name, bits in _BITS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One column or expression, or several that are compared in order."""

    parts: tuple[Column, ...]

    @property
    def name(self) -> str | list[str]:
        """Name the key as a bookmark does."""
        return self.names[0] if len(self.parts) == 1 else self.names

    @property
    def names(self) -> list[str]:
        """Name the parts."""
        return [part.name for part in self.parts]

    @property
    def label(self) -> str:
        """Name the key in a message."""
        return ", ".join(part.name for part in self.parts)

    @property
    def is_nullable(self) -> bool:
        """Say whether a row may lack a part of the key."""
        return any(part.is_nullable for part in self.parts)

    def to_json(self, mark: Mark) -> Any:
        """Write a mark as a bookmark's value."""
        pairs = zip(self.parts, mark, strict=True)
        values = [int(text) if part.is_integer else text for part, text in pairs]
        return values[0] if len(values) == 1 else values

    def edge_to_json(self, edge: Edge | None) -> Any:
        """Write the end of a range, which may give the first parts only."""
        if edge is None:
            return None
        return replace(self, parts=self.parts[: len(edge.mark)]).to_json(edge.mark)

    def from_json(self, value: Any) -> tuple[Any, ...]:
        """Return the values of the parts; raise ValueError where one is of another type."""
        values = tuple(value) if isinstance(value, list) else (value,)
        if len(values) != len(self.parts):
            raise ValueError(f"must have {len(self.parts)} values")
        for part, item in zip(self.parts, values, strict=True):
            if not is_value(part, item):
                raise ValueError(f"is no {part.datatype}, which replication key {part.name} is")
        return values


@dataclass(frozen=True, slots=True)
class Edge:
    """One end of a range; of a key of several parts it may give the first ones only."""

    mark: Mark
    is_inclusive: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The rows whose key lies between two edges; none means no limit."""

    low: Edge | None = None
    high: Edge | None = None

    def beyond(self, mark: Mark) -> Range:
        """Return what is left above a mark."""
        return replace(self, low=Edge(mark, is_inclusive=False))

    def up_to(self, mark: Mark) -> Range:
        """Return the part that ends with a mark."""
        return replace(self, high=Edge(mark))

    def split(self, cuts: Sequence[Mark]) -> list[Range]:
        """Cut the range at ascending marks into ranges that neither overlap nor leave a gap."""
        ranges, rest = [], self
        for cut in cuts:
            ranges.append(rest.up_to(cut))
            rest = rest.beyond(cut)
        return [*ranges, rest]


def is_value(column: Column, value: Any) -> bool:
    """Say whether a JSON value can be a value of the column."""
    if column.is_number:
        wanted: tuple[type, ...] = (int,) if column.is_integer else (int, float, str)
        return isinstance(value, wanted) and not isinstance(value, bool) and _is_number(value)
    if not isinstance(value, str):
        return False
    if column.datatype == "binary":
        return _is_base64(value)
    # Spark would also take `now` and `yesterday` for times.
    return not column.is_time or _TIME.fullmatch(value) is not None


def is_empty(column: Column, start: str, end: str) -> bool:
    """Say whether no value lies from one mark on and below another, as far as can be told here.

    Texts and bytes have the order of their source.
    """
    if column.is_number:
        return Decimal(start) >= Decimal(end)
    return column.is_time and len(start) == len(end) and start >= end


def is_same_mark(key: Key, one: Mark, other: Mark) -> bool:
    """Say whether two marks are of the same value; a number may have several texts."""
    return all(
        Decimal(left) == Decimal(right) if part.is_number else left == right
        for part, left, right in zip(key.parts, one, other, strict=True)
    )


def _is_number(value: Any) -> bool:
    try:
        return Decimal(str(value)).is_finite()
    except InvalidOperation:
        return False


def _is_base64(value: str) -> bool:
    try:
        return bool(base64.b64decode(value, validate=True)) or not value
    except ValueError:  # letters that base64 lacks, or too few of them
        return False


def number_below(column: Column, value: Any, lookback: float, *, rounds_up: bool = False) -> str:
    """Return a number less the lookback, as a text that the column's type can hold."""
    try:
        below = _EXACT.subtract(Decimal(str(value)), Decimal(str(lookback)))
    except Overflow as error:
        raise ValueError("has more digits than any column") from error
    scale = re.search(r"(\d+),(\d+)\)", column.datatype)
    if column.is_integer or scale:
        digits, places = map(int, scale.groups()) if scale else (0, 0)
        step = Decimal(1).scaleb(-places)
        lowest = step - Decimal(1).scaleb(digits - places) if scale else _LOWEST[column.datatype]
        rounding = ROUND_CEILING if rounds_up else ROUND_FLOOR
        found = max(below, lowest) if lookback else below
        try:
            below = found.quantize(step, rounding=rounding, context=_EXACT)
        except InvalidOperation as error:
            raise ValueError(f"is beyond what {column.datatype} holds") from error
    return f"{below:f}"


# Finer marks than parallel reads, so that a slice that is not full is still cut evenly.
_MARKS_PER_PARTITION = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a source says of the first rows of a range, in the order of their key.

    `marks` are the keys of row 1 and of every so many rows after it, `highest` the last key of the
    whole range.
    """

    marks: tuple[tuple[int, Mark], ...] = ()
    highest: Mark | None = None

    @property
    def lowest(self) -> Mark | None:
        """Return the first key of the range."""
        return next((mark for number, mark in self.marks if number == 1), None)

    @property
    def seen_rows(self) -> int:
        """Return how many rows there are at least."""
        return max((number for number, _ in self.marks), default=0)

    def mark_at(self, number: int) -> Mark | None:
        """Return the key of the row of that number, None where there are fewer rows."""
        return next((mark for found, mark in self.marks if found == number), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One range to read, as a whole or by several connections at once.

    `with_nulls` adds the rows that lack the key; `at_once` reads all of it in one query.
    """

    ranges: tuple[Range, ...]
    with_nulls: bool = False
    at_once: bool = False


def step_of(rows: int, partitions: int) -> int:
    """Return how many rows apart the marks of a survey shall be."""
    return max(1, rows // (_MARKS_PER_PARTITION * partitions))


def cuts_of(survey: Survey, *, below: int, partitions: int) -> tuple[Mark, ...]:
    """Choose the marks that cut the rows before a number into parts of about the same size."""
    marks = [mark for number, mark in survey.marks if 1 < number < below]
    places = (round(part * (len(marks) + 1) / partitions) for part in range(1, partitions))
    chosen = [marks[place - 1] for place in places if 1 <= place <= len(marks)]
    return tuple(dict.fromkeys(chosen))


def share_one_value(marks: Sequence[tuple[int, Mark]]) -> bool:
    """Say whether so many rows share one value that a slice cannot be cut between them."""
    return len(marks) > _MARKS_PER_PARTITION and len({mark for _, mark in marks}) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far a survey looks: the first `rows` of a range, a mark every `step` of them.

    The highest key is looked for in `top`, if at all.
    """

    limits: Range
    top: Range | None
    rows: int
    step: int
