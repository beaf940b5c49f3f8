"""Jobs beside the loading: a table is claimed or known again, what others have left is removed."""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession

from singer_spark.assignment import Assignment
from singer_spark.engine.session import SPARK_ERRORS
from singer_spark.errors import innermost_cause
from target_spark_delta import fence, identity
from target_spark_delta.commit import Commit, describe_commits
from target_spark_delta.destination import Destination
from target_spark_delta.load import Work, first_look
from target_spark_delta.methods import staging
from target_spark_delta.outcome import explained
from target_spark_delta.reading import empty_folder

logger = logging.getLogger(__name__)


def claim_table(spark: SparkSession, work: Work, commit: Commit) -> None:
    """Claim a table from a run that held the lock before, whether there are records or not."""
    with explained(work.destination.stream):
        describe_commits(spark, commit.without_rows())
        first_look(spark, work)


def check_identity(spark: SparkSession, work: Work, run: Assignment, source: str) -> None:
    """Refuse a table that the stored state does not belong to, if only Spark can read its log."""
    destination = work.destination
    known = run.tables[destination.stream]
    with explained(destination.stream):
        identity.check(known, destination.table, run, source, spark)


def tell_table(
    spark: SparkSession | None, work: Work, run: Assignment, source: str, *, is_end: bool = False
) -> bool:
    """Tell the runner by what a table is known again; return whether its log could be read.

    At the end of a run one that lacks rows by then is refused.
    """
    to = work.destination
    known = run.tables.get(to.stream)
    with explained(to.stream):
        history = identity.history_of(to.table, known, spark)
        if history is None:
            return False
        if is_end:
            before = known if to.rests_on_table else None
            identity.check_end(before, history, to.table, run, source, work.progress.versions)
        identity.tell(history, to.table, run, to.stream, to.merges_by, spark, source)
    return True


def drop_abandoned(spark: SparkSession, destination: Destination) -> None:
    """Drop the staged tables in a catalog that killed runs of the same pipeline have left.

    What fails here fails no load: the rows are committed.
    """
    fence.confirm(spark)
    try:
        staging.drop_abandoned(spark, destination.place(0), destination.staging_prefix)
    except SPARK_ERRORS as error:
        logger.warning("Staged tables of killed runs stay: %s", innermost_cause(error)[:300])


def drop_spooled(spark: SparkSession, staging: str) -> None:
    """Remove what is left of the lines that a run has sent: an empty folder for each segment."""
    empty_folder(spark, staging)
