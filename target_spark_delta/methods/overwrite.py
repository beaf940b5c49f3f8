"""overwrite: rows wait beside the table until the stream is complete, then take its place.

They are staged in one place for each schema that the stream has had in the run. All of them
become the table's rows in one commit: readers see the old rows or the new ones, and the old
ones stay in the table's history.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from singer_spark.names import literal, quote
from singer_spark.types import to_ddl
from target_spark_delta.intake.segments import CARRIED, LINE_NUMBER
from target_spark_delta.intake.validation import DELETED_AT
from target_spark_delta.methods.batch import Batch, Staged
from target_spark_delta.methods.equality import holds_all, holds_same, rows_unknown
from target_spark_delta.methods.merge import same_key
from target_spark_delta.methods.per_key import one_per_key
from target_spark_delta.methods.staging import staged_rows, write_staged
from target_spark_delta.rows.columns import METADATA
from target_spark_delta.table import commit
from target_spark_delta.table.commit import Commit, Counts, describe_commits
from target_spark_delta.table.ddl import (
    Layout,
    Policy,
    allow_names,
    cluster,
    create,
    frozen,
    regain_clusters,
    warn_of_lost_constraints,
)
from target_spark_delta.table.evolve import changed, unify
from target_spark_delta.table.table import Table

_RUN = "\0run"


def stage(spark: SparkSession, batch: Batch, place: Callable[[int], Table], run_id: str) -> None:
    """Put the rows of a batch aside; `place` gives the place of each schema by its number."""
    staged = batch.progress.staged
    schema, columns = batch.schema, tuple(batch.columns)
    # A SCHEMA that drops a column leaves that of the table as it is.
    is_first = not staged or (staged[-1].schema, staged[-1].columns) != (schema, columns)
    current = Staged(place(len(staged)), schema, columns) if is_first else staged[-1]
    # Lines of a BATCH are numbered by their place in its files, so what came before comes first.
    place_in_run = F.struct(
        F.lit(sum(one.rows for one in staged)).cast("bigint").alias("before"),
        F.col(quote(LINE_NUMBER)).alias("line"),
    )
    rows = batch.rows.withColumns({LINE_NUMBER: place_in_run, _RUN: F.lit(run_id)})
    if DELETED_AT not in rows.columns:
        # One place has one set of columns, whichever batches have deletions.
        rows = rows.withColumn(DELETED_AT, F.lit(None).cast(METADATA[DELETED_AT]))
    write_staged(spark, current, rows, is_first=is_first)
    if is_first:
        staged.append(current)
    current.rows += batch.count
    current.is_partial |= batch.is_partial
    current.removes |= batch.removes


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """How staged rows become the table."""

    batch: Batch
    commit: Commit
    layout: Layout
    policy: Policy
    held: DataFrame | None = None  # keys of rows that stay, because new records were set aside
    unknown: str | None = None  # why it is not known which these are
    check: Callable[[], None] | None = None  # refuses where others load the table too

    @property
    def count(self) -> int | None:
        """Count the rows, where each of those that were staged is one."""
        removes = any(staged.removes for staged in self.batch.progress.staged)
        return None if self.batch.keys or removes else self.batch.count


def swap(spark: SparkSession, plan: Swap) -> Counts:
    """Make the staged rows the table's, in one commit, or in none if it has just these."""
    batch, table = plan.batch, plan.batch.table
    schema = reduce(
        partial(unify, name=table.name, dates=plan.policy.dates),
        (staged.schema for staged in batch.progress.staged),
        batch.schema,
    )
    before = table.schema(spark)
    if plan.held is not None and before is not None:
        schema = _holding(before, schema, plan)
        rows = _rows(spark, plan, schema)
        rows = rows.unionByName(_held_rows(spark, plan, plan.held, rows))
    else:
        rows = _rows(spark, plan, schema)
    if plan.unknown and before is not None and not holds_all(spark, table, before, rows):
        raise rows_unknown(f"stream {plan.commit.stream}", plan.unknown, has_key=bool(batch.keys))
    describe_commits(spark, plan.commit.without_rows())
    if before is None:
        create(spark, table, schema, plan.layout)
        describe_commits(spark, plan.commit)
        count = plan.count
        return commit.append(table, rows, rows.count() if count is None else count)
    known = table.detail(spark)
    if not (differences := _differences(before, schema)):
        kept = regain_clusters(spark, table, known, plan.layout.cluster_by)
        if batch.skip_unchanged and holds_same(spark, table, before, rows):
            return Counts()
        return _replace(spark, plan, rows, clusters=kept)
    if plan.policy.freeze:
        raise frozen(table, differences)
    allow_names(spark, table, schema)
    partitions = plan.layout.partition_by or _kept(known["partitionColumns"], schema)
    clusters = plan.layout.cluster_by or _kept(known["clusteringColumns"], schema)
    counts = _replace(spark, plan, rows, clusters=clusters, partition_by=partitions)
    warn_of_lost_constraints(table, before)
    return counts


