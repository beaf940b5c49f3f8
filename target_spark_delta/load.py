"""One segment into one commit: the table is made to fit, then the rows are written."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from singer_spark.errors import RecordError, SingerSparkError
from singer_spark.report import report
from singer_spark.session import SPARK_ERRORS
from target_spark_delta import table
from target_spark_delta.commit import Commit, Counts, describe_commits
from target_spark_delta.frame import METADATA, TABLE_VERSION, Shape
from target_spark_delta.methods import METHODS, Batch, versions
from target_spark_delta.options import StreamSettings
from target_spark_delta.quarantine import set_aside
from target_spark_delta.reading import empty_staging
from target_spark_delta.settings import Settings
from target_spark_delta.source import Source, open_source
from target_spark_delta.spool import Segment
from target_spark_delta.table import Table
from target_spark_delta.validation import DELETED_AT

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where the records of one stream go, under one schema."""

    stream: str
    table: Table
    declared: T.StructType
    keys: tuple[str, ...]
    options: StreamSettings
    settings: Settings

    @property
    def method(self) -> str:
        """Name the load method; without a key there is nothing to upsert by."""
        method = self.options.load_method
        return "append-only" if method == "upsert" and not self.keys else method

    @property
    def appends(self) -> bool:
        """Say whether every record becomes a row of its own."""
        return self.method == "append-only"

    @property
    def staging(self) -> str | None:
        """Return where records wait that Spark cannot read from this machine's disk."""
        settings = self.settings
        return None if settings.spark.is_local else f"{settings.path}/_singer_spark/spool"

    @property
    def quarantine(self) -> Table:
        """Return the table of the records that could not be loaded."""
        return Table.of_stream(self.settings.path, "_quarantine", self.stream)

    def removes(self, segment: Segment) -> bool:
        """Say whether a segment's deletions remove rows."""
        return segment.has_deletions and self.settings.hard_delete and not self.appends


def load_segment(
    spark: SparkSession, destination: Destination, segment: Segment, commit: Commit
) -> None:
    """Commit a segment's records; what cannot be loaded is set aside first, where that is asked."""
    with explained(destination.stream), reported(destination.stream, segment) as told:
        source = open_source(
            spark,
            segment,
            staging=destination.staging,
            quarantine=destination.settings.quarantine,
        )
        if segment.rejected:
            set_aside(spark, destination.quarantine, source.rejected(), commit)
        if segment.rejected < segment.rows:
            told.append(_load_rows(spark, destination, segment, source, commit))
        empty_staging(spark, segment, destination.staging)


def _load_rows(
    spark: SparkSession, destination: Destination, segment: Segment, source: Source, commit: Commit
) -> Counts:
    describe_commits(spark, replace(commit, batch=None, rows=None, state=None))
    before = destination.table.schema(spark)
    metadata = _metadata(destination, segment, before)
    schema = _fitting_table(spark, destination, metadata, before)
    shape = Shape(
        declared=destination.declared,
        metadata=_with_flag(destination, segment, metadata),
        table=schema,
        run_id=commit.run_id,
        batched_at=utc_now(),
    )
    records = source.read(shape)

    def write(rows: DataFrame) -> Counts:
        describe_commits(spark, replace(commit, rows=segment.loaded))
        batch = _batch(destination, segment, shape, rows, is_new=before is None)
        return METHODS[destination.method](spark, batch)

    try:
        return write(records.rows())
    except SPARK_ERRORS as error:
        if not (destination.settings.quarantine and refusal(error)):
            raise
        segment.rejected += set_aside(spark, destination.quarantine, records.misfits(), commit)
        segment.facts = None
        return write(records.fitting_rows())


