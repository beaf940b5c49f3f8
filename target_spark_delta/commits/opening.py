"""The start of a stream: its table is known again and claimed, and rows will not be there twice."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pyspark.sql import SparkSession

from target_spark_delta.commits.queue import CommitQueue
from target_spark_delta.commits.reports import explained, stream_table
from target_spark_delta.commits.segment_commit import first_look
from target_spark_delta.methods.batch import Work
from target_spark_delta.sink import SparkDeltaSink
from target_spark_delta.streams.destination import Destination
from target_spark_delta.streams.safety import needs_other_key
from target_spark_delta.table.commit import Commit, describe_commits
from target_spark_delta.table.earlier_rows import check_failed_runs, check_start
from target_spark_delta.table.table import Table


def with_key(queue: CommitQueue, destination: Destination) -> Destination:
    """Return a stream's destination, once it is known what its table was merged by.

    Rows that are loaded afresh by another key take the place of those that are there.
    """
    if not destination.retires or destination.keeps_history:
        return destination
    answers: list[bool] = []
    queue.wait_for(
        destination.stream, lambda spark: answers.append(needs_other_key(spark, destination))
    )
    return replace(destination, is_rekeyed=answers[0])


def open_tables(
    queue: CommitQueue, sinks: Collection[SparkDeltaSink], new: Collection[SparkDeltaSink]
) -> None:
    """See that tables may be loaded, before a row is: `new` ones of all that a stream fills."""
    for sink in new:
        _check_identity(queue, sink)
        is_claimed = _claim(queue, sink)
        destination = sink.destination
        if destination.appends and not destination.bookmarks and not destination.reloads:
            _check_rows(queue, sink, _others(queue, sink, sinks), is_claimed=is_claimed)


def _check_identity(queue: CommitQueue, sink: SparkDeltaSink) -> None:
    """See that a stream's table is the one that the stored state belongs to."""
    if not sink.destination.rests_on_table:
        return
    table = stream_table(sink.destination, queue.assignment)
    table.check_name()
    # One that is removed from here on must not be made anew for the increment alone.
    sink.progress.has_table = table.known is not None and not table.known.is_absent

    def check(spark: SparkSession) -> None:
        with explained(table.stream):
            table.check(spark)

    if not table.check(None):
        queue.do(sink, check)


def _claim(queue: CommitQueue, sink: SparkDeltaSink) -> bool:
    """Claim a table from a run that held the lock before; return whether that is still to be done.

    It may still be at work, whether a record comes or not.
    """
    run = queue.assignment
    sink.progress.has_claimed = sink.destination.stream in run.claimed
    if not run.claims or sink.progress.has_claimed:
        return False
    commit, work = queue.commit_of(sink, None), sink.work
    queue.do(sink, lambda spark: claim_table(spark, work, commit()))
    return True


def _check_rows(
    queue: CommitQueue, sink: SparkDeltaSink, others: Collection[Table], *, is_claimed: bool
) -> None:
    """See that rows which nothing tells apart are not appended to a table that has them."""
    destination = sink.destination
    table = stream_table(destination, queue.assignment)
    by_name = destination.options.load_method == "append-only"

    def check(spark: SparkSession | None) -> bool:
        is_judged = check_failed_runs(table, spark, others)
        if destination.scope is not None:
            is_judged &= check_start(table, spark, by_name=by_name)
        return is_judged

    def job(spark: SparkSession) -> None:
        with explained(destination.stream):
            check(spark)

    # What is committed before the claim must be seen, so nothing is looked at before.
    if is_claimed or not check(None):
        queue.do(sink, job)


def _others(
    queue: CommitQueue, sink: SparkDeltaSink, sinks: Collection[SparkDeltaSink]
) -> Collection[Table]:
    """Return the other tables that a stream of the tap fills, or has filled before."""
    destination, source = sink.destination, sink.source
    known = queue.assignment.tables.items()
    names = {name for name, one in known if (one.state_of or name) == source and not one.is_absent}
    names |= {one.destination.stream for one in sinks}
    names.discard(destination.stream)
    return [replace(destination, stream=name).table for name in sorted(names)]


def claim_table(spark: SparkSession, work: Work, commit: Commit) -> None:
    """Claim a table from a run that held the lock before, whether there are records or not."""
    with explained(work.destination.stream):
        describe_commits(spark, commit.without_rows())
        first_look(spark, work)
