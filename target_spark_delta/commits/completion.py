"""What a complete stream does to its table: staged rows take its place, rows that are gone go."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from singer_spark.names import quote
from singer_spark.types import to_ddl
from target_spark_delta.commits.reports import explained, reported, utc_now
from target_spark_delta.commits.segment_commit import (
    as_spelled,
    check_table,
    first_look,
    make_batch,
    note_claim,
)
from target_spark_delta.intake.validation import DELETED_AT
from target_spark_delta.methods import METHODS, history, overwrite, retire, staging
from target_spark_delta.methods.batch import Batch, Staged, Work
from target_spark_delta.methods.replace import empty_range, other_partitions, remove_others
from target_spark_delta.rows.columns import IS_CURRENT, TABLE_VERSION, VALID_FROM, Columns
from target_spark_delta.streams.destination import Destination
from target_spark_delta.streams.safety import note_key
from target_spark_delta.table import races
from target_spark_delta.table.commit import Commit, Counts, describe_commits, execute, note
from target_spark_delta.table.ddl import Policy, adapt
from target_spark_delta.table.earlier_rows import NotOursError, check_owner
from target_spark_delta.table.quarantine import UnreadableKeyError, held_keys

logger = logging.getLogger(__name__)


def activate_version(spark: SparkSession, work: Work, version: int, commit: Commit) -> None:
    """Retire the rows of older versions."""
    with _at_table(spark, work, commit) as (schema, done):
        races.confirm(spark)
        if schema is not None:
            end = _End(spark, work, schema, commit)
            counts = end.retire_older(commit, version)
            done.append((counts, 0))
            _note_state(spark, work, commit, counts)


def retire_gone(
    spark: SparkSession, work: Work, commit: Commit, seen_versions: Collection[int]
) -> None:
    """Retire the rows whose key did not come in a run that has read the whole table."""
    with _at_table(spark, work, commit) as (schema, done):
        races.confirm(spark)
        if schema is None:
            return
        counts = Counts()
        if not work.progress.made_table:
            end = _End(spark, work, schema, commit)
            if end.is_ours():
                counts = end.retire_absent(seen_versions)
            done.append((counts, 0))
        _note_state(spark, work, commit, counts)


def swap_in(spark: SparkSession, work: Work, commit: Commit) -> None:
    """Let the staged rows of a stream, which is complete, take the place of its table's."""
    destination = work.destination
    rows = sum(one.rows for one in work.progress.staged)
    with _at_table(spark, work, commit.without_rows()) as (found, done):
        if found is not None:
            check_table(spark, work, found, commit)
        races.confirm(spark)
        # Nobody asked for the columns of the stream alone.
        kept = found if destination.replaces_unasked else None
        # Others may have loaded the table too since the first batch.
        check = partial(check_owner, spark, destination.table, commit.pipeline)
        held, unknown = None, None
        if found is not None and work.progress.set_aside:
            try:
                held = _End(spark, work, found, commit).held_keys()
            except UnreadableKeyError as error:
                unknown = str(error)
        plan = overwrite.Swap(
            check=check if destination.replaces_unasked else None,
            batch=_empty_batch(spark, work, rows, kept),
            commit=replace(commit, rows=rows),
            layout=destination.layout,
            policy=destination.policy,
            held=held,
            unknown=unknown,
        )
        counts = overwrite.swap(spark, plan)
        done.append((counts, rows))
        if counts:
            note_claim(spark, work)
        if destination.is_rekeyed:
            describe_commits(spark, commit.without_rows())
            note_key(spark, destination.table, destination.keys)
        drop_staged(spark, work)


def end_parts(spark: SparkSession, work: Work, commit: Commit) -> None:
    """Remove what a complete stream had no record of: in the parts that it replaces, or whole ones.

    A row whose new record was set aside stays.
    """
    destination, progress = work.destination, work.progress
    with _at_table(spark, work, commit.without_rows()) as (schema, done):
        if schema is None:
            return
        is_needless = progress.made_table and progress.version is None
        if is_needless or not destination.acts_at_end:
            _note_state(spark, work, commit, Counts())
            return
        races.confirm(spark)
        batch, last = _staged_batch(spark, work, schema, commit), Counts()
        steps = [(0, step) for step in _End(spark, work, schema, commit).removals(batch)]
        if progress.staged:
            method = METHODS[destination.method]
            steps.insert(0, (batch.count, lambda _: method(spark, batch)))
        for number, (rows, step) in enumerate(steps, 1):
            # The last of them makes the STATE true.
            state = commit.state if number == len(steps) else None
            said = replace(commit, rows=rows, state=state)
            describe_commits(spark, said)
            last = step(said)
            if last:
                progress.has_changed, progress.carried = True, state
            done.append((last, rows))
        _note_state(spark, work, commit, last)


