"""What has become of a load: facts for the runner, or one line that explains the failure."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone

from pyspark.sql import SparkSession

from singer_spark.assignment import Assignment
from singer_spark.engine.session import SPARK_ERRORS, lost_engine
from singer_spark.errors import (
    RecordError,
    SingerSparkError,
    TransientError,
    innermost_cause,
    is_unreachable,
)
from singer_spark.report import report
from singer_spark.shown import without_values
from target_spark_delta.methods.batch import Work
from target_spark_delta.streams.destination import Destination
from target_spark_delta.table.commit import Counts
from target_spark_delta.table.identity import StreamTable

logger = logging.getLogger(__name__)


def utc_now() -> str:
    """Return the time as Spark reads it."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f+00:00")


@contextmanager
def reported(stream: str) -> Iterator[list[tuple[Counts, int]]]:
    """Tell the runner what has become of so many records, once that is committed."""
    started = time.monotonic()
    done: list[tuple[Counts, int]] = []
    yield done
    for counts, rows in done:
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
        raise SingerSparkError(f"stream {stream}: {without_values(said)}") from error


def refusal(error: Exception) -> str | None:
    """Return why a record was refused, if that is what made Spark fail."""
    found = re.search(r"\[USER_RAISED_EXCEPTION\] (.*?) SQLSTATE", str(error), re.DOTALL)
    return found[1] if found else None


def report_table(
    spark: SparkSession | None, work: Work, run: Assignment, *, is_end: bool = False
) -> bool:
    """Report by what a table is known again; return whether its log could be read.

    At the end of a run one that lacks rows by then is refused.
    """
    to = work.destination
    table = stream_table(to, run)
    with explained(to.stream):
        history = table.history(spark)
        if history is None:
            return False
        if is_end:
            table.check_end(history, work.progress.versions, rests=to.rests_on_table)
        table.report(history, spark)
    return True


def stream_table(to: Destination, run: Assignment) -> StreamTable:
    """Return the table of a stream in a run."""
    return StreamTable(to.table, run, to.stream, to.read_as, to.merges_by)
