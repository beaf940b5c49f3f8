"""One row per key: which records of a key act on its row, and what they make of it.

The same records act as if each came in a batch of its own. With `dedupe_by` a record that is older
than its row at its turn does nothing; one that does not carry the column always acts. A deletion
that removes the row ends all that was known of the key. What does nothing still tells that the
source has the row, in the version that the record is of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window

from singer_spark.names import literal, quote
from singer_spark.types import to_ddl
from target_spark_delta.intake.segments import CARRIED, FEW_VALUES, LINE_NUMBER, KeyFacts, Range
from target_spark_delta.intake.validation import DELETED_AT
from target_spark_delta.methods.batch import Batch
from target_spark_delta.rows.columns import TABLE_VERSION
from target_spark_delta.table.commit import lost_rows

# Of a folded row: whether some record of it is no deletion, and whether one follows a removal.
LIVES, REBORN = "\0lives", "\0reborn"
_ORDERED = (T.IntegralType, T.DecimalType, T.StringType, T.DateType, T.TimestampType)
# The value of `dedupe_by` in the table's row, where records must be compared with it.
KNOWN = "\0known"
_NEWEST, _ACTS, _KEPT = "\0newest", "\0acts", "\0kept"
# The number of the last record that removed the row, null if none did.
REMOVAL = "\0removal"


def carries(column: str) -> str:
    """Name the column that tells whether a folded row carries another."""
    return f"\0{column}"


def one_per_key(batch: Batch) -> tuple[DataFrame, KeyFacts]:
    """Return the row that counts of each key, and what is known of the keys.

    The last record counts or, with `dedupe_by`, the one with the highest value; of equals the last.
    """
    facts = facts_of(batch)
    if batch.is_partial:
        return _folded(batch), facts
    if facts.keys < facts.rows:
        return _latest(batch), facts
    return batch.rows, facts


def facts_of(batch: Batch) -> KeyFacts:
    """Return what is known of a batch's keys, noted while it was spooled or looked up now."""
    if batch.facts:
        return batch.facts
    facts = key_facts(batch.rows, batch.keys, listed=batch.options.partition_by)
    # A deletion may have been repeated for each partition that it is for.
    if facts.rows != batch.count and not batch.is_partial:
        raise lost_rows(batch.table, facts.rows, batch.count)
    return facts


def key_facts(rows: DataFrame, keys: Sequence[str], *, listed: Collection[str] = ()) -> KeyFacts:
    """Count the rows and the different keys, and find the range of each key that has an order.

    Of the columns `listed`, which have few values, every value is of use.
    """
    counts = rows.groupBy(*map(quote, keys)).agg(F.count("*").alias("\0rows"))
    columns = ordered(rows, keys)
    (total, distinct), ranges = _aggregated(counts, ["sum(`\0rows`)", "count(*)"], columns, listed)
    return KeyFacts(total or 0, distinct, ranges)


def ordered(rows: DataFrame, columns: Iterable[str]) -> list[str]:
    """Choose the columns whose values have an order that SQL's texts of them keep exactly."""
    return [name for name in columns if isinstance(rows.schema[name].dataType, _ORDERED)]


def column_ranges(
    rows: DataFrame, columns: Sequence[str], *, listed: Collection[str] = ()
) -> Mapping[str, Range]:
    """Find the range of each column."""
    return _aggregated(rows, [], columns, listed)[1] if columns else {}


def _aggregated(
    rows: DataFrame, aggregates: Sequence[str], columns: Sequence[str], listed: Collection[str]
) -> tuple[list[Any], Mapping[str, Range]]:
    """Aggregate rows, and find the ranges of columns on the way."""
    ranges = [sql for name in columns for sql in _range_sql(name, is_listed=name in listed)]
    answer = rows.selectExpr(*aggregates, *ranges).toArrow()
    numbers = [column[0].as_py() for column in answer.columns]
    found = numbers[len(aggregates) :]
    return numbers[: len(aggregates)], {
        name: _range(*found[4 * place : 4 * place + 4]) for place, name in enumerate(columns)
    }


def _range_sql(column: str, *, is_listed: bool) -> list[str]:
    name = quote(column)
    low, high = f"cast(min({name}) as string)", f"cast(max({name}) as string)"
    values = (
        f"collect_set(cast({name} as string))" if is_listed else "cast(array() as array<string>)"
    )
    return [low, high, f"count_if({name} is null)", values]


def _range(low: str | None, high: str | None, nulls: int, values: list[str]) -> Range:
    return Range(low, high, nulls, tuple(sorted(values)) if len(values) <= FEW_VALUES else ())


def _latest(batch: Batch) -> DataFrame:
    column, line = dated_by(batch), F.col(quote(LINE_NUMBER))
    order = line if column is None else F.struct(F.col(quote(column)), line)
    newest_first = Window.partitionBy(*map(quote, batch.keys)).orderBy(order.desc())
    rows = with_versions(batch, batch.rows)
    ranked = rows.withColumn("\0rank", F.row_number().over(newest_first))
    return ranked.where("`\0rank` = 1").drop("\0rank")


def _folded(batch: Batch) -> DataFrame:
    """Fold the records of each key into one row, each column from the last record that carries it.

    Beside every column that is no key stands one that tells whether any record carries it. Of a
    deletion that removes its row nothing else counts.
    """
    rows = acting_records(batch)
    keys = list(map(quote, batch.keys))
    outside = (LINE_NUMBER, CARRIED, KNOWN, REMOVAL, *batch.keys)
    folded = [name for name in rows.columns if name not in outside]
    deleted = is_deletion(rows)

    def counts(name: str) -> str:
        carried = is_carried(name, batch.always)
        return f"{carried} and not {deleted}" if batch.removes and name != DELETED_AT else carried

    values = [
        F.expr(
            f"max_by(named_struct('v', {quote(name)}), {quote(LINE_NUMBER)}) "
            f"filter (where {counts(name)})"
        ).alias(name)
        for name in folded
    ]
    grouped = rows.groupBy(*keys).agg(
        *values,
        F.expr(f"bool_or(not {deleted})").alias(LIVES),
        F.expr(f"bool_or({quote(REMOVAL)} is not null)").alias(REBORN),
    )
    return grouped.selectExpr(
        *keys,
        *(f"{quote(name)}.v as {quote(name)}" for name in folded),
        *(f"{quote(name)} is not null as {quote(carries(name))}" for name in folded),
        quote(LIVES),
        quote(REBORN),
    )


def acting_records(batch: Batch) -> DataFrame:
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
    entry = (
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
        f"aggregate(array_sort(collect_list({entry})), {start}, (state, r) -> {step}).line"
    )
    removals = rows.groupBy(*keys).agg(removal.alias(REMOVAL))
    same = " and ".join(f"t.{key} <=> s.{key}" for key in keys)
    return (
        rows.alias("t")
        .join(removals.alias("s"), F.expr(same))
        .selectExpr("t.*", f"s.{quote(REMOVAL)}")
    )