def drop_staged(spark: SparkSession, work: Work) -> None:
    """Remove what is staged of a stream."""
    for staged in work.progress.waiting:
        staging.discard(spark, staged)


@contextmanager
def _at_table(
    spark: SparkSession, work: Work, said: Commit
) -> Iterator[tuple[T.StructType | None, list[tuple[Counts, int]]]]:
    """Give the schema of a stream's table, and take what becomes of it, for the runner."""
    stream = work.destination.stream
    with explained(stream), reported(stream) as done:
        describe_commits(spark, said)
        yield first_look(spark, work), done


def _note_state(spark: SparkSession, work: Work, commit: Commit, last: Counts) -> None:
    """Let a commit of its own carry a STATE that has become true, where the last does not.

    `last` is what the commit that says the same has changed; it is made only if that is something.
    """
    progress = work.progress
    if last:
        progress.has_changed, progress.carried = True, commit.state
    if progress.has_changed and commit.state is not None and progress.carried != commit.state:
        describe_commits(spark, replace(commit, rows=0))
        note(spark, work.destination.table)
        progress.carried = commit.state


@dataclass(frozen=True, slots=True)
class _End:
    """What the end of a stream removes from its table, or marks there."""

    spark: SparkSession
    work: Work
    schema: T.StructType
    commit: Commit

    @property
    def to(self) -> Destination:
        """Return where the stream goes."""
        return self.work.destination

    def is_ours(self) -> bool:
        """Say whether no other pipeline has rows in the table, and warn where one has."""
        try:
            check_owner(self.spark, self.to.table, self.commit.pipeline)
        except NotOursError as error:
            self.warn(error.why)
            return False
        return True

    def warn(self, why: object) -> None:
        """Say why nothing is retired."""
        logger.warning("Stream %s: %s, so no row is retired", self.to.stream, why)

    def held_keys(self, versions: Collection[int] = ()) -> DataFrame | None:
        """Return the keys of what was set aside, which the source has."""
        keys = T.StructType([self.to.declared[key] for key in self.to.keys])
        place = self.to.quarantine
        return held_keys(
            self.spark, place, self.commit, versions=versions, keys=keys, table=self.schema
        )

    def or_no_keys(self, held: DataFrame | None) -> DataFrame:
        """Return keys, or the columns that they have in the table where there are none."""
        if held is not None:
            return held
        return self.to.table.rows(self.spark).select(*map(quote, self.to.keys)).limit(0)

    def retire_older(self, said: Commit, version: int) -> Counts:
        """Retire the rows of older versions, in a commit that says this of itself."""
        if TABLE_VERSION not in self.schema.names:
            return Counts()
        spark, table, now = self.spark, self.to.table, utc_now()
        try:
            held = self.held_keys({version})
        except UnreadableKeyError as error:
            self.warn(error)
            return Counts()
        if self.to.keeps_history and held is None:
            return history.close_versions(spark, table, version, now)
        if held is not None:
            older = retire.older_rows(version, unmarked=False, prefix="t.")
            return self.retire(said, held, among=older)
        hard = self.to.settings.hard_delete
        is_marked = not hard and DELETED_AT in self.schema.names
        older = retire.older_rows(version, unmarked=is_marked)
        if table.rows(spark).where(older).isEmpty():
            return Counts()
        if not hard and not is_marked:
            self.add_mark(said)
        return retire.retire_older(spark, table, version, hard=hard, deleted_at=now)

    def retire_absent(self, seen_versions: Collection[int]) -> Counts:
        """Retire the rows whose key did not come."""
        try:
            held = self.held_keys(seen_versions)
        except UnreadableKeyError as error:
            self.warn(error)
            return Counts()
        came = retire.keys_of_run(self.spark, self.work.progress.keys, self.or_no_keys(held))
        return self.retire(self.commit, came)

    def retire(self, said: Commit, came: DataFrame, *, among: str = "true") -> Counts:
        """Retire the rows with other keys than these; `among` is SQL that says which `t` may go."""
        table, live, prepare, now = self.to.table, "true", None, utc_now()
        schema = table.rows(self.spark).schema
        if self.to.keeps_history:
            live = f"t.{IS_CURRENT}"
            retired = retire.closed(now, to_ddl(schema[VALID_FROM].dataType))
        elif self.to.settings.hard_delete:
            retired = retire.REMOVED
        else:
            retired = retire.marked(now)
            if DELETED_AT in schema.names:
                live = f"t.{quote(DELETED_AT)} is null"
            else:
                prepare = partial(self.add_mark, said)
        live = f"{live} and {among}"
        return retire.retire_others(
            self.spark, table, came, live=live, retired=retired, prepare=prepare
        )

    def add_mark(self, said: Commit) -> None:
        """Add the column that marks rows as deleted, before the commit that marks them."""
        marker = T.StructType([T.StructField(DELETED_AT, T.TimestampType())])
        describe_commits(self.spark, said.without_rows())
        adapt(self.spark, self.to.table, marker, Policy(freeze=self.to.settings.freeze))
        describe_commits(self.spark, said)

    def removals(self, batch: Batch) -> Iterator[Callable[[Commit], Counts]]:
        """Give what removes rows at the end of a stream, each called with what its commit says."""
        spark, progress = self.spark, self.work.progress
        try:
            held = self.held_keys() if progress.set_aside > 0 else None
        except UnreadableKeyError as error:
            logger.warning("Stream %s: %s, so no row is removed", self.to.stream, error)
            return
        if self.to.removes_at_end:
            yield lambda _: remove_others(spark, batch, held)
        elif self.to.replaces_range and not progress.staged:
            yield lambda _: empty_range(spark, batch)
        if (version := progress.version) is not None:
            yield lambda said: self.retire_older(said, version)
        if self.to.retires_partitions and self.is_ours():
            yield lambda said: self.retire_partitions(said, batch, held)

    def retire_partitions(self, said: Commit, batch: Batch, held: DataFrame | None) -> Counts:
        """Retire the partitions that are gone at the source; what has no key is removed."""
        if self.to.keys:
            return self.retire(said, self.or_no_keys(held), among=other_partitions(batch, "t."))
        table, others = self.to.table, other_partitions(batch)
        if table.rows(self.spark).where(others).isEmpty():
            return Counts()
        return execute(self.spark, table, f"delete from {table.sql} where {others}")


