"""A row as the JSON text of its record, and the digest of rows by that text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql import types as T

from singer_spark.names import literal, quote
from singer_spark.protocol import AT_BOOKMARK
from singer_spark.types import to_ddl
from tap_spark_source.plan.read_plan import DELETED_AT, ReadPlan

_OPTIONS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSxxx",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "dateFormat": "yyyy-MM-dd",
    "ignoreNullFields": "false",
}
_DATED = (T.DateType, T.TimestampType, T.TimestampNTZType)


def record_json(fields: Iterable[T.StructField], *, singer_decimal: bool) -> str:
    """Return the Spark SQL of a record with these columns."""
    columns = ", ".join(record_columns(fields, singer_decimal=singer_decimal))
    options = ", ".join(f"{literal(key)}, {literal(value)}" for key, value in _OPTIONS.items())
    return f"to_json(struct({columns}), map({options}))"


def record_columns(fields: Iterable[T.StructField], *, singer_decimal: bool) -> list[str]:
    """Return the Spark SQL of the columns of a record, each under its own name."""
    columns = []
    for one in fields:
        wanted, name = _record_type(one.dataType, singer_decimal), quote(one.name)
        is_same = wanted == one.dataType
        columns.append(name if is_same else f"cast({name} as {to_ddl(wanted)}) as {name}")
    return columns


def _record_type(datatype: T.DataType, singer_decimal: bool) -> T.DataType:
    """Return the type whose JSON is what the schema promises."""
    if isinstance(datatype, T.ArrayType):
        return T.ArrayType(
            _record_type(datatype.elementType, singer_decimal), datatype.containsNull
        )
    if isinstance(datatype, T.MapType):
        # As a name in JSON Spark writes a date or a time as a bare count.
        key = T.StringType() if isinstance(datatype.keyType, _DATED) else datatype.keyType
        value = _record_type(datatype.valueType, singer_decimal)
        return T.MapType(key, value, datatype.valueContainsNull)
    if isinstance(datatype, T.StructType):
        fields = (
            T.StructField(one.name, _record_type(one.dataType, singer_decimal), one.nullable)
            for one in datatype.fields
        )
        return T.StructType(list(fields))
    as_text = isinstance(datatype, (T.TimeType, T.VariantType, T.NullType)) or (
        singer_decimal and isinstance(datatype, T.DecimalType)
    )
    return T.StringType() if as_text else datatype


# The columns of the rows that will be read again, and of those below the bookmark.
REREAD, BELOW = "__singer_spark_again", "__singer_spark_below"
_FORM = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDigest:
    """Rows in no order: how many, and the sum of their hashes, which equal rows do not cancel."""

    number: int = 0
    total: int = 0

    def __add__(self, other: RowDigest) -> RowDigest:
        return RowDigest(number=self.number + other.number, total=self.total + other.total)

    def to_dict(self, plan: ReadPlan) -> dict[str, Any]:
        """Return the member of a bookmark; what is read, and how, is a part of its digest."""
        text = f"{_fingerprint(plan)} {self.total}"
        return {"rows": self.number, "digest": hashlib.sha256(text.encode()).hexdigest()[:32]}

    @staticmethod
    def sums(column: str) -> list[Column]:
        """Return number and sum of the hashes in a column, as aggregates."""
        total = F.sum(F.col(column).cast("decimal(38,0)"))
        return [F.count(column).alias(f"{column}_rows"), total.alias(f"{column}_total")]

    @classmethod
    def of(cls, found: Mapping[str, Any], column: str) -> RowDigest:
        """Read what `sums` gives."""
        return cls(number=int(found[f"{column}_rows"]), total=int(found[f"{column}_total"] or 0))


@dataclass(slots=True, kw_only=True)
class RowWatch:
    """Adds up the rows that meet a condition, while chunks of one window are written.

    The column holds their hashes, or 1 where they are only counted, and NULL for all others; it
    goes before the rows leave. `rows` is None once rows were sent that nobody has looked at.
    """

    column: str
    plan: ReadPlan
    condition: str
    is_hashed: bool = True
    rows: RowDigest | None = field(default_factory=RowDigest)

    def value_in(self, frame: DataFrame) -> str:
        """Return the Spark SQL of the column of the rows of a frame."""
        value = row_hash(frame.schema.fields, self.plan) if self.is_hashed else "1"
        return f"if({self.condition}, {value}, null) as {self.column}"

    def add(self, found: Mapping[str, Any]) -> None:
        """Add what was observed of a chunk."""
        self.rows = self.rows and self.rows + RowDigest.of(found, self.column)


def known_rows(bookmark: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a bookmark says of the rows at it, if it says so in our form."""
    found = bookmark.get(AT_BOOKMARK)
    return dict(found) if isinstance(found, Mapping) and type(found.get("rows")) is int else None


def without_known_rows(bookmark: Mapping[str, Any]) -> dict[str, Any]:
    """Return a bookmark that says nothing of the rows at it."""
    return {name: value for name, value in bookmark.items() if name != AT_BOOKMARK}


def row_hash(fields: Iterable[T.StructField], plan: ReadPlan) -> str:
    """Return the Spark SQL of the hash of a row, by the text of its record."""
    moving = {one.name for one in plan.columns if "current_timestamp()" in (one.parse or "")}
    kept = [one for one in fields if one.name not in moving]
    text = record_json(kept, singer_decimal=plan.singer_decimal)
    # When a deletion was seen is new in each read; whether there is one is not.
    return f"xxhash64({text}, {DELETED_AT} is null)" if moving else f"xxhash64({text})"


def observed(frame: DataFrame, observation: Observation, watches: Sequence[RowWatch]) -> DataFrame:
    """Have the rows of a frame counted as they are written, and watched in columns that go then."""
    wanted = [expression for watch in watches for expression in RowDigest.sums(watch.column)]
    found = frame.observe(observation, F.count(F.lit(1)).alias("rows"), *wanted)
    return found.drop(*(watch.column for watch in watches))


def _fingerprint(plan: ReadPlan) -> str:
    """Return all that decides which values are read; another read has another digest."""
    parts = ("name", "datatype", "native", "read", "parse", "sql", "origin")
    columns = [[getattr(one, part) for part in parts] for one in plan.columns]
    window = plan.window
    rules = [window.lookback, window.null_keys] if window else []
    schemas = [dict(one.schema) for one in plan.columns]
    key = [plan.key.name if plan.key else None, list(plan.key_properties)]
    known = [_FORM, plan.table.label, columns, schemas, key, rules, plan.where]
    return json.dumps([*known, plan.singer_decimal], sort_keys=True, default=str)
