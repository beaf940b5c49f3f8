"""What a complete stream does to its table: staged rows take its place, rows that are gone go."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

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
from target_spark_delta.intake.segments import Segment
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
    destination = work.destination
    with explained(destination.stream), reported(destination.stream) as told:
        describe_commits(spark, commit)
        schema = first_look(spark, work)
        races.confirm(spark)
        if schema is not None:
            counts = _retire_older(spark, destination, schema, version, commit)
            told.append((counts, 0))
            _note_state(spark, work, commit, counts)


def _retire_older(
    spark: SparkSession,
    destination: Destination,
    schema: T.StructType,
    version: int,
    commit: Commit,
) -> Counts:
    """Retire the rows of older versions, in a commit that says this of itself."""
    if TABLE_VERSION not in schema.names:
        return Counts()
    table, now = destination.table, utc_now()
    try:
        held = _held_keys(spark, destination, schema, {version}, commit)
    except UnreadableKeyError as error:
        logger.warning("Stream %s: %s, so no row is retired", destination.stream, error)
        return Counts()
    if destination.keeps_history and held is None:
        return history.close_versions(spark, table, version, now)
    if held is not None:
        older = retire.older_rows(version, unmarked=False, prefix="t.")
        return _retire(spark, destination, commit, held, among=older)
    hard = destination.settings.hard_delete
    is_marked = not hard and DELETED_AT in schema.names
    older = retire.older_rows(version, unmarked=is_marked)
    if table.rows(spark).where(older).isEmpty():
        return Counts()
    if not hard and not is_marked:
        _add_mark(spark, destination, commit)
    return retire.retire_older(spark, table, version, hard=hard, deleted_at=now)


def retire_gone(
    spark: SparkSession, work: Work, commit: Commit, seen_versions: Collection[int]
) -> None:
    """Retire the rows whose key did not come in a run that has read the whole table."""
    destination, progress = work.destination, work.progress
    with explained(destination.stream), reported(destination.stream) as told:
        describe_commits(spark, commit)
        schema = first_look(spark, work)
        races.confirm(spark)
        if schema is None:
            return
        counts = Counts()
        if progress.made_table:
            _note_state(spark, work, commit, counts)
            return
        try:
            check_owner(spark, destination.table, commit.pipeline)
            held = _held_keys(spark, destination, schema, seen_versions, commit)
            came = retire.keys_of_run(spark, progress.keys, _or_no_keys(spark, destination, held))
            counts = _retire(spark, destination, commit, came)
        except NotOursError as error:
            logger.warning("Stream %s: %s, so no row is retired", destination.stream, error.why)
        except UnreadableKeyError as error:
            logger.warning("Stream %s: %s, so no row is retired", destination.stream, error)
        told.append((counts, 0))
        _note_state(spark, work, commit, counts)


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


def _or_no_keys(spark: SparkSession, destination: Destination, held: DataFrame | None) -> DataFrame:
    """Return keys, or the columns that they have in the table where there are none."""
    if held is not None:
        return held
    return destination.table.rows(spark).select(*map(quote, destination.keys)).limit(0)


def _held_keys(
    spark: SparkSession,
    destination: Destination,
    schema: T.StructType,
    loaded: Collection[int],
    commit: Commit,
) -> DataFrame | None:
    """Return the keys of what was set aside, which the source has."""
    keys = T.StructType([destination.declared[key] for key in destination.keys])
    place = destination.quarantine
    return held_keys(spark, place, commit, versions=loaded, keys=keys, table=schema)


def _retire(
    spark: SparkSession,
    destination: Destination,
    commit: Commit,
    came: DataFrame,
    *,
    among: str = "true",
) -> Counts:
    """Retire the rows with other keys than these; `among` is SQL that says which `t` may go."""
    table, live, prepare, now = destination.table, "true", None, utc_now()
    schema = table.rows(spark).schema
    if destination.keeps_history:
        live = f"t.{IS_CURRENT}"
        retired = retire.closed(now, to_ddl(schema[VALID_FROM].dataType))
    elif destination.settings.hard_delete:
        retired = retire.removed()
    else:
        retired = retire.marked(now)
        if DELETED_AT in schema.names:
            live = f"t.{quote(DELETED_AT)} is null"
        else:
            prepare = partial(_add_mark, spark, destination, commit)
    live = f"{live} and {among}"
    return retire.retire_others(spark, table, came, live=live, retired=retired, prepare=prepare)


def _add_mark(spark: SparkSession, destination: Destination, commit: Commit) -> None:
    """Add the column that marks rows as deleted, before the commit that marks them."""
    marker = T.StructType([T.StructField(DELETED_AT, T.TimestampType())])
    describe_commits(spark, commit.without_rows())
    adapt(spark, destination.table, marker, Policy(freeze=destination.settings.freeze))
    describe_commits(spark, commit)


def swap_in(spark: SparkSession, work: Work, commit: Commit) -> None:
    """Let the staged rows of a stream, which is complete, take the place of its table's."""
    destination = work.destination
    rows = sum(one.rows for one in work.progress.staged)
    with explained(destination.stream), reported(destination.stream) as told:
        describe_commits(spark, commit.without_rows())
        found = first_look(spark, work)
        if found is not None:
            check_table(spark, work, found, commit)
        races.confirm(spark)
        # Nobody asked for the columns of the stream alone.
        kept = found if destination.replaces_unasked else None
        # Others may have loaded the table too since the first batch.
        check = partial(check_owner, spark, destination.table, commit.pipeline)
        plan = overwrite.Swap(
            check=check if destination.replaces_unasked else None,
            batch=_empty_batch(spark, work, rows, kept),
            commit=replace(commit, rows=rows),
            layout=destination.layout,
            policy=destination.policy,
            **_held_at_swap(spark, work, found, commit),
        )
        counts = overwrite.swap(spark, plan)
        told.append((counts, rows))
        if counts:
            note_claim(spark, work)
        if destination.is_rekeyed:
            describe_commits(spark, commit.without_rows())
            note_key(spark, destination.table, destination.keys)
        drop_staged(spark, work)


