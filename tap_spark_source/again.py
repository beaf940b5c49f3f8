"""The rows that the next window would read again if nothing changed: how many, and a digest.

A bookmark holds both as `at_bookmark`, made of the rows that were sent. Where the source shows just
these and nothing beyond, a run has nothing to send. It only saves work: what is unknown is dropped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from singer_spark.protocol import AT_BOOKMARK
from tap_spark_source.plan import DELETED_AT, ReadPlan
from tap_spark_source.wire import record_json

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation
    from pyspark.sql import types as T

# The hash of a row that will be read again; NULL for all others.
HASH = "__singer_spark_again"
# Not NULL where a row lies below the bookmark.
BELOW = "__singer_spark_below"
_FORM = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows in no order: how many, and the sum of their hashes, which equal rows do not cancel."""

    number: int = 0
    total: int = 0

    def __add__(self, other: Rows) -> Rows:
        return Rows(number=self.number + other.number, total=self.total + other.total)

    def to_dict(self, plan: ReadPlan) -> dict[str, Any]:
        """Return the member of a bookmark; what is read, and how, is a part of its digest."""
        told = f"{_fingerprint(plan)} {self.total}"
        return {"rows": self.number, "digest": hashlib.sha256(told.encode()).hexdigest()[:32]}

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Rows:
        """Read what `sums` gives."""
        return cls(number=int(found["again"]), total=int(found["total"] or 0))


@dataclass(slots=True, kw_only=True)
class Again:
    """Adds up what the pieces of one window send of the rows that the next one reads again."""

    plan: ReadPlan
    condition: str
    rows: Rows | None = field(default_factory=Rows)

    column: ClassVar[str] = HASH

    def value_in(self, frame: DataFrame) -> str:
        """Return the Spark SQL of the column HASH of the rows of a frame."""
        return f"if({self.condition}, {row_hash(frame.schema.fields, self.plan)}, null) as {HASH}"

    def sums(self) -> list[Column]:
        """Return what is observed of the column."""
        return sums()

    def add(self, found: Mapping[str, Any]) -> None:
        """Add what was observed of a piece."""
        self.rows = None if self.rows is None else self.rows + Rows.of(found)

    def lose(self) -> None:
        """Say that rows were sent which nobody has looked at."""
        self.rows = None


@dataclass(slots=True, kw_only=True)
class Below:
    """Counts what a piece sends of the rows below the bookmark."""

    condition: str
    rows: int = 0

    column: ClassVar[str] = BELOW

    def value_in(self, frame: DataFrame) -> str:
        """Return the Spark SQL of the column BELOW of the rows of a frame."""
        del frame
        return f"if({self.condition}, 1, null) as {BELOW}"

    def sums(self) -> list[Column]:
        """Return what is observed of the column."""
        from pyspark.sql import functions as F

        return [F.count(BELOW).alias("below")]

    def add(self, found: Mapping[str, Any]) -> None:
        """Add what was observed of a piece."""
        self.rows += int(found["below"])

    def lose(self) -> None:
        """Leave out rows that nobody has looked at."""


# Both look at the rows of a piece while they are written.
Watch: TypeAlias = Again | Below


def expected(bookmark: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a bookmark says of the rows at it, if it says so in our form."""
    found = bookmark.get(AT_BOOKMARK)
    return dict(found) if isinstance(found, Mapping) and type(found.get("rows")) is int else None


def forgotten(bookmark: Mapping[str, Any]) -> dict[str, Any]:
    """Return a bookmark that says nothing of the rows at it."""
    return {name: value for name, value in bookmark.items() if name != AT_BOOKMARK}


def row_hash(fields: Iterable[T.StructField], plan: ReadPlan) -> str:
    """Return the Spark SQL of the hash of a row, by the text of its record."""
    moving = {one.name for one in plan.columns if "current_timestamp()" in (one.parse or "")}
    kept = [one for one in fields if one.name not in moving]
    text = record_json(kept, singer_decimal=plan.singer_decimal)
    # When a deletion was seen is new in each read; whether there is one is not.
    return f"xxhash64({text}, {DELETED_AT} is null)" if moving else f"xxhash64({text})"


def sums() -> list[Column]:
    """Return number and sum of the hashes, as aggregates over the column HASH."""
    from pyspark.sql import functions as F

    total = F.sum(F.col(HASH).cast("decimal(38,0)"))
    return [F.count(HASH).alias("again"), total.alias("total")]


def observed(frame: DataFrame, observation: Observation, watches: Sequence[Watch]) -> DataFrame:
    """Have the rows of a frame counted as they are written, and watched in columns that go then."""
    from pyspark.sql import functions as F

    wanted = [expression for watch in watches for expression in watch.sums()]
    found = frame.observe(observation, F.count(F.lit(1)).alias("rows"), *wanted)
    return found.drop(*(watch.column for watch in watches))


def _fingerprint(plan: ReadPlan) -> str:
    """Return all that decides which values are read; another read has another digest."""
    columns = [
        [one.name, one.datatype, one.native, one.read, one.parse, one.sql, one.origin]
        for one in plan.columns
    ]
    window = plan.window
    rules = [window.lookback, window.null_keys] if window else []
    schemas = [dict(one.schema) for one in plan.columns]
    key = [plan.key.name if plan.key else None, list(plan.key_properties)]
    known = [_FORM, plan.table.label, columns, schemas, key, rules, plan.where]
    return json.dumps([*known, plan.singer_decimal], sort_keys=True, default=str)
