"""Rows with one row per key into a MERGE that reads and rewrites as little as it can."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from singer_spark.engine.session import SPARK_ERRORS
from singer_spark.errors import SingerSparkError
from singer_spark.names import literal, quote
from singer_spark.types import to_ddl
from target_spark_delta.intake.segments import Range
from target_spark_delta.methods.batch import Bookmark, count_late
from target_spark_delta.methods.equality import comparable, compared
from target_spark_delta.methods.per_key import carries
from target_spark_delta.rows.spark_jobs import FEW_ROWS, worked_out
from target_spark_delta.table import commit
from target_spark_delta.table.commit import Counts, Late, Tally
from target_spark_delta.table.log import last_commit
from target_spark_delta.table.races import is_lost_race, with_retry
from target_spark_delta.table.table import Table

MATERIALIZE_SOURCE = "spark.databricks.delta.merge.materializeSource"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Rows to merge, one per key.

    In the SQL here `t` is the table and `s` the rows.
    """

    # The rows; where `folded`, each column that is no key has one beside it that tells whether the
    # row carries it.
    rows: DataFrame
    count: int  # how many rows there are
    keys: Sequence[str]  # the key columns
    columns: Sequence[str]  # the columns to write
    schema: T.StructType  # the table's schema
    # The least and the greatest value of each key that has an order, and its nulls.
    ranges: Mapping[str, Range]
    folded: bool  # whether rows may carry only some of their columns
    skip_unchanged: bool  # whether rows that are equal are left alone
    removed: str | None = None  # SQL that says whether the row is to be removed, None where none is
    # A column; a row with a lower value never overwrites one with a higher.
    newest_by: str | None = None
    # A column that never becomes lower, and rises though nothing else of a row changes.
    rising: str | None = None
    # SQL that narrows the search for matching rows; what it promises is its author's.
    predicate: str | None = None
    bookmark: Bookmark | None = None  # the tap's bookmark, where rows below it are to be counted
    # SQL that says whether a row begins anew, so that the table's row of its key leaves nothing
    # behind, be it newer or be it in columns that the row does not carry.
    afresh: str = "false"
    # SQL that says whether a row is not inserted where the table has none of its key.
    left_out: str = "false"
    # Whether `count` is the number of rows just as they came, so that fewer are lost.
    is_counted: bool = False
    # Counts the records that the rows are made of, and how many came, where these are more.
    came: tuple[Tally, int] | None = None
    scratch: Path | None = None  # a folder that Spark shares with this process, if there is one

    @property
    def settable(self) -> list[str]:
        """Name the columns that are no keys."""
        return [name for name in self.columns if name not in self.keys]

    @property
    def cleared(self) -> list[str]:
        """Name the columns of the table that a row which begins anew has no value for."""
        known = {name.lower() for name in self.columns}
        names = [] if self.afresh == "false" else self.schema.names
        return [name for name in names if name.lower() not in known]

    @property
    def matches(self) -> str:
        """Return SQL that says whether a row of the table and one to merge have the same key."""
        narrowed = [f"({self.predicate})"] if self.predicate else []
        return " and ".join([same_key(self.keys), *narrowed, *filter(None, [self.bounds])])

    @property
    def bounds(self) -> str:
        """Return SQL that narrows the table to the range of the keys, so that files are skipped."""
        return within(self.ranges, self.schema)

    @property
    def outdated(self) -> str:
        """Return SQL that says whether the table's row is newer than the one to merge."""
        if self.newest_by is None:
            return "false"
        before, after = f"t.{quote(self.newest_by)}", f"s.{quote(self.newest_by)}"
        newer = f"({before} is not null and coalesce({before} > {after}, true))"
        if self.folded:
            newer = f"(s.{quote(carries(self.newest_by))} and not {self.afresh} and {newer})"
        return newer

    @property
    def rises(self) -> str:
        """Return SQL that says whether the rising column is higher in the row to merge."""
        if self.rising is None:
            return "false"
        before, after = f"t.{quote(self.rising)}", f"s.{quote(self.rising)}"
        return f"coalesce({after} > {before}, {after} is not null)"


