"""One segment into one commit: the table is made to fit, then the rows are written."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from singer_spark.engine.machine import shares_disk
from singer_spark.engine.session import SPARK_ERRORS
from singer_spark.errors import StateError, TransientError
from singer_spark.report import report
from singer_spark.types import column_names
from target_spark_delta.commits.reports import explained, refusal, reported, utc_now
from target_spark_delta.intake.segments import KeyFacts, Segment
from target_spark_delta.intake.validation import DELETED_AT
from target_spark_delta.methods import METHODS, append, overwrite, retire
from target_spark_delta.methods.batch import Batch, Work
from target_spark_delta.rows.columns import Columns
from target_spark_delta.rows.records import empty_staging
from target_spark_delta.rows.segment_reader import OpenSegment, open_segment
from target_spark_delta.rows.spark_jobs import (
    FEW_ROWS,
    WIDE,
    Footer,
    facts_in_files,
    interpret,
    planned_once,
)
from target_spark_delta.streams.destination import Destination
from target_spark_delta.streams.safety import (
    changed_key,
    check_key,
    check_parts,
    check_reload,
    is_other_key,
    known_key,
    note_key,
)
from target_spark_delta.table import races
from target_spark_delta.table.commit import Commit, Counts, describe_commits, note, take_back_own
from target_spark_delta.table.ddl import adapt, create, regain_clusters
from target_spark_delta.table.earlier_rows import check_owner
from target_spark_delta.table.evolve import changed
from target_spark_delta.table.log import metadata_of, newest_version, read_commit
from target_spark_delta.table.quarantine import set_aside


def load_segment(
    spark: SparkSession, work: Work, segment: Segment, commit: Commit, *, if_made: Commit
) -> None:
    """Commit a segment's records; what cannot be loaded is set aside first, where that is asked.

    Where this run has made the table the commit says `if_made` of itself instead.
    """
    destination = work.destination
    if sum(1 for _ in column_names(destination.declared)) > WIDE:
        interpret(spark)
    with explained(destination.stream), reported(destination.stream) as done:
        spool = destination.spool_folder(commit.run_id)
        source = open_segment(
            spark, segment, staging=spool, quarantine=destination.settings.quarantine
        )
        if segment.rejected:
            set_aside(spark, destination.quarantine, source.rejected(), commit)
        if segment.rejected < segment.rows:
            counts = _load_rows(spark, work, segment, source, commit, if_made)
            _check_size(spark, work, segment, counts, commit)
            see_same_table(spark, work, commit.run_id)
            _note_change(spark, work, counts, if_made if work.progress.made_table else commit)
            _note_key(spark, work, counts, commit)
            done += [] if counts is None else [(counts, segment.loaded)]
        work.progress.set_aside += segment.rejected
        empty_staging(spark, segment, spool)


def _check_size(
    spark: SparkSession, work: Work, segment: Segment, counts: Counts | None, commit: Commit
) -> None:
    """See that nothing was cut while Spark read it, for it still is; take back what lacks rows."""
    try:
        segment.check_size()
    except TransientError:
        if counts:
            take_back_own(spark, work.destination.table, commit)
        raise


def _note_change(spark: SparkSession, work: Work, counts: Counts | None, commit: Commit) -> None:
    """Remember that a commit was made, and which STATE it carries."""
    if counts:
        work.progress.has_changed, work.progress.carried = True, commit.state
        if counts.version is not None:
            work.progress.versions.add(counts.version)
        note_claim(spark, work)


def _load_rows(
    spark: SparkSession,
    work: Work,
    segment: Segment,
    source: OpenSegment,
    commit: Commit,
    if_made: Commit,
) -> Counts | None:
    destination = work.destination
    describe_commits(spark, commit.without_rows())
    found = first_look(spark, work)
    see_same_table(spark, work, commit.run_id)
    work.progress.made_table |= found is None
    commit = if_made if work.progress.made_table else commit
    before = None if destination.overwrites else found
    if destination.appends and destination.bookmarks and work.progress.first_look is None:
        # Before the table is changed to fit.
        work.progress.first_look = append.first_look_at(spark, destination.table, found)
    if found is not None:
        check_table(spark, work, found, commit)
        _follow_key(spark, work, commit)
    work.progress.key = destination.merges_by
    partitions = _partition_columns(spark, work, commit, is_there=found is not None)
    kept = destination.kept_metadata(segment, before)
    columns = Columns(
        declared=destination.declared,
        metadata=destination.read_metadata(segment, kept),
        table=_fitting_table(spark, destination, destination.incoming(kept), before),
        run_id=commit.run_id,
        batched_at=utc_now(),
        dates_deletions=destination.keeps_history,
        partition_by=partitions,
    )
    work.progress.has_table |= not destination.overwrites
    records = source.read(columns)

    def write(rows: DataFrame) -> Counts | None:
        describe_commits(spark, replace(commit, rows=segment.loaded))
        batch = replace(
            make_batch(work, columns, rows, segment.loaded),
            is_new=before is None,
            is_partial=segment.is_partial,
            removes=destination.removes(segment),
            scratch=segment.path.parent if shares_disk() else None,
        )
        facts = segment.facts or _facts_in_files(batch, source.footers, segment)
        batch = replace(batch, facts=facts)
        if destination.overwrites or (destination.stages_parts and not work.progress.made_table):
            overwrite.stage(spark, batch, destination.staged_table, commit.run_id)
            return None
        # Of few rows in files of a known size the plan is clear.
        is_small = batch.scratch is not None and batch.count <= FEW_ROWS
        with planned_once(spark) if is_small else nullcontext():
            counts = METHODS[destination.method](spark, batch)
        if destination.retires and not work.progress.made_table:
            retire.stage_keys(spark, batch, batch.rows)
        return counts

    try:
        return write(records.rows())
    except SPARK_ERRORS as error:
        if not (destination.settings.quarantine and refusal(error)):
            raise
        segment.rejected += set_aside(spark, destination.quarantine, records.misfits(), commit)
        segment.facts = None
        return write(records.fitting_rows()) if segment.loaded else None


def first_look(spark: SparkSession, work: Work) -> T.StructType | None:
    """Return the table's schema; a run that took the lock from another claims the table first."""
    destination, progress = work.destination, work.progress
    schema = destination.table.schema(spark)
    if schema is None:
        # What is loaded as a whole needs nothing that was there before.
        if progress.has_table and not destination.overwrites:
            raise vanished(destination)
        return None
    progress.has_table = True
    if races.must_claim(spark) and not progress.has_claimed:
        note(spark, destination.table)
        note_claim(spark, work)
        schema = destination.table.schema(spark)
    return schema


