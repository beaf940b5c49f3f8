"""The only module that commits rows."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.storagelevel import StorageLevel

from singer_spark.errors import TransientError
from singer_spark.names import literal, quote
from singer_spark.session import SPARK_ERRORS
from target_spark_delta.frame import TABLE_VERSION
from target_spark_delta.spool import Range
from target_spark_delta.table import Table
from target_spark_delta.validation import DELETED_AT

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_MATERIALIZE_SOURCE = "spark.databricks.delta.merge.materializeSource"
_ATTEMPTS = 5
_JSON_OPTIONS = (
    "map('timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\", "
    "'timestampNTZFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\")"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What a commit says of itself, in its `userMetadata`."""

    pipeline: str | None
    run_id: str
    stream: str
    batch: int | None = None
    rows: int | None = None
    state: Any = None

    def to_json(self) -> str:
        """Write it as JSON."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__})


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert:
    """A batch with one row per key.

    Args:
        rows: The rows; where `folded`, each column that is no key is a struct, null if not carried.
        keys: The key columns.
        columns: The columns to write.
        types: The table's schema.
        ranges: The least and the greatest value of each key that has an order, and its nulls.
        count: How many rows there are.
        folded: Whether records may carry only some of their columns.
        delete: Whether rows with `_sdc_deleted_at` are removed.
        skip_unchanged: Whether rows that are equal are left alone.
    """

    rows: DataFrame
    keys: Sequence[str]
    columns: Sequence[str]
    types: T.StructType
    ranges: Mapping[str, Range]
    count: int
    folded: bool
    delete: bool
    skip_unchanged: bool

    def carried(self, column: str) -> str:
        """Return SQL that says whether the row carries a column."""
        return f"s.{quote(column)} is not null" if self._is_folded(column) else "true"

    def value(self, column: str) -> str:
        """Return SQL for the value of a column in the batch."""
        name = f"s.{quote(column)}"
        return f"{name}.v" if self._is_folded(column) else name

    @property
    def deletion(self) -> str:
        """Return SQL that says whether the row is to be removed."""
        return f"{self.value(DELETED_AT)} is not null" if self.delete else "false"

    def _is_folded(self, column: str) -> bool:
        return self.folded and column not in self.keys


def describe_commits(spark: SparkSession, commit: Commit) -> None:
    """Make the session's commits carry this."""
    spark.conf.set(_USER_METADATA, commit.to_json())


def append(table: Table, rows: DataFrame) -> None:
    """Add the rows in one commit."""
    rows.write.format("delta").mode("append").save(table.path)


def upsert(spark: SparkSession, table: Table, batch: Upsert) -> bool:
    """Merge a batch by its keys in one commit; return whether there was anything to commit."""
    bounds = _key_bounds(batch)
    if not batch.folded and bounds and _insert_new(spark, table, batch, bounds):
        return True
    changed = _changed(spark, table, batch, bounds).persist(StorageLevel.DISK_ONLY)
    try:
        if changed.isEmpty():
            return False
        spark.conf.set(_MATERIALIZE_SOURCE, "auto")
        changed.createOrReplaceTempView("changed_rows")
        with_retry(table, lambda: spark.sql(_merge_sql(table, batch, bounds)))
    finally:
        changed.unpersist()
    return True


def _insert_new(spark: SparkSession, table: Table, batch: Upsert, bounds: str) -> bool:
    """Insert a batch whose range of keys the table does not have yet, in one pass over it.

    A MERGE without an update clause still loses the race against a writer of the same keys, as it
    must; what it then leaves out is found by its count, and the whole batch is merged.
    """
    if not spark.sql(f"select 1 from {table.sql} t where {bounds} limit 1").isEmpty():
        return False
    # Read once, and the same if read again: Delta need not copy the batch before the MERGE.
    spark.conf.set(_MATERIALIZE_SOURCE, "none")
    batch.rows.createOrReplaceTempView("changed_rows")
    names = ", ".join(map(quote, batch.columns))
    values = ", ".join(batch.value(name) for name in batch.columns)
    merged = with_retry(
        table,
        lambda: spark.sql(
            f"merge into {table.sql} t using changed_rows s on {_matches(batch, bounds)} "
            f"when not matched then insert ({names}) values ({values})"
        ),
    )
    inserted = merged.toArrow()["num_inserted_rows"][0].as_py()
    return bool(inserted == batch.count)