def merge(spark: SparkSession, table: Table, changes: Changes) -> Counts:
    """Merge rows by their keys in one commit, or in none if the table has them all."""
    inserted = _insert_new(spark, table, changes) if _may_all_be_new(changes) else Counts()
    if inserted and inserted.inserted == changes.count:
        # The table had no rows in that range, so those that it has now are the new ones.
        added = spark.sql(f"select * from {table.sql} t where {changes.bounds}")
        return replace(inserted, late=_late(added, changes))
    # Anew after a lost race, whose winner may have changed what was found to be the same.
    if not inserted:
        return with_retry(table, lambda: merge_changed(spark, table, changes))
    version = last_commit(spark)
    try:
        merged = with_retry(table, lambda: merge_changed(spark, table, changes))
    except (SingerSparkError, *SPARK_ERRORS):
        # Its STATE speaks of rows that it left out.
        if version is not None:
            commit.take_back(spark, table, version)
        raise
    known = max(merged.unchanged - inserted.inserted, 0)
    return replace(merged, inserted=merged.inserted + inserted.inserted, unchanged=known)


def merge_changed(spark: SparkSession, table: Table, changes: Changes) -> Counts:
    """Find the rows that a commit would change, and merge them; a lost race is not repeated."""
    tally = Tally()
    # All of them, not only until the first: what was read is counted on the way.
    with worked_out(_changed(spark, table, changes, tally), changes.scratch) as (changed, count):
        if changes.is_counted:
            tally.check(table, changes.count)
        if changes.came:
            records, number = changes.came
            records.check(table, number)
        # Before the commit, after which Spark would read the kept rows anew and find none changed.
        late = _late(changed, changes)
        known = changes.count - count if changes.is_counted else 0
        if not count:
            return Counts(late=late, unchanged=known)
        # Files are the same however often they are read, so that Delta need not copy the rows.
        spark.conf.set(MATERIALIZE_SOURCE, "none" if changes.scratch else "auto")
        changed.createOrReplaceTempView("changed_rows")
        statement = _merge_sql(table, changes)
        # What is not inserted is not changed either.
        known_count = count if changes.left_out == "false" else None
        counts = commit.execute(spark, table, statement, count=known_count, repeats=False)
        return replace(counts, late=late, unchanged=known)


def _may_all_be_new(changes: Changes) -> bool:
    """Say whether it pays to ask if the table has none of the rows; of a few it does not."""
    is_plain = not changes.folded and changes.removed is None and bool(changes.bounds)
    return is_plain and changes.count > FEW_ROWS


def _late(changed: DataFrame, changes: Changes) -> Late | None:
    """Count the late ones of the changed rows; where the others are among them, nobody can tell."""
    bookmark = changes.bookmark
    return count_late(changed, bookmark) if bookmark and changes.skip_unchanged else None


def _insert_new(spark: SparkSession, table: Table, changes: Changes) -> Counts:
    """Insert rows whose range of keys the table does not have yet, in one pass over them.

    A MERGE without an update clause still loses the race against a writer of the same keys, as it
    must; then all rows are merged. What it leaves out because of one before is found by its count.
    """
    if not spark.sql(f"select 1 from {table.sql} t where {changes.bounds} limit 1").isEmpty():
        return Counts()
    # Read once, and the same if read again: Delta need not copy the rows before the MERGE.
    spark.conf.set(MATERIALIZE_SOURCE, "none")
    changes.rows.createOrReplaceTempView("changed_rows")
    try:
        return commit.execute(
            spark,
            table,
            f"merge into {table.sql} t using changed_rows s on {changes.matches} "
            f"when not matched then insert {_inserted(changes)}",
            count=changes.count if changes.is_counted else None,
            repeats=False,
        )
    except SPARK_ERRORS as error:
        if not is_lost_race(table, error):
            raise
        return Counts()


def _merge_sql(table: Table, changes: Changes) -> str:
    assignments = ", ".join(
        [
            *(_assignment(changes, name) for name in changes.settable),
            *(
                f"t.{quote(name)} = if({changes.afresh}, null, t.{quote(name)})"
                for name in changes.cleared
            ),
        ]
    )
    removed, matched = changes.removed, "when matched"
    if changes.newest_by:
        matched += f" and not {changes.outdated}"
    return " ".join(
        [
            f"merge into {table.sql} t using changed_rows s on {changes.matches}",
            f"when matched and {removed} and not {changes.outdated} then delete" if removed else "",
            f"{matched} then update set {assignments}" if assignments else "",
            _raise_sql(changes),
            f"when not matched and not ({removed or 'false'}) and not ({changes.left_out})",
            f"then insert {_inserted(changes)}",
        ]
    )


