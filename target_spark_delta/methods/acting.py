"""Which records of a key act on its row: the same ones as if each came in a batch of its own.

With `dedupe_by` a record that is older than its row at its turn does nothing; one that does not
carry the column always acts. A deletion that removes the row ends all that was known of the key.
What does nothing still tells that the source has the row, in the version that the record is of.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from singer_spark.names import literal, quote
from singer_spark.types import to_ddl
from target_spark_delta.frame import TABLE_VERSION
from target_spark_delta.methods.batch import Batch
from target_spark_delta.spool import CARRIED, LINE_NUMBER
from target_spark_delta.validation import DELETED_AT

# The value of `dedupe_by` in the table's row, where records must be compared with it.
KNOWN = "\0known"
_NEWEST, _ACTS, _KEPT = "\0newest", "\0acts", "\0kept"
# The number of the last record that removed the row, null if none did.
REMOVAL = "\0removal"


def acting(batch: Batch) -> DataFrame:
    """Leave out the records that do nothing, and note in each which removal it follows."""
    line, removal = quote(LINE_NUMBER), quote(REMOVAL)
    rows = _with_removal(batch).where(f"{removal} is null or {line} >= {removal}")
    column = dated_by(batch)
    if column is None:
        return rows
    rows = with_versions(batch, rows)
    value, given = quote(column), is_carried(column, batch.always)
    keys = list(map(quote, batch.keys))
    before = Window.partitionBy(*keys).orderBy(line).rowsBetween(Window.unboundedPreceding, -1)
    newest = F.max(F.expr(f"if({given} and not {line} <=> {removal}, {value}, null)")).over(before)
    if KNOWN in rows.columns:
        newest = F.greatest(newest, F.expr(f"if({removal} is null, {quote(KNOWN)}, null)"))
    acts = f"{line} <=> {removal} or not {given} or {_is_current(value, quote(_NEWEST))}"
    judged = rows.withColumn(_NEWEST, newest).withColumn(_ACTS, F.expr(acts))
    kept = judged.withColumn(_KEPT, _is_kept(batch, judged)).where(quote(_KEPT))
    return kept.drop(_NEWEST, _ACTS, _KEPT)


def _is_kept(batch: Batch, judged: DataFrame) -> Column:
    """Choose the records that act; where none does, the last that tells of the row's version."""
    acts, of_key = F.col(quote(_ACTS)), Window.partitionBy(*map(quote, batch.keys))
    if not counts_versions(batch):
        return acts
    line = quote(LINE_NUMBER)
    last = F.max(F.expr(f"if({is_deletion(judged)}, null, {line})")).over(of_key)
    return acts | (~F.max(acts).over(of_key) & (F.col(line) == last))


def counts_versions(batch: Batch) -> bool:
    """Say whether even a record that is older than its row tells the version it was seen in."""
    is_upsert = batch.options.load_method == "upsert"
    return is_upsert and dated_by(batch) is not None and TABLE_VERSION in batch.always


def with_versions(batch: Batch, rows: DataFrame) -> DataFrame:
    """Give each record the newest version that one of its key has, rather not a deletion."""
    if not counts_versions(batch):
        return rows
    version, of_key = quote(TABLE_VERSION), Window.partitionBy(*map(quote, batch.keys))
    seen = F.max(F.expr(f"if({is_deletion(rows)}, null, {version})")).over(of_key)
    return rows.withColumn(TABLE_VERSION, F.coalesce(seen, F.max(version).over(of_key)))


def dated_by(batch: Batch) -> str | None:
    """Name the column that tells which of two records of a key is the newer one."""
    column = batch.options.dedupe_by
    return None if column in batch.keys else column


def is_carried(column: str, always: Collection[str]) -> str:
    """Return SQL that says whether a record carries a column."""
    if column in always:
        return "true"
    carried = quote(CARRIED)
    return f"({carried} is null or array_contains({carried}, {literal(column)}))"


def is_deletion(rows: DataFrame) -> str:
    """Return SQL that says whether a record is a deletion."""
    return f"{quote(DELETED_AT)} is not null" if DELETED_AT in rows.columns else "false"


def _is_current(value: str, newest: str) -> str:
    """Return SQL that says whether a value is not lower than another; null is the lowest."""
    return f"coalesce({value} >= {newest}, {newest} is null)"


def _kind(rows: DataFrame, column: str) -> str:
    return to_ddl(rows.schema[column].dataType)


def _with_removal(batch: Batch) -> DataFrame:
    rows = batch.rows
    if not batch.removes:
        return rows.withColumn(REMOVAL, F.expr(f"cast(null as {_kind(rows, LINE_NUMBER)})"))
    if dated_by(batch) is not None:
        return _with_removal_in_time(batch)
    of_key = Window.partitionBy(*map(quote, batch.keys))
    deletions = F.expr(f"if({is_deletion(rows)}, {quote(LINE_NUMBER)}, null)")
    return rows.withColumn(REMOVAL, F.max(deletions).over(of_key))


def _with_removal_in_time(batch: Batch) -> DataFrame:
    """Go through the records of each key in their order, since one removal makes way for others."""
    rows, column = batch.rows, dated_by(batch) or ""
    keys = list(map(quote, batch.keys))
    told = (
        f"named_struct('line', {quote(LINE_NUMBER)}, 'given', {is_carried(column, batch.always)}, "
        f"'value', {quote(column)}, 'deleted', {is_deletion(rows)})"
    )
    known = f"max({quote(KNOWN)})" if KNOWN in rows.columns else "null"
    start = (
        f"named_struct('newest', cast({known} as {_kind(rows, column)}), "
        f"'line', cast(null as {_kind(rows, LINE_NUMBER)}))"
    )
    step = (
        "named_struct("
        "'newest', if(r.deleted, null, if(r.given, r.value, state.newest)), "
        "'line', if(r.deleted, r.line, state.line))"
    )
    step = f"if(not r.given or {_is_current('r.value', 'state.newest')}, {step}, state)"
    removal = F.expr(
        f"aggregate(array_sort(collect_list({told})), {start}, (state, r) -> {step}).line"
    )
    removals = rows.groupBy(*keys).agg(removal.alias(REMOVAL))
    same = " and ".join(f"t.{key} <=> s.{key}" for key in keys)
    return (
        rows.alias("t")
        .join(removals.alias("s"), F.expr(same))
        .selectExpr("t.*", f"s.{quote(REMOVAL)}")
    )