def _batch(
    destination: Destination, segment: Segment, shape: Shape, rows: DataFrame, *, is_new: bool
) -> Batch:
    known = {name.lower() for name in shape.table.names}
    return Batch(
        rows=rows,
        count=segment.loaded,
        columns=[name for name in shape.columns if name.lower() in known],
        always=set(shape.metadata) - {DELETED_AT},
        keys=destination.keys,
        facts=segment.facts,
        table=destination.table,
        schema=shape.table,
        is_new=is_new,
        is_partial=segment.is_partial,
        removes=destination.removes(segment),
        skip_unchanged=destination.settings.skip_unchanged,
        options=destination.options,
    )


def _with_flag(destination: Destination, segment: Segment, metadata: list[str]) -> list[str]:
    """Add the mark of a deletion where it decides what goes, though the table does not keep it."""
    known = {*metadata, *destination.declared.names}
    flagged = destination.removes(segment) and DELETED_AT not in known
    return [*metadata, DELETED_AT] if flagged else metadata


def _metadata(destination: Destination, segment: Segment, before: T.StructType | None) -> list[str]:
    """Choose the `_sdc_*` columns of a batch: what is asked for, and what its records need."""
    present = set(before.names) if before else set()
    needed = set(METADATA) if destination.settings.add_record_metadata else set()
    if segment.has_versions or TABLE_VERSION in present:
        needed.add(TABLE_VERSION)
    if DELETED_AT in present or (segment.has_deletions and not destination.removes(segment)):
        needed.add(DELETED_AT)
    return [name for name in METADATA if name in needed - set(destination.declared.names)]


def _fitting_table(
    spark: SparkSession,
    destination: Destination,
    metadata: list[str],
    before: T.StructType | None,
) -> T.StructType:
    incoming = T.StructType(
        [*destination.declared.fields, *(T.StructField(name, METADATA[name]) for name in metadata)]
    )
    if before is None:
        table.create(spark, destination.table, incoming, destination.settings.table_properties)
        return incoming
    return table.adapt(
        spark,
        destination.table,
        incoming,
        freeze=destination.settings.freeze,
        allow_rewrite=destination.options.allow_rewrite,
    )


def activate_version(
    spark: SparkSession, destination: Destination, version: int, commit: Commit
) -> None:
    """Retire the rows of older versions."""
    with explained(destination.stream), reported(destination.stream) as told:
        describe_commits(spark, commit)
        schema = destination.table.schema(spark)
        if schema is None or TABLE_VERSION not in schema.names:
            return
        hard = destination.settings.hard_delete
        if not hard and DELETED_AT not in schema.names:
            marker = T.StructType([T.StructField(DELETED_AT, T.TimestampType())])
            table.adapt(spark, destination.table, marker)
        told.append(
            versions.retire(spark, destination.table, version, hard=hard, deleted_at=utc_now())
        )


def utc_now() -> str:
    """Return the time as Spark reads it."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f+00:00")


@contextmanager
def reported(stream: str, segment: Segment | None = None) -> Iterator[list[Counts]]:
    """Tell the runner what has become of a segment's records, once that is committed."""
    started = time.monotonic()
    told: list[Counts] = []
    yield told
    rows = segment.loaded if segment else 0
    for counts in told:
        report(
            "commit",
            stream,
            rows=rows,
            inserted=counts.inserted,
            updated=counts.updated,
            deleted=counts.deleted,
            milliseconds=round((time.monotonic() - started) * 1000),
        )
        if rows and not counts:
            logger.info("%s: nothing changed, no commit", stream)


@contextmanager
def explained(stream: str) -> Iterator[None]:
    """Turn what Spark says into one line."""
    try:
        yield
    except SPARK_ERRORS as error:
        if reason := refusal(error):
            raise RecordError(f"stream {stream}, {reason}; fix the data or its schema") from error
        said = str(error).splitlines()[0][:500]
        raise SingerSparkError(f"stream {stream}: {said}") from error


def refusal(error: Exception) -> str | None:
    """Return why a record was refused, if that is what made Spark fail."""
    found = re.search(r"\[USER_RAISED_EXCEPTION\] (.*?) SQLSTATE", str(error), re.DOTALL)
    return found[1] if found else None