def _raise_sql(changes: Changes) -> str:
    if changes.rising is None:
        return ""
    name = quote(changes.rising)
    return f"when matched and {changes.rises} then update set t.{name} = s.{name}"


def _inserted(changes: Changes) -> str:
    names = ", ".join(map(quote, changes.columns))
    values = ", ".join(f"s.{quote(name)}" for name in changes.columns)
    return f"({names}) values ({values})"


def _assignment(changes: Changes, name: str) -> str:
    before, after = f"t.{quote(name)}", f"s.{quote(name)}"
    if name == changes.rising:
        after = f"if({changes.rises} or {changes.afresh}, {after}, {before})"
    elif changes.folded:
        after = f"if(s.{quote(carries(name))} or {changes.afresh}, {after}, {before})"
    return f"{before} = {after}"


def _changed(spark: SparkSession, table: Table, changes: Changes, tally: Tally) -> DataFrame:
    """Take out what a commit would not change: a MERGE with a condition still rewrites files."""
    matches, removed, outdated = changes.matches, changes.removed, changes.outdated
    needless = f"({outdated} and not {changes.rises})" if changes.rising else outdated
    if changes.skip_unchanged:
        needless = f"({_unchanged(changes)} or {needless})"
    # With a removal the rows stand in the query twice. Behind a view Spark Connect counts none.
    rows = (tally.of(changes.rows) if removed is None else changes.rows).alias("s")
    there = table.rows(spark).alias("t")
    kept = rows
    if needless != "false":
        kept = rows.join(there, F.expr(f"{matches} and {needless}"), "left_anti")
    if removed is None:
        return kept
    found = rows.join(there, F.expr(f"{matches} and not {outdated}"), "left_semi")
    return kept.where(f"not ({removed})").unionAll(found.where(removed))


def _unchanged(changes: Changes) -> str:
    same = [_same(changes, name) for name in compared(changes.settable)]
    cleared = [f"(not {changes.afresh} or t.{quote(name)} is null)" for name in changes.cleared]
    return f"({' and '.join([*same, *cleared]) or 'true'})"


def _same(changes: Changes, name: str) -> str:
    types = {field.name.lower(): field.dataType for field in changes.schema}
    before, after = (comparable(f"{side}.{quote(name)}", types[name.lower()]) for side in "ts")
    same = f"{before} <=> {after}"
    if name == changes.rising:
        return f"(not ({changes.rises} or {changes.afresh}) or {same})"
    if changes.folded:
        return f"(not (s.{quote(carries(name))} or {changes.afresh}) or {same})"
    return same


def between(column: str, datatype: str, values: Range) -> str:
    """Return SQL that says whether a column has one of a range of values."""
    low, high, nulls, few = values
    conditions = [f"{column} is null"] if nulls else []
    # Not IN, of which Delta takes the ends only to choose files by their statistics.
    conditions += [f"{column} = try_cast({literal(value)} as {datatype})" for value in few]
    if low is not None and not few:
        # Delta cannot replace partitions by a BETWEEN, which Spark's parser leaves unresolved.
        conditions.append(
            f"({column} >= try_cast({literal(low)} as {datatype}) "
            f"and {column} <= try_cast({literal(str(high))} as {datatype}))"
        )
    return f"({' or '.join(conditions) or 'false'})"


def same_key(keys: Iterable[str]) -> str:
    """Return SQL that says whether a row of the table and another have the same key."""
    return " and ".join(f"t.{quote(key)} <=> s.{quote(key)}" for key in keys)


def within(ranges: Mapping[str, Range], schema: T.StructType) -> str:
    """Return SQL that says whether a row of the table has values in these ranges."""
    types = {field.name.lower(): to_ddl(field.dataType) for field in schema}
    return " and ".join(
        between(f"t.{quote(key)}", types[key.lower()], values) for key, values in ranges.items()
    )
