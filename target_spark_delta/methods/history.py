"""scd2: every version of a row, with the time from which and to which it was valid.

The versions of the keys in a batch are read, the records are put among them by their time, and the
chain is linked anew: so a late record finds its place, one that repeats its predecessor makes no
version, and a deletion closes the version before it.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from singer_spark.names import literal, quote
from singer_spark.types import to_ddl
from target_spark_delta.intake.segments import LINE_NUMBER, KeyFacts
from target_spark_delta.intake.validation import DELETED_AT
from target_spark_delta.methods.batch import Batch, count_late
from target_spark_delta.methods.equality import comparable, compared
from target_spark_delta.methods.merge import Changes, merge_changed, same_key, within
from target_spark_delta.methods.per_key import facts_of
from target_spark_delta.rows.columns import (
    HISTORY_COLUMNS,
    HISTORY_TIMES,
    IS_CURRENT,
    TABLE_VERSION,
    VALID_FROM,
    VALID_TO,
)
from target_spark_delta.rows.spark_jobs import kept
from target_spark_delta.table import commit
from target_spark_delta.table.commit import Counts, Late, Tally
from target_spark_delta.table.races import with_retry
from target_spark_delta.table.table import Table

_CLOSES, _ORDER, _SAME, _ISLAND, _REMOVED = "\0closes", "\0order", "\0same", "\0island", "\0removed"
_KNOWN, _LAST, _BEGINS = "\0known", "\0last", "\0begins"
# When a deletion ends a version that begins no earlier than the deletion says it has happened.
_LATER = "\0later"


def write(spark: SparkSession, batch: Batch) -> Counts:
    """Link the records of the batch into the history of their keys."""
    facts = facts_of(batch)
    # Anew after a lost race, whose winner may have added versions.
    return with_retry(batch.table, lambda: _link(spark, batch, facts))


def _link(spark: SparkSession, batch: Batch, facts: KeyFacts) -> Counts:
    known, tally = _versions(spark, batch, facts), Tally()
    counted = replace(batch, rows=tally.of(batch.rows))
    events = known.unionByName(_events(counted), allowMissingColumns=True)
    events = _behind_versions(batch, events)
    if TABLE_VERSION in batch.always:
        events = _reopened(batch, events)
    with kept(_linked(batch, events)) as linked:
        count = linked.count()
        tally.check(batch.table, batch.count)
        if batch.is_new:
            return commit.append(batch.table, linked, count)
        late = _late(batch, known, linked)
        counts = merge_changed(spark, batch.table, _changes(batch, facts, known, linked))
        return replace(counts, late=late)


def close_versions(spark: SparkSession, table: Table, version: int, now: str) -> Counts:
    """Close what is current and was last seen in an older version of the stream."""
    kind = to_ddl(table.rows(spark).schema[VALID_FROM].dataType)
    closed = f"cast(timestamp {literal(now)} as {kind})"
    return commit.execute(
        spark,
        table,
        f"update {table.sql} set {VALID_TO} = greatest({VALID_FROM}, {closed}), "
        f"{IS_CURRENT} = false where {quote(TABLE_VERSION)} < {version} and {IS_CURRENT}",
    )


def _versions(spark: SparkSession, batch: Batch, facts: KeyFacts) -> DataFrame:
    """Return what the table knows of the keys, as events: versions that begin and that end."""
    batch.rows.createOrReplaceTempView("event_rows")
    matches = f"{same_key(batch.keys)} and {within(facts.ranges, batch.schema) or 'true'}"
    versions = spark.sql(
        f"select t.* from {batch.table.sql} t left semi join event_rows s on {matches}"
    )
    begun = versions.drop(VALID_TO, IS_CURRENT)
    ended = versions.where(f"{VALID_TO} is not null").select(
        *map(quote, batch.keys), F.col(VALID_TO).alias(VALID_FROM)
    )
    # Where one version ends as the next begins, its end says nothing.
    return _as_events(begun, closes="false", order="0L").unionByName(
        _as_events(ended, closes="true", order="-1L"), allowMissingColumns=True
    )


def _events(batch: Batch) -> DataFrame:
    """Return the records of the batch as events."""
    kind = to_ddl(batch.schema[VALID_FROM].dataType)
    by = [quote(batch.options.dedupe_by)] if batch.options.dedupe_by else []
    times = ", ".join([*by, *(f"cast({quote(name)} as {kind})" for name in HISTORY_TIMES)])
    gone, ended = f"{quote(DELETED_AT)} is not null", f"cast({quote(DELETED_AT)} as {kind})"
    at = f"if({gone}, coalesce({', '.join([*by, ended])}), coalesce({times}))"
    return batch.rows.selectExpr(
        *(quote(name) for name in batch.columns if name != DELETED_AT),
        f"{at} as {VALID_FROM}",
        f"greatest({ended}, coalesce({times})) as {quote(_LATER)}",
        f"{gone} as {quote(_CLOSES)}",
        # What the table knows has the order 0, and files of a BATCH count from there.
        f"{quote(LINE_NUMBER)} + 1 as {quote(_ORDER)}",
    )


def _behind_versions(batch: Batch, events: DataFrame) -> DataFrame:
    """Put each deletion behind the version that it ends.

    With `dedupe_by` one that repeats the values of its row has the time of that version; without,
    the source may have deleted the row before the version was extracted.
    """
    if not batch.is_partial:
        return events
    keys, order, begin = list(map(quote, batch.keys)), quote(_ORDER), F.col(VALID_FROM)
    opens = f"not {quote(_CLOSES)}"
    if batch.options.dedupe_by:
        at_once = Window.partitionBy(*keys, VALID_FROM)
        hidden = F.min(F.expr(f"if({opens}, {order}, null)")).over(at_once) < F.col(order)
    else:
        before = Window.partitionBy(*keys).orderBy(order).rowsBetween(Window.unboundedPreceding, -1)
        hidden = F.max(F.expr(f"if({opens}, {VALID_FROM}, null)")).over(before) >= begin
    later = F.coalesce(F.col(quote(_LATER)), begin)
    moved = events.withColumn("\0hidden", F.col(quote(_CLOSES)) & hidden)
    return moved.withColumn(VALID_FROM, F.when(F.col("`\0hidden`"), later).otherwise(begin))


def _reopened(batch: Batch, events: DataFrame) -> DataFrame:
    """Leave out the end of a history that a record of a newer version belies.

    The record says that the source has the row again, though by its time it is not after the end.
    """
    version, order, closes = quote(TABLE_VERSION), quote(_ORDER), quote(_CLOSES)
    of_key = Window.partitionBy(*map(quote, batch.keys))
    known = F.max(F.expr(f"if({order} = 0, {version}, null)")).over(of_key)
    last = F.max(F.expr(f"if({order} <= 0, {VALID_FROM}, null)")).over(of_key)
    dated = events.withColumns({_KNOWN: known, _LAST: last})
    newer = f"{order} > 0 and not {closes} and {version} > {quote(_KNOWN)}"
    begins = F.min(F.expr(f"if({newer}, {VALID_FROM}, null)")).over(of_key)
    belied = f"{order} = -1 and {VALID_FROM} = {quote(_LAST)} and {quote(_BEGINS)} <= {VALID_FROM}"
    kept = dated.withColumn(_BEGINS, begins).where(f"({belied}) is not true")
    return kept.drop(_KNOWN, _LAST, _BEGINS)


def _as_events(rows: DataFrame, *, closes: str, order: str) -> DataFrame:
    return rows.selectExpr("*", f"{closes} as {quote(_CLOSES)}", f"{order} as {quote(_ORDER)}")


def _linked(batch: Batch, events: DataFrame) -> DataFrame:
    """Order the events of each key by time, drop repetitions, and tell when each version ends."""
    keys = list(map(quote, batch.keys))
    by_time = Window.partitionBy(*keys).orderBy(VALID_FROM)
    last_first = Window.partitionBy(*keys, VALID_FROM).orderBy(F.col(quote(_ORDER)).desc())
    if has_versions := TABLE_VERSION in batch.always:
        events = events.withColumn(TABLE_VERSION, _seen_in(*keys, VALID_FROM))
    at_once = events.withColumn("\0rank", F.row_number().over(last_first)).where("`\0rank` = 1")
    content = _content(batch)
    begins = ~F.coalesce(content.eqNullSafe(F.lag(content).over(by_time)), F.lit(col=False))
    begins = begins | F.lag(F.lit(1)).over(by_time).isNull()
    marked = at_once.withColumn(_SAME, ~begins)
    if has_versions:
        islands = marked.withColumn(
            _ISLAND, F.sum(F.when(~F.col(quote(_SAME)), 1).otherwise(0)).over(by_time)
        )
        marked = islands.withColumn(TABLE_VERSION, _seen_in(*keys, quote(_ISLAND)))
    ends = F.lead(VALID_FROM).over(by_time)
    linked = marked.where(~F.col(quote(_SAME))).withColumn(VALID_TO, ends)
    if has_versions:
        # A late record tells of the row as it is now that the source still has it.
        seen = F.when(F.col(VALID_TO).isNull(), _seen_in(*keys)).otherwise(F.col(TABLE_VERSION))
        linked = linked.withColumn(TABLE_VERSION, seen)
    versions = linked.where(f"not {quote(_CLOSES)}").withColumn(
        IS_CURRENT, F.col(VALID_TO).isNull()
    )
    return versions.select(*map(quote, batch.schema.names))


def _seen_in(*group: str) -> Column:
    """Return the newest version of the stream that a group of events was seen in."""
    version = f"if({quote(_CLOSES)}, null, {quote(TABLE_VERSION)})"
    return F.max(F.expr(version)).over(Window.partitionBy(*group))


def _values(batch: Batch, prefix: str = "") -> list[str]:
    """Return SQL for what a version tells of its row."""
    types = {field.name.lower(): field.dataType for field in batch.schema}
    names = [
        name
        for name in compared(batch.columns)
        if name not in (*batch.keys, TABLE_VERSION, DELETED_AT)
    ]
    return [comparable(f"{prefix}{quote(name)}", types[name.lower()]) for name in names]


def _content(batch: Batch) -> Column:
    """Return what makes two events the same."""
    values = _values(batch)
    # Two ends are the same whatever their records carried.
    return F.expr(f"if({quote(_CLOSES)}, null, struct({', '.join(['1', *values])}))")


def _changes(batch: Batch, facts: KeyFacts, known: DataFrame, linked: DataFrame) -> Changes:
    """Return the versions as they are to be, and those that are none any more."""
    keys = [*batch.keys, VALID_FROM]
    begun = known.where(f"{quote(_ORDER)} = 0").select(*map(quote, keys)).alias("t")
    gone = begun.join(linked.alias("s"), F.expr(same_key(keys)), "left_anti")
    rows = linked.withColumn(_REMOVED, F.lit(col=False)).unionByName(
        gone.withColumn(_REMOVED, F.lit(col=True)), allowMissingColumns=True
    )
    return Changes(
        rows=rows,
        count=facts.keys,
        keys=keys,
        # Others keep the values that an earlier schema gave them.
        columns=[*batch.columns, *HISTORY_COLUMNS],
        schema=batch.schema,
        ranges=facts.ranges,
        folded=False,
        skip_unchanged=True,
        removed=f"s.{quote(_REMOVED)}",
        scratch=batch.scratch,
    )


def _late(batch: Batch, known: DataFrame, linked: DataFrame) -> Late | None:
    """Count the versions below the tap's bookmark that the table did not have, or not so."""
    if batch.bookmark is None:
        return None
    before, after = _values(batch, "t."), _values(batch, "s.")
    same = [f"{one} <=> {other}" for one, other in zip(before, after, strict=True)]
    condition = " and ".join([same_key([*batch.keys, VALID_FROM]), *same])
    begun = known.where(f"{quote(_ORDER)} = 0").alias("t")
    return count_late(linked.alias("s").join(begun, F.expr(condition), "left_anti"), batch.bookmark)