def _staged_batch(spark: SparkSession, work: Work, schema: T.StructType, commit: Commit) -> Batch:
    """Return a batch of all rows that wait for the end of the stream."""
    staged = work.progress.staged
    batch = _empty_batch(spark, work, sum(one.rows for one in staged), schema)
    spelled = as_spelled(schema, work.destination.declared.names)
    if not staged:
        return replace(batch, schema=spelled)
    return replace(
        batch,
        rows=overwrite.staged_parts(spark, staged, spelled, commit.run_id),
        columns=_all_columns(batch, staged, spelled),
        schema=spelled,
        is_partial=any(one.is_partial for one in staged),
        removes=any(one.removes for one in staged),
    )


def _all_columns(batch: Batch, staged: Iterable[Staged], table: T.StructType) -> list[str]:
    """Name the columns of a table that rows of the run carry, under whichever SCHEMA."""
    carried = [batch.columns, *(one.columns for one in staged)]
    known = {name.lower() for names in carried for name in names}
    return [name for name in table.names if name.lower() in known]


def _empty_batch(spark: SparkSession, work: Work, rows: int, before: T.StructType | None) -> Batch:
    """Return a batch that stands for what came before the end of a stream."""
    kept = work.destination.kept_metadata(None, before)
    columns = Columns(
        declared=work.destination.declared,
        metadata=kept,
        table=work.destination.incoming(kept),
        run_id="",
        batched_at=utc_now(),
    )
    return make_batch(work, columns, spark.range(0), rows)