def _matches(batch: Upsert, bounds: str) -> str:
    keys = [f"t.{quote(key)} <=> s.{quote(key)}" for key in batch.keys]
    return " and ".join([*keys, *([bounds] if bounds else [])])


def _merge_sql(table: Table, batch: Upsert, bounds: str) -> str:
    settable = [name for name in batch.columns if name not in batch.keys]
    assignments = ", ".join(
        f"t.{quote(name)} = "
        + (
            f"if({batch.carried(name)}, {batch.value(name)}, t.{quote(name)})"
            if batch.folded
            else batch.value(name)
        )
        for name in settable
    )
    names = ", ".join(map(quote, batch.columns))
    values = ", ".join(batch.value(name) for name in batch.columns)
    return " ".join(
        [
            f"merge into {table.sql} t using changed_rows s on {_matches(batch, bounds)}",
            f"when matched and {batch.deletion} then delete" if batch.delete else "",
            f"when matched then update set {assignments}" if assignments else "",
            f"when not matched and not ({batch.deletion})",
            f"then insert ({names}) values ({values})",
        ]
    )


def _changed(spark: SparkSession, table: Table, batch: Upsert, bounds: str) -> DataFrame:
    """Take out what a commit would not change: a MERGE with a condition still rewrites files."""
    batch.rows.createOrReplaceTempView("batch_rows")
    matches = _matches(batch, bounds)
    kept = f"select s.* from batch_rows s where not ({batch.deletion})"
    if batch.skip_unchanged:
        same = " and ".join([matches, *(_same(batch, name) for name in _compared(batch))])
        kept = (
            f"select s.* from batch_rows s left anti join {table.sql} t on {same} "
            f"where not ({batch.deletion})"
        )
    if batch.delete:
        kept += (
            f" union all select s.* from batch_rows s left semi join {table.sql} t on {matches} "
            f"where {batch.deletion}"
        )
    return spark.sql(kept)


def _compared(batch: Upsert) -> list[str]:
    telling = {DELETED_AT, TABLE_VERSION}
    return [
        name
        for name in batch.columns
        if name not in batch.keys and (not name.startswith("_sdc_") or name in telling)
    ]


def _same(batch: Upsert, name: str) -> str:
    before, after = f"t.{quote(name)}", batch.value(name)
    types = {field.name.lower(): field.dataType for field in batch.types}
    if "map<" in types[name.lower()].simpleString():
        # Maps cannot be compared; their JSON can.
        before, after = (
            f"to_json(named_struct('v', {value}), {_JSON_OPTIONS})" for value in (before, after)
        )
    same = f"{before} <=> {after}"
    return f"(not ({batch.carried(name)}) or {same})" if batch.folded else same


def _key_bounds(batch: Upsert) -> str:
    """Return SQL that narrows the table to the batch's range of keys, so that files are skipped."""
    types = {field.name.lower(): field.dataType.simpleString() for field in batch.types}
    bounds = []
    for key, (low, high, nulls) in batch.ranges.items():
        column, datatype = f"t.{quote(key)}", types[key.lower()]
        conditions = [f"{column} is null"] if nulls else []
        if low is not None:
            conditions.append(
                f"{column} between try_cast({literal(low)} as {datatype}) "
                f"and try_cast({literal(str(high))} as {datatype})"
            )
        bounds.append(f"({' or '.join(conditions)})")
    return " and ".join(bounds)


def retire_versions(
    spark: SparkSession, table: Table, version: int, *, hard: bool, deleted_at: str
) -> None:
    """Remove or mark the rows of versions before the given one; rows without a version stay."""
    older = f"{quote(TABLE_VERSION)} < {version}"
    if hard:
        statement = f"delete from {table.sql} where {older}"
    else:
        statement = (
            f"update {table.sql} set {quote(DELETED_AT)} = timestamp {literal(deleted_at)} "
            f"where {older} and {quote(DELETED_AT)} is null"
        )
    with_retry(table, lambda: spark.sql(statement))


def with_retry(table: Table, action: Callable[[], _T]) -> _T:
    """Repeat a commit that lost a race against another writer."""
    for attempt in range(_ATTEMPTS):
        try:
            return action()
        except SPARK_ERRORS as error:
            if "DELTA_CONCURRENT" not in str(error):
                raise
            logger.warning("%s: another writer was faster, trying again", table.path)
            time.sleep(2**attempt / 4)
    raise TransientError(
        f"{table.path}: another writer commits to it all the time; run again when it has finished"
    )
