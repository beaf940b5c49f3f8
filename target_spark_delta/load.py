"""One segment into one commit: the table is made to fit, then the rows are written."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from singer_spark.assignment import Assignment
from singer_spark.causes import innermost_cause, is_unreachable
from singer_spark.engine.session import SPARK_ERRORS, lost_engine
from singer_spark.errors import RecordError, SingerSparkError, TransientError
from singer_spark.names import quote
from singer_spark.report import report
from target_spark_delta import fence, identity
from target_spark_delta.alter import Policy, adapt, regain_clusters
from target_spark_delta.commit import Commit, Counts, describe_commits, execute, note
from target_spark_delta.destination import Destination
from target_spark_delta.frame import TABLE_VERSION, Shape
from target_spark_delta.keys import (
    changed_key,
    check_key,
    check_parts,
    check_reload,
    is_other_key,
    known_key,
    note_key,
)
from target_spark_delta.methods import (
    METHODS,
    Batch,
    Progress,
    gone,
    history,
    lacking,
    overwrite,
    replaced,
    staging,
    versions,
)
from target_spark_delta.methods.late import Bookmark
from target_spark_delta.methods.owners import NotOursError, check_owner
from target_spark_delta.quarantine import UnreadableKeyError, held_keys, set_aside
from target_spark_delta.reading import empty_folder, empty_staging
from target_spark_delta.source import Source, open_source
from target_spark_delta.spool import Segment
from target_spark_delta.table import create
from target_spark_delta.validation import DELETED_AT

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Work:
    """A stream to load, and what the run remembers of it."""

    destination: Destination
    progress: Progress
    bookmark: Bookmark | None = None


def load_segment(
    spark: SparkSession, work: Work, segment: Segment, commit: Commit, *, if_made: Commit
) -> None:
    """Commit a segment's records; what cannot be loaded is set aside first, where that is asked.

    Args:
        spark: The stream's session.
        work: The stream.
        segment: The records.
        commit: What the commit says of itself.
        if_made: What it says instead where this run has made the table.
    """
    destination = work.destination
    with explained(destination.stream), reported(destination.stream) as told:
        spool = destination.staging(commit.run_id)
        source = open_source(
            spark, segment, staging=spool, quarantine=destination.settings.quarantine
        )
        if segment.rejected:
            set_aside(spark, destination.quarantine, source.rejected(), commit)
        if segment.rejected < segment.rows:
            counts = _load_rows(spark, work, segment, source, commit, if_made)
            _note_key(spark, work, counts, commit)
            # What was cut while Spark read it is still cut.
            segment.check_size()
            work.progress.has_changed |= bool(counts)
            told += [] if counts is None else [(counts, segment.loaded)]
        work.progress.set_aside += segment.rejected
        empty_staging(spark, segment, spool)


def _load_rows(
    spark: SparkSession,
    work: Work,
    segment: Segment,
    source: Source,
    commit: Commit,
    if_made: Commit,
) -> Counts | None:
    destination = work.destination
    describe_commits(spark, commit.without_rows())
    found = _first_look(spark, work)
    work.progress.made_table |= found is None
    commit = if_made if work.progress.made_table else commit
    before = None if destination.overwrites else found
    if destination.appends and destination.bookmarks and work.progress.first_look is None:
        # Before the table is changed to fit.
        work.progress.first_look = lacking.look_at(spark, destination.table, found)
    if found is not None:
        _check_table(spark, work, found, commit)
        _follow_key(spark, work, commit)
    work.progress.key = destination.merges_by
    partitions = _partition_columns(spark, work, commit, is_there=found is not None)
    kept = destination.kept_metadata(segment, before)
    shape = Shape(
        declared=destination.declared,
        metadata=destination.read_metadata(segment, kept),
        table=_fitting_table(spark, destination, destination.incoming(kept), before),
        run_id=commit.run_id,
        batched_at=utc_now(),
        dates_deletions=destination.keeps_history,
        partition_by=partitions,
    )
    records = source.read(shape)

    def write(rows: DataFrame) -> Counts | None:
        describe_commits(spark, replace(commit, rows=segment.loaded))
        batch = _batch(work, segment, shape, rows, is_new=before is None)
        if destination.overwrites:
            overwrite.stage(spark, batch, destination.place, commit.run_id)
            return None
        counts = METHODS[destination.method](spark, batch)
        if destination.retires and not work.progress.made_table:
            gone.stage_keys(spark, batch, batch.rows)
        return counts

    try:
        return write(records.rows())
    except SPARK_ERRORS as error:
        if not (destination.settings.quarantine and refusal(error)):
            raise
        segment.rejected += set_aside(spark, destination.quarantine, records.misfits(), commit)
        segment.facts = None
        return write(records.fitting_rows()) if segment.loaded else None


def _first_look(spark: SparkSession, work: Work) -> T.StructType | None:
    """Return the table's schema; a run that took the lock from another claims the table first."""
    table, progress = work.destination.table, work.progress
    schema = table.schema(spark)
    if fence.must_claim(spark) and not progress.has_claimed:
        if schema is not None:
            note(spark, table)
            schema = table.schema(spark)
        progress.has_claimed = True
        report("claimed", work.destination.stream)
    return schema


