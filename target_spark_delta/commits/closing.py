"""The end of the input: complete streams take effect; tables are maintained and reported."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from singer_spark.engine.session import SPARK_ERRORS
from singer_spark.errors import ProtocolError, innermost_cause
from singer_spark.report import is_reporting
from target_spark_delta.commits.completion import drop_staged, end_parts, retire_gone, swap_in
from target_spark_delta.commits.lanes import Job
from target_spark_delta.commits.queue import CommitQueue
from target_spark_delta.commits.reports import report_table, stream_table
from target_spark_delta.methods import staging
from target_spark_delta.rows.records import empty_folder
from target_spark_delta.sink import SparkDeltaSink
from target_spark_delta.streams.destination import Destination
from target_spark_delta.table import races
from target_spark_delta.table.maintenance import maintain

logger = logging.getLogger(__name__)


def close(queue: CommitQueue, sinks: Collection[SparkDeltaSink]) -> None:
    """Do what waited for the end of the input, once everything is committed that came in it."""
    _end_streams(queue, sinks)
    _maintain_tables(queue, sinks)
    _report_tables(queue, sinks)
    if queue.assignment.cleans:
        _drop_abandoned(queue, sinks)
    _drop_spooled(queue, sinks)


def _end_streams(queue: CommitQueue, sinks: Collection[SparkDeltaSink]) -> None:
    """Do what waited for the end of streams, and release what was held back until then."""
    unfinished = []
    for sink in sinks:
        if sink.destination.replaces_parts and queue.is_held_back(sink):
            is_ended = _end_stream_of_parts(queue, sink)
            if not is_ended and sink.progress.staged:
                # None of its rows is in the table.
                unfinished.append(sink.destination.stream)
    queue.release()
    for sink in sinks:
        _retire(queue, sink)
        if sink.progress.waiting and not sink.destination.overwrites:
            queue.do(sink, partial(drop_staged, work=sink.work))
    _swap(queue, sinks, unfinished)


def _end_stream_of_parts(queue: CommitQueue, sink: SparkDeltaSink) -> bool:
    """Have removed what a stream had no record of in the parts that it replaces, if it is complete.

    Return whether it is.
    """
    # A tap that says nothing at all has nothing but the end of its output.
    is_mute = queue.states.newest is None and sink.destination.scope is None
    if queue.is_confirmed(sink) or is_mute:
        job: Job | None = None
        # No commit before the end of the input carries the last STATE.
        is_carried = is_mute or not sink.progress.has_changed
        if sink.destination.acts_at_end or not is_carried:
            commit, work = queue.commit_of(sink, queue.states.newest, is_end=True), sink.work
            job = lambda spark: end_parts(spark, work, commit())  # noqa: E731
        queue.end_stream(sink, job)
        return True
    if queue.states.newest is not None:
        logger.warning(
            "Stream %s: no STATE since its first record is released, because nothing says "
            "that the stream is complete; the next run loads it again",
            sink.destination.stream,
        )
    return False


def _retire(queue: CommitQueue, sink: SparkDeltaSink) -> None:
    """Have the rows retired that are gone at the source, after a whole read of all of them."""
    destination = sink.destination
    if destination.retires_partitions and queue.is_confirmed(sink):
        return  # done with the end of its parts
    by_partition = destination.method == "partition-overwrite"
    if not destination.reloads or not (destination.merges or by_partition):
        return
    if destination.retires and queue.is_confirmed(sink):
        commit, work = queue.commit_of(sink, queue.states.newest, is_end=True), sink.work
        seen = sink.versions
        queue.do(sink, lambda spark: retire_gone(spark, work, commit(), seen))
    elif by_partition or not destination.replaces_parts:
        logger.warning(
            "Stream %s was not read as a whole, so rows that are gone at the source stay",
            destination.stream,
        )


def _swap(queue: CommitQueue, sinks: Iterable[SparkDeltaSink], unfinished: list[str]) -> None:
    """Let the rows of complete streams take their tables' place, and drop those of others.

    Of those in `unfinished` rows were dropped already.
    """
    for sink in sinks:
        has_come = sink.last_line or sink.activated_line or sink.destination.scope
        if not sink.destination.overwrites or not has_come:
            continue
        queue.hold_back(sink.destination.stream)
        if queue.is_confirmed(sink):
            queue.end_stream(sink, _swapping(queue, sink))
        else:
            unfinished.append(sink.destination.stream)
            queue.do(sink, partial(drop_staged, work=sink.work))
    queue.drain()
    if unfinished:
        raise ProtocolError(
            f"nothing says that {', '.join(unfinished)} is complete: no ACTIVATE_VERSION and "
            "no final STATE came after its last record; its table stays as it was; look at "
            "the tap"
        )


def _swapping(queue: CommitQueue, sink: SparkDeltaSink) -> Job:
    commit, work = queue.commit_of(sink, queue.states.newest), sink.work

    def swap(spark: SparkSession) -> None:
        swap_in(spark, work, replace(commit(), replaces=True))
        queue.report_first(spark, sink)

    return swap


def _maintain_tables(queue: CommitQueue, sinks: Iterable[SparkDeltaSink]) -> None:
    """Have tables compacted and vacuumed, where that is asked."""
    for sink in sinks:
        options = sink.destination.options
        after, hours = options.optimize_after_commits, options.vacuum_retention_hours
        if after or hours:
            table = sink.destination.table
            queue.do(sink, partial(maintain, table=table, compact_after=after, keep_hours=hours))
    queue.drain()


def _report_tables(queue: CommitQueue, sinks: Collection[SparkDeltaSink]) -> None:
    """Report to the runner by what each table is known again."""
    if not is_reporting():
        return
    run = queue.assignment
    for sink in sinks:
        table = stream_table(sink.destination, run)
        end = partial(report_table, work=sink.work, run=run, is_end=True)
        if sum(one.source == sink.source for one in sinks) > 1:
            # Of several tables that a stream fills one may have had no row yet.
            table.report_absent()
        has_rows = sink.last_line or (table.known and not table.known.is_absent)
        if not end(None) and has_rows:
            queue.do(sink, end)
    queue.drain()


def _drop_abandoned(queue: CommitQueue, sinks: Iterable[SparkDeltaSink]) -> None:
    """Have the staged tables of killed runs dropped, once nothing of this one is staged.

    Who holds a pipeline's lock knows that no other run of it lives.
    """
    run = queue.assignment
    in_catalog = (sink for sink in sinks if sink.destination.settings.catalog)
    # Spark is not started for this alone.
    if run.pipeline and run.generation is not None and queue.batches:
        for sink in itertools.islice(in_catalog, 1):
            queue.do(sink, partial(drop_abandoned, destination=sink.destination))
    queue.drain()


def _drop_spooled(queue: CommitQueue, sinks: Iterable[SparkDeltaSink]) -> None:
    """Have the folder emptied that a remote Spark has read records from."""
    for sink in sinks:
        if staging := sink.destination.spool_folder(queue.assignment.run_id):
            queue.do(sink, partial(empty_folder, place=staging))
            break
    queue.drain()


def drop_abandoned(spark: SparkSession, destination: Destination) -> None:
    """Drop the staged tables in a catalog that killed runs of the same pipeline have left.

    What fails here fails no load: the rows are committed.
    """
    races.confirm(spark)
    try:
        staging.drop_abandoned(spark, destination.staged_table(0), destination.staging_prefix)
    except SPARK_ERRORS as error:
        logger.warning("Staged tables of killed runs stay: %s", innermost_cause(error)[:300])
