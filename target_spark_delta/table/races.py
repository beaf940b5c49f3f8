"""Commits that lose a race: to another writer they are repeated, to a newer run never.

Only the newest holder of a pipeline's lock commits: an older one that wakes up is refused. Each
commit carries a transaction of Delta, made of the holder's generation and a running number. MERGE,
UPDATE, DELETE and writes look at it: Delta skips a commit whose number is not higher than the
table's, and refuses one that a higher number overtakes. ALTER and CREATE ignore it, so that before
those the lock itself is looked at.
"""

from __future__ import annotations

import itertools
import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from pyspark.sql import SparkSession

from singer_spark.assignment import Assignment
from singer_spark.engine.session import SPARK_ERRORS
from singer_spark.errors import TransientError
from singer_spark.report import report
from singer_spark.state.holder import confirm_lock, is_sole_holder
from target_spark_delta.table.table import Table

logger = logging.getLogger(__name__)

# What a session knows of its run; every stream has a session of its own.
_RUN = "spark.singerSpark.run"
_APP_ID = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"
# So many commits may a holder make before its numbers reach those of the next generation.
_NUMBERS = 2**20
_numbers = itertools.count(1)
_T = TypeVar("_T")
_ATTEMPTS = 5
# What Delta says of a commit that another writer overtook.
_OVERTAKEN = ("DELTA_CONCURRENT", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED")
# What it says of one that a newer run of the pipeline overtook, which must not be repeated.
_FENCED = "DELTA_CONCURRENT_TRANSACTION"


def fence(spark: SparkSession, assignment: Assignment) -> None:
    """Make the commits of a session those of a run, which a newer one can refuse."""
    if assignment.generation is not None and assignment.pipeline:
        run = [assignment.pipeline, assignment.generation, assignment.run_id, assignment.claims]
        spark.conf.set(_RUN, json.dumps(run))


def is_fenced(spark: SparkSession) -> bool:
    """Say whether a newer run can refuse the commits of this session."""
    return _run_of(spark) is not None


def must_claim(spark: SparkSession) -> bool:
    """Say whether the lock was taken from a run that may still be at work on its tables."""
    run = _run_of(spark)
    return run is not None and run.claims


@contextmanager
def transaction(spark: SparkSession) -> Iterator[None]:
    """Give the commit that is made within the next number; each needs one of its own."""
    run = _run_of(spark)
    if run is None:
        yield
        return
    spark.conf.set(_APP_ID, f"singer-spark:{run.pipeline}")
    spark.conf.set(_VERSION, str(run.generation * _NUMBERS + next(_numbers)))
    try:
        yield
    finally:
        # Delta would skip the next write of the session, whatever its table.
        spark.conf.unset(_APP_ID)
        spark.conf.unset(_VERSION)


def confirm(spark: SparkSession) -> None:
    """See that the run still holds its lock, before what Delta's transactions do not guard."""
    if run := _run_of(spark):
        confirm_lock(
            Assignment(run_id=run.run_id, pipeline=run.pipeline, generation=run.generation)
        )


def overtaken(what: object) -> TransientError:
    """Return the error of a run whose commits have lower numbers than some that are there.

    They are those of a run that has taken its place, or of one before, whose clock ran ahead and
    whose store was lost: then the next run counts on above them.
    """
    run = Assignment.here()
    if is_sole_holder(run):
        report("outnumbered", "")
        return TransientError(
            f"{what}: its commits have higher numbers than this run: the state store was lost or "
            f"moved after a clock ran ahead; count on above them: singer-spark run {run.pipeline}"
        )
    return TransientError(
        f"{what}: another run has taken over while this one was paused or unlocked, and nothing "
        f"more is committed; once that has ended: singer-spark run {run.pipeline or 'PIPELINE'}"
    )


class _Run(NamedTuple):
    pipeline: str
    generation: int
    run_id: str
    claims: bool


def _run_of(spark: SparkSession) -> _Run | None:
    noted = spark.conf.get(_RUN, None)
    return _Run(*json.loads(noted)) if noted else None


def is_lost_race(table: Table, error: Exception) -> bool:
    """Say whether another writer was faster, which is no error of this one.

    A newer run of the pipeline is one.
    """
    if _FENCED in str(error):
        raise overtaken(table) from error
    return any(condition in str(error) for condition in _OVERTAKEN)


def with_retry(table: Table, action: Callable[[], _T]) -> _T:
    """Repeat what commits to a table, if it lost a race against another writer."""
    for attempt in range(_ATTEMPTS):
        try:
            return action()
        except SPARK_ERRORS as error:
            if not is_lost_race(table, error):
                raise
            logger.warning("%s: another writer was faster, trying again", table)
            time.sleep(2**attempt / 4)
    raise TransientError(
        f"{table}: another writer commits to it all the time; run again when it has finished"
    )