def claim_table(spark: SparkSession, work: Work, commit: Commit) -> None:
    """Claim a table from a run that held the lock before, whether there are records or not."""
    with explained(work.destination.stream):
        describe_commits(spark, commit.without_rows())
        _first_look(spark, work)


def _batch(work: Work, segment: Segment, shape: Shape, rows: DataFrame, *, is_new: bool) -> Batch:
    destination = work.destination
    known = {name.lower() for name in shape.table.names}
    return Batch(
        rows=rows,
        count=segment.loaded,
        columns=[name for name in shape.columns if name.lower() in known],
        always={*shape.metadata, DELETED_AT},
        keys=destination.keys,
        facts=segment.facts,
        table=destination.table,
        schema=_as_spelled(shape.table, shape.columns),
        is_new=is_new,
        is_partial=segment.is_partial,
        removes=destination.removes(segment),
        skip_unchanged=destination.settings.skip_unchanged,
        bookmark=work.bookmark,
        options=destination.options,
        progress=work.progress,
        place=destination.place,
        scope=destination.scope,
        compares_by=destination.compares_by,
        removes_at_end=destination.removes_at_end and not work.progress.made_table,
    )


def _as_spelled(table: T.StructType, columns: Sequence[str]) -> T.StructType:
    """Name a table's columns as the stream does, whose options are about them."""
    names = {name.lower(): name for name in columns}
    return T.StructType(
        [
            T.StructField(
                names.get(field.name.lower(), field.name),
                field.dataType,
                field.nullable,
                metadata=field.metadata,
            )
            for field in table
        ]
    )


def _check_table(spark: SparkSession, work: Work, schema: T.StructType, commit: Commit) -> None:
    """Make sure that a table which is there may be appended to afresh, or replaced unasked."""
    if not work.progress.made_table:
        check_reload(work.destination)
        check_parts(work.destination, schema, commit.pipeline)
    if work.destination.replaces_unasked and not work.progress.is_ours:
        check_owner(spark, work.destination.table, commit.pipeline)
        work.progress.is_ours = True


def _follow_key(spark: SparkSession, work: Work, commit: Commit) -> None:
    """Let a SCHEMA change the key in the middle of a run, if all rows are of this run."""
    destination, progress = work.destination, work.progress
    if not is_other_key(progress.key, destination):
        return
    if not progress.made_table:
        raise changed_key(progress.key or (), destination, commit.pipeline)
    note_key(spark, destination.table, destination.keys)


def _note_key(spark: SparkSession, work: Work, counts: Counts | None, commit: Commit) -> None:
    """Note in a table that has no key yet what its rows are merged by, beside a change of them."""
    if counts and work.progress.lacks_key:
        describe_commits(spark, commit.without_rows())
        note_key(spark, work.destination.table, work.destination.keys)
        work.progress.lacks_key = False


def _partition_columns(
    spark: SparkSession, work: Work, commit: Commit, *, is_there: bool
) -> Collection[str]:
    """Name what partitions the table, or is to; asked once a run, and lost clusters given back."""
    destination, progress = work.destination, work.progress
    if progress.partition_columns is None:
        columns = frozenset(destination.layout.partition_by)
        if is_there:
            detail = destination.table.detail(spark)
            check_key(destination, detail["properties"], commit.pipeline)
            is_noted = known_key(detail["properties"]) is not None
            progress.lacks_key = destination.merges and not is_noted
            columns = columns.union(detail["partitionColumns"])
            regain_clusters(spark, destination.table, detail, destination.layout.cluster_by)
        progress.partition_columns = columns
    return progress.partition_columns


def _fitting_table(
    spark: SparkSession,
    destination: Destination,
    incoming: T.StructType,
    before: T.StructType | None,
) -> T.StructType:
    """Return the schema of a table that the incoming columns fit; a staged one is that of them."""
    if destination.overwrites:
        return incoming
    if before is None:
        create(spark, destination.table, incoming, destination.layout)
        return incoming
    return adapt(spark, destination.table, incoming, destination.policy)


