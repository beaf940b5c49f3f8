"""A batch: typed rows of one segment on their way into a table, and what a run knows of them.

Of the rows that it changes those below the tap's bookmark have come late, which is counted here. A
tap with a `lookback` sends again what lies below its bookmark, and most of it is known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from singer_spark.names import literal, quote
from singer_spark.protocol import Scope
from singer_spark.types import to_ddl
from target_spark_delta.intake.segments import KeyFacts, Range
from target_spark_delta.stream_options import StreamSettings
from target_spark_delta.streams.destination import Destination
from target_spark_delta.table.commit import Late
from target_spark_delta.table.table import Table

_TIMES = (T.TimestampType, T.TimestampNTZType, T.DateType)


@dataclass(frozen=True, slots=True)
class Bookmark:
    """The value of a column below which the tap reads once more."""

    column: str
    value: Any


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
    answer = rows.where(f"{column} < {bound}").selectExpr("count(*)", f"max({lateness})").toArrow()
    count, worst = (values[0].as_py() for values in answer.columns)
    return Late(count, None if worst is None else worst / 1e6)


@dataclass(slots=True)
class Staged:
    """Rows of one schema that wait for the end of their stream."""

    place: Table  # where they are
    schema: T.StructType  # their columns in the table to be
    columns: tuple[str, ...] = ()  # those of them that the rows carry
    rows: int = 0  # how many there are
    is_partial: bool = False  # whether some carry only some of their columns
    removes: bool = False  # whether some are deletions that remove what they name


@dataclass(frozen=True, slots=True)
class Held:
    """Few rows that wait in memory; their types, because Arrow does not know every one."""

    table: pa.Table
    schema: T.StructType

    @property
    def rows(self) -> int:
        """Count them."""
        return int(self.table.num_rows)


@dataclass(frozen=True, slots=True)
class FirstLook:
    """A table as a run has found it: its version and its columns, or nothing where it was not."""

    version: int | None = None
    schema: T.StructType | None = None


@dataclass(slots=True)
class Progress:
    """What one run remembers of a stream between its batches.

    Rows of earlier batches of the run must survive the later ones, so each method that replaces
    a part of the table notes here which parts hold nothing but rows of this run. What partitions
    the table is unknown until the first batch has asked. `made_table` tells that the run has made
    the table, which had no rows before, `has_claimed` that no earlier run can commit to it. The
    overlap is what a run has sent of the rows that the table may have had when it began. `key` is
    what the rows of the last batch were merged by. `has_changed` tells that a batch has changed
    the table, `carried` is the STATE that the last such commit carries. `has_table` tells that the
    table was there or was made, `versions` are those that the run's batches made, by which the
    table is known again. `set_aside` counts the records that went to quarantine. `version` is
    one to activate at the end of the stream.
    """

    partitions: set[tuple[str | None, ...]] = field(default_factory=set)
    range: Range | None = None
    is_emptied: bool = False
    is_ours: bool = False
    staged: list[Staged] = field(default_factory=list)
    first_look: FirstLook | None = None
    overlap: list[Staged | Held] = field(default_factory=list)
    keys: list[Staged] = field(default_factory=list)
    lacks_key: bool = False
    key: tuple[str, ...] | None = None
    partition_columns: frozenset[str] | None = None
    made_table: bool = False
    has_claimed: bool = False
    has_changed: bool = False
    carried: Any = None
    has_table: bool = False
    versions: set[int] = field(default_factory=set)
    set_aside: int = 0
    version: int | None = None

    @property
    def waiting(self) -> list[Staged]:
        """Return what is staged."""
        kept = (one for one in self.overlap if isinstance(one, Staged))
        return [*self.staged, *self.keys, *kept]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Typed rows, in any order, that a load method writes."""

    rows: DataFrame  # the rows, with their line numbers and the properties that they carry
    count: int  # how many there are
    columns: Sequence[str]  # the columns to write
    always: Collection[str]  # the columns that each row carries even where it is partial
    keys: Sequence[str]  # the key columns; none where the stream has no key
    table: Table  # where the rows go
    schema: T.StructType  # the table's schema
    skip_unchanged: bool  # whether rows that are equal are left alone
    bookmark: Bookmark | None  # the tap's bookmark, where rows below it are sent again
    options: StreamSettings  # what the user chose for the stream
    progress: Progress  # what the run remembers of the stream
    staged_table: Callable[[int], Table]  # gives places, by number, where rows can wait
    is_new: bool = False  # whether the table was made for this batch and has no rows
    is_partial: bool = False  # whether some rows carry only some of their columns
    removes: bool = False  # whether some rows are deletions that remove what they name
    facts: KeyFacts | None = None  # what is known of the keys, if spooling has noted it
    scope: Scope | None = None  # what the tap reads of its table in this run, where it says
    compares_by: str | None = None  # the column by which appended rows are looked for in the table
    removes_at_end: bool = False  # whether what the run does not send of a part goes at its end
    scratch: Path | None = None  # a folder that Spark shares with this process, if there is one


@dataclass(frozen=True, slots=True)
class Work:
    """A stream to load, and what the run remembers of it."""

    destination: Destination
    progress: Progress
    bookmark: Bookmark | None = None