def see_same_table(spark: SparkSession, work: Work, run_id: str) -> None:
    """See that the last commit of the run is still in the table, that nobody made it anew."""
    version, destination = max(work.progress.versions, default=None), work.destination
    if version is None or destination.overwrites:
        return
    info = read_commit(spark, destination.table, version)
    if info is None:
        # It was cleaned up, unless there are only older ones.
        is_same = newest_version(spark, destination.table) >= version
    else:
        is_same = info.metadata.get("run_id") == run_id
    if not is_same:
        raise vanished(destination)


def note_claim(spark: SparkSession, work: Work) -> None:
    """Note after a commit that a run which held the lock before can make none any more."""
    if races.must_claim(spark) and not work.progress.has_claimed:
        work.progress.has_claimed = True
        report("claimed", work.destination.stream)


def vanished(destination: Destination) -> StateError:
    """Return the error of a table that is gone with rows of the run."""
    way = f"singer-spark run {destination.pipeline or 'PIPELINE'} --refresh {destination.read_as}"
    return StateError(
        f"stream {destination.stream}: {destination.table}: the table was removed or made anew "
        f"while the run loaded it, and rows with it; no STATE is released; load it anew: {way}"
    )


def make_batch(work: Work, columns: Columns, rows: DataFrame, count: int) -> Batch:
    """Return rows with what a load method needs to know of their stream."""
    destination = work.destination
    known = {name.lower() for name in columns.table.names}
    return Batch(
        rows=rows,
        count=count,
        columns=[name for name in columns.columns if name.lower() in known],
        always={*columns.metadata, DELETED_AT},
        keys=destination.keys,
        table=destination.table,
        schema=as_spelled(columns.table, columns.columns),
        skip_unchanged=destination.settings.skip_unchanged,
        bookmark=work.bookmark,
        options=destination.options,
        progress=work.progress,
        staged_table=destination.staged_table,
        scope=destination.scope,
        compares_by=destination.compares_by,
        removes_at_end=destination.removes_at_end and not work.progress.made_table,
    )


def _facts_in_files(batch: Batch, footers: Sequence[Footer], segment: Segment) -> KeyFacts | None:
    """Look at the keys of files from here, where all of their rows are loaded as they are."""
    if not footers or segment.rejected or batch.is_partial:
        return None
    return facts_in_files(footers, batch.keys, batch.schema)


def as_spelled(table: T.StructType, columns: Sequence[str]) -> T.StructType:
    """Name a table's columns as the stream does, whose options are about them."""
    names = {name.lower(): name for name in columns}
    return T.StructType([changed(field, name=names.get(field.name.lower())) for field in table])


def check_table(spark: SparkSession, work: Work, schema: T.StructType, commit: Commit) -> None:
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
            known = metadata_of(spark, destination.table)
            check_key(destination, known.properties, commit.pipeline)
            is_noted = known_key(known.properties) is not None
            progress.lacks_key = destination.merges and not is_noted
            columns = columns.union(known.partition_columns)
            if clusters := destination.layout.cluster_by:
                detail = destination.table.detail(spark)
                regain_clusters(spark, destination.table, detail, clusters)
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