def activate_version(spark: SparkSession, work: Work, version: int, commit: Commit) -> None:
    """Retire the rows of older versions."""
    destination = work.destination
    with explained(destination.stream), reported(destination.stream) as told:
        describe_commits(spark, commit)
        schema = _first_look(spark, work)
        fence.confirm(spark)
        if schema is None or TABLE_VERSION not in schema.names:
            return
        table, now = destination.table, utc_now()
        try:
            held = _held_keys(spark, destination, schema, {version}, commit)
        except UnreadableKeyError as error:
            logger.warning("Stream %s: %s, so no row is retired", destination.stream, error)
            return
        if destination.keeps_history and held is None:
            told.append((history.close_versions(spark, table, version, now), 0))
            return
        if held is not None:
            older = versions.older_rows(version, unmarked=False, prefix="t.")
            told.append((_retire(spark, destination, commit, held, among=older), 0))
            return
        hard = destination.settings.hard_delete
        is_marked = not hard and DELETED_AT in schema.names
        older = versions.older_rows(version, unmarked=is_marked)
        if table.rows(spark).where(older).isEmpty():
            return
        if not hard and not is_marked:
            _add_mark(spark, destination, commit)
        counts = versions.retire(spark, table, version, hard=hard, deleted_at=now)
        told.append((counts, 0))


def retire_gone(
    spark: SparkSession, work: Work, commit: Commit, seen_versions: Collection[int]
) -> None:
    """Retire the rows whose key did not come in a run that has read the whole table."""
    destination, progress = work.destination, work.progress
    with explained(destination.stream), reported(destination.stream) as told:
        describe_commits(spark, commit)
        schema = _first_look(spark, work)
        fence.confirm(spark)
        if schema is None or progress.made_table:
            return
        counts = Counts()
        try:
            check_owner(spark, destination.table, commit.pipeline)
            held = _held_keys(spark, destination, schema, seen_versions, commit)
            came = gone.keys_of_run(spark, progress.keys, _or_no_keys(spark, destination, held))
            counts = _retire(spark, destination, commit, came)
        except NotOursError as error:
            logger.warning("Stream %s: %s, so no row is retired", destination.stream, error.why)
        except UnreadableKeyError as error:
            logger.warning("Stream %s: %s, so no row is retired", destination.stream, error)
        told.append((counts, 0))
        _note_state(spark, work, commit, counts)


def _note_state(spark: SparkSession, work: Work, commit: Commit, last: Counts) -> None:
    """Let a commit of its own carry the STATE, where the batches do not and the end made none."""
    is_carried = last or not work.destination.is_true_at_end
    if work.progress.has_changed and commit.state is not None and not is_carried:
        describe_commits(spark, replace(commit, rows=0))
        note(spark, work.destination.table)


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
        live = f"t.{history.IS_CURRENT}"
        retired = gone.closed(now, schema[history.VALID_FROM].dataType.simpleString())
    elif destination.settings.hard_delete:
        retired = gone.removed()
    else:
        retired = gone.marked(now)
        if DELETED_AT in schema.names:
            live = f"t.{quote(DELETED_AT)} is null"
        else:
            prepare = partial(_add_mark, spark, destination, commit)
    live = f"{live} and {among}"
    return gone.retire(spark, table, came, live=live, retired=retired, prepare=prepare)


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
        found = _first_look(spark, work)
        if found is not None:
            _check_table(spark, work, found, commit)
        fence.confirm(spark)
        # Nobody asked for the columns of the stream alone.
        kept = found if destination.replaces_unasked else None
        plan = overwrite.Swap(
            batch=_empty_batch(spark, work, rows, kept),
            commit=replace(commit, rows=rows),
            layout=destination.layout,
            policy=destination.policy,
            **_held_at_swap(spark, work, found, commit),
        )
        told.append((overwrite.swap(spark, plan), rows))
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
        schema = _first_look(spark, work)
        if schema is None or progress.made_table:
            return
        fence.confirm(spark)
        retires = destination.retires_partitions and _is_ours(spark, destination, commit)
        try:
            # Without a key nobody knows which rows must stay, unless they are replaced already.
            is_open = bool(destination.keys) or not progress.is_emptied
            asks = destination.settings.quarantine and is_open
            held = _held_keys(spark, destination, schema, (), commit) if asks else None
        except UnreadableKeyError as error:
            logger.warning("Stream %s: %s, so no row is removed", destination.stream, error)
            _note_state(spark, work, commit, Counts())
            return
        spelled = _as_spelled(schema, destination.declared.names)
        batch = replace(_empty_batch(spark, work, 0, schema), schema=spelled)
        ending, steps = replace(commit, rows=0), list[Callable[[], Counts]]()
        if destination.removes_at_end:
            steps.append(lambda: replaced.remove_others(spark, batch, held))
        elif destination.replaces_range:
            steps.append(lambda: replaced.empty_range(spark, batch))
        if retires:
            steps.append(lambda: _retire_partitions(spark, destination, ending, batch, held))
        last = Counts()
        for number, step in enumerate(steps, 1):
            # The last of them makes the STATE true.
            is_last = number == len(steps)
            describe_commits(spark, ending if is_last else replace(ending, state=None))
            last = step()
            progress.has_changed |= bool(last)
            told.append((last, 0))
        _note_state(spark, work, commit, last)


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
        came, others = _or_no_keys(spark, destination, held), replaced.other_partitions(batch, "t.")
        return _retire(spark, destination, commit, came, among=others)
    others = replaced.other_partitions(batch)
    if table.rows(spark).where(others).isEmpty():
        return Counts()
    return execute(spark, table, f"delete from {table.sql} where {others}")


