"""How a range of keys is cut into slices, and a slice into parallel reads. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tap_spark_source.plan.key import Mark, Range

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