def _held_at_swap(
    spark: SparkSession, work: Work, found: T.StructType | None, commit: Commit
) -> dict[str, Any]:
    """Return the keys of what was set aside, whose rows must stay, or why they are not known."""
    if found is None or not work.progress.set_aside:
        return {}
    try:
        return {"held": _held_keys(spark, work.destination, found, (), commit)}
    except UnreadableKeyError as error:
        return {"unknown": str(error)}


def end_parts(spark: SparkSession, work: Work, commit: Commit) -> None:
    """Remove what a complete stream had no record of: in the parts that it replaces, or whole ones.

    A row whose new record was set aside stays.
    """
    destination, progress = work.destination, work.progress
    with explained(destination.stream), reported(destination.stream) as told:
        describe_commits(spark, commit.without_rows())
        schema = first_look(spark, work)
        if schema is None:
            return
        is_needless = progress.made_table and progress.version is None
        if is_needless or not destination.acts_at_end:
            _note_state(spark, work, commit, Counts())
            return
        races.confirm(spark)
        batch, last = _staged_batch(spark, work, schema, commit), Counts()
        steps = [*_removals(spark, work, schema, commit, batch)]
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
            told.append((last, rows))
        _note_state(spark, work, commit, last)


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


def _removals(
    spark: SparkSession, work: Work, schema: T.StructType, commit: Commit, batch: Batch
) -> Iterator[tuple[int, Callable[[Commit], Counts]]]:
    """Give what removes rows at the end of a stream, each with the number of rows that it adds.

    Each is called with what its commit says of itself.
    """
    destination, progress = work.destination, work.progress
    try:
        asks = progress.set_aside > 0
        held = _held_keys(spark, destination, schema, (), commit) if asks else None
    except UnreadableKeyError as error:
        logger.warning("Stream %s: %s, so no row is removed", destination.stream, error)
        return
    if destination.removes_at_end:
        yield 0, lambda _: remove_others(spark, batch, held)
    elif destination.replaces_range and not progress.staged:
        yield 0, lambda _: empty_range(spark, batch)
    if (version := progress.version) is not None:
        yield 0, lambda said: _retire_older(spark, destination, schema, version, said)
    if destination.retires_partitions and _is_ours(spark, destination, commit):
        yield 0, lambda said: _retire_partitions(spark, destination, said, batch, held)


def _is_ours(spark: SparkSession, destination: Destination, commit: Commit) -> bool:
    """Say whether no other pipeline has rows in the table, and warn where one has."""
    try:
        check_owner(spark, destination.table, commit.pipeline)
    except NotOursError as error:
        logger.warning("Stream %s: %s, so no row is retired", destination.stream, error.why)
        return False
    return True


def _retire_partitions(
    spark: SparkSession,
    destination: Destination,
    commit: Commit,
    batch: Batch,
    held: DataFrame | None,
) -> Counts:
    """Retire the partitions that are gone at the source; what has no key is removed."""
    table = destination.table
    if destination.keys:
        came, others = _or_no_keys(spark, destination, held), other_partitions(batch, "t.")
        return _retire(spark, destination, commit, came, among=others)
    others = other_partitions(batch)
    if table.rows(spark).where(others).isEmpty():
        return Counts()
    return execute(spark, table, f"delete from {table.sql} where {others}")


def _empty_batch(spark: SparkSession, work: Work, rows: int, before: T.StructType | None) -> Batch:
    """Return a batch that stands for what came before the end of a stream."""
    nothing = Segment(work.destination.stream, Path(), rows=rows)
    kept = work.destination.kept_metadata(nothing, before)
    shape = Columns(
        declared=work.destination.declared,
        metadata=kept,
        table=work.destination.incoming(kept),
        run_id="",
        batched_at=utc_now(),
    )
    batch = make_batch(work, nothing, shape, spark.range(0), is_new=False)
    return replace(batch, scratch=None)  # it has no folder


def drop_staged(spark: SparkSession, work: Work) -> None:
    """Remove what is staged of a stream."""
    for staged in work.progress.waiting:
        staging.discard(spark, staged)