def _holding(before: T.StructType, schema: T.StructType, plan: Swap) -> T.StructType:
    """Make the columns wide enough for rows that stay."""
    coming = {field.name.lower() for field in schema}
    known = T.StructType([field for field in before if field.name.lower() in coming])
    wide = unify(known, schema, name=plan.batch.table.name, dates=plan.policy.dates)
    types = {field.name.lower(): field.dataType for field in wide}
    return T.StructType([changed(f, kind=types[f.name.lower()]) for f in schema])


def _held_rows(spark: SparkSession, plan: Swap, held: DataFrame, rows: DataFrame) -> DataFrame:
    """Return the table's rows of some keys that are not among the new ones."""
    batch, same = plan.batch, F.expr(same_key(plan.batch.keys))
    before = batch.table.rows(spark)
    given = {name.lower() for name in before.columns}
    columns = [
        f"cast({quote(f.name) if f.name.lower() in given else 'null'} as {to_ddl(f.dataType)}) "
        f"as {quote(f.name)}"
        for f in rows.schema
    ]
    kept = before.alias("t").join(held.alias("s"), same, "left_semi").selectExpr(*columns)
    kept = kept.alias("t").join(rows.alias("s"), same, "left_anti")
    counts = kept.groupBy(*map(quote, batch.keys)).count()
    if several := counts.where("count > 1").count():
        why = f"{several} record(s) that were set aside are of several rows"
        raise rows_unknown(f"stream {plan.commit.stream}", why, has_key=True)
    return kept


def _replace(
    spark: SparkSession,
    plan: Swap,
    rows: DataFrame,
    *,
    clusters: Sequence[str],
    partition_by: Sequence[str] | None = None,
) -> Counts:
    """Replace the table's rows, and give back the clusters that Delta forgets then."""
    describe_commits(spark, plan.commit)
    counts = commit.replace(
        spark,
        plan.batch.table,
        rows,
        partition_by=partition_by,
        count=plan.count,
        check=plan.check,
    )
    describe_commits(spark, plan.commit.without_rows())
    cluster(spark, plan.batch.table, clusters)
    return counts


def _kept(columns: Sequence[str], schema: T.StructType) -> list[str]:
    return [name for name in columns if name in schema.names]


def _rows(spark: SparkSession, plan: Swap, schema: T.StructType) -> DataFrame:
    """Return the rows of the new table: those that count of all that were staged."""
    batch, staged = plan.batch, plan.batch.progress.staged
    if not staged:
        return spark.createDataFrame([], schema)
    rows = staged_parts(spark, staged, schema, plan.commit.run_id)
    removes = any(one.removes for one in staged)
    if batch.keys:
        whole = replace(
            batch,
            rows=rows,
            facts=None,
            always=METADATA.keys() - {DELETED_AT},
            is_partial=any(one.is_partial for one in staged),
            removes=removes,
        )
        rows, _ = one_per_key(whole)
    if removes:
        rows = rows.where(f"{quote(DELETED_AT)} is null")
    columns = [F.col(quote(f.name)).alias(f.name, metadata=f.metadata) for f in schema]
    return rows.select(*columns)


def staged_parts(
    spark: SparkSession, staged: Sequence[Staged], schema: T.StructType, run_id: str
) -> DataFrame:
    """Return all rows that a run has staged, with the columns of a schema and what orders them."""
    parts = [_part(spark, one, schema, run_id) for one in staged]
    return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), parts)


def _part(spark: SparkSession, staged: Staged, schema: T.StructType, run_id: str) -> DataFrame:
    rows = staged_rows(spark, staged, f"{quote(_RUN)} = {literal(run_id)}")
    given = {name.lower() for name in rows.columns}
    columns = [
        f"cast({quote(f.name) if f.name.lower() in given else 'null'} as {to_ddl(f.dataType)}) "
        f"as {quote(f.name)}"
        for f in schema
    ]
    extra = [name for name in (DELETED_AT,) if name in rows.columns and name not in schema.names]
    return rows.selectExpr(*map(quote, (LINE_NUMBER, CARRIED, *extra)), *columns)


def _differences(before: T.StructType, after: T.StructType) -> list[str]:
    """Name the columns that are not the same, or not in the same place."""
    there, coming = ({f.name: to_ddl(f.dataType) for f in one} for one in (before, after))
    if [*there.items()] == [*coming.items()]:
        return []
    differing = [name for name in {**there, **coming} if there.get(name) != coming.get(name)]
    return differing or ["the order of columns"]