def _empty_batch(spark: SparkSession, work: Work, rows: int, before: T.StructType | None) -> Batch:
    """Return a batch that stands for what came before the end of a stream."""
    nothing = Segment(work.destination.stream, Path(), rows=rows)
    kept = work.destination.kept_metadata(nothing, before)
    shape = Shape(
        declared=work.destination.declared,
        metadata=kept,
        table=work.destination.incoming(kept),
        run_id="",
        batched_at=utc_now(),
    )
    return _batch(work, nothing, shape, spark.range(0), is_new=False)


def drop_staged(spark: SparkSession, work: Work) -> None:
    """Remove what is staged of a stream."""
    for staged in work.progress.waiting:
        staging.discard(spark, staged)


def drop_abandoned(spark: SparkSession, destination: Destination) -> None:
    """Drop the staged tables in a catalog that killed runs of the same pipeline have left.

    What fails here fails no load: the rows are committed.
    """
    fence.confirm(spark)
    try:
        staging.drop_abandoned(spark, destination.place(0), destination.staging_prefix)
    except SPARK_ERRORS as error:
        logger.warning("Staged tables of killed runs stay: %s", innermost_cause(error)[:300])


def check_identity(spark: SparkSession, work: Work, run: Assignment, source: str) -> None:
    """Refuse a table that the stored state does not belong to, if only Spark can read its log."""
    destination = work.destination
    known = run.tables[destination.stream]
    with explained(destination.stream):
        identity.check(known, destination.table, run, source, spark)


def tell_table(spark: SparkSession, work: Work, run: Assignment, source: str) -> None:
    """Tell the runner by what a table is known again, if only Spark can read its log."""
    destination = work.destination
    with explained(destination.stream):
        key = destination.merges_by
        identity.tell(destination.table, run, destination.stream, key, spark, source)


def drop_spooled(spark: SparkSession, staging: str) -> None:
    """Remove what is left of the lines that a run has sent: an empty folder for each segment."""
    empty_folder(spark, staging)


def utc_now() -> str:
    """Return the time as Spark reads it."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f+00:00")


@contextmanager
def reported(stream: str) -> Iterator[list[tuple[Counts, int]]]:
    """Tell the runner what has become of so many records, once that is committed."""
    started = time.monotonic()
    told: list[tuple[Counts, int]] = []
    yield told
    for counts, rows in told:
        report(
            "commit",
            stream,
            rows=rows,
            inserted=counts.inserted,
            updated=counts.updated,
            deleted=counts.deleted,
            unchanged=counts.unchanged,
            milliseconds=round((time.monotonic() - started) * 1000),
        )
        if counts.late:
            report("late", stream, rows=counts.late.rows, seconds=counts.late.seconds)
        if rows and not counts:
            logger.info("%s: nothing changed, no commit", stream)


@contextmanager
def explained(stream: str) -> Iterator[None]:
    """Turn what Spark says into one line."""
    try:
        yield
    except SPARK_ERRORS as error:
        if gone := lost_engine(error):
            raise gone from error
        if reason := refusal(error):
            raise RecordError(f"stream {stream}, {reason}; fix the data or its schema") from error
        # Java's own exceptions begin with where they were met, and tell the condition later.
        found = re.search(r"\[[A-Z][A-Z_.]+\][^\n]*", str(error))
        cause = innermost_cause(error)
        said = (found[0] if found else cause)[:500]
        if is_unreachable(cause):
            raise TransientError(f"stream {stream}: {cause[:500]}; run again later") from error
        if "NOT_NULL_CONSTRAINT" in said:
            said = f"{said}; fix the data or drop the constraint"
            raise RecordError(f"stream {stream}: {said}") from error
        raise SingerSparkError(f"stream {stream}: {said}") from error


def refusal(error: Exception) -> str | None:
    """Return why a record was refused, if that is what made Spark fail."""
    found = re.search(r"\[USER_RAISED_EXCEPTION\] (.*?) SQLSTATE", str(error), re.DOTALL)
    return found[1] if found else None
