"""What a segment is read from: spooled lines, or the files of a BATCH message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from singer_spark.engine.session import SPARK_ERRORS
from singer_spark.errors import DataError, RecordError, innermost_cause, is_unreachable
from singer_spark.shown import shows_values, without_values
from target_spark_delta.intake.batch_files import Manifest, check_rows, readable_files
from target_spark_delta.intake.segments import Segment
from target_spark_delta.rows.batch_columns import as_texts, note_facts, open_files, typed_records
from target_spark_delta.rows.batch_lines import first_rejection, stage_lines, texts_of
from target_spark_delta.rows.columns import Columns
from target_spark_delta.rows.records import Records, path_for_spark, rejected_records, spooled
from target_spark_delta.rows.spark_jobs import Footer


@dataclass(frozen=True, slots=True)
class OpenSegment:
    """A segment that is ready to be read."""

    read: Callable[[Columns], Records]  # reads its records, given what columns they become
    # Reads what was found invalid already: record, error and line.
    rejected: Callable[[], DataFrame]
    # What the files say of themselves, where all rows are read from them as they are.
    footers: Sequence[Footer] = ()


def open_segment(
    spark: SparkSession, segment: Segment, *, staging: str | None, quarantine: bool
) -> OpenSegment:
    """Make a segment readable, and note in it what is known of its records.

    The folder `staging` is one that driver and executors share, where they do not share this disk.
    Without `quarantine` an invalid record is an error.
    """
    segment.check_size()
    if segment.manifest is None:
        path = path_for_spark(spark, segment, staging)
        return OpenSegment(partial(spooled, spark, path), partial(rejected_records, spark, path))
    try:
        return _open_batch(spark, segment, segment.manifest, staging, quarantine=quarantine)
    except (*SPARK_ERRORS, OSError) as error:
        reason, manifest = innermost_cause(error), segment.manifest
        if is_unreachable(reason):
            raise
        listed = ", ".join(manifest.files[:3]) + (", …" if len(manifest.files) > 3 else "")
        raise DataError(
            f"stream {segment.stream}, line {manifest.line}: BATCH file {listed} cannot be read as "
            f"{manifest.format}: {without_values(reason)[:200]}; look at the tap"
        ) from error


def _open_batch(
    spark: SparkSession,
    segment: Segment,
    manifest: Manifest,
    staging: str | None,
    *,
    quarantine: bool,
) -> OpenSegment:
    files = readable_files(manifest, segment.path, shares_disk=staging is None)
    if manifest.format == "parquet":
        opened = open_files(spark, manifest, files, shares_disk=staging is None)
        if manifest.rules.only_types:
            note_facts(segment, manifest, opened)
            check_rows(manifest, segment.rows)
            read = partial(typed_records, manifest, opened.frames)
            return OpenSegment(read, _none_rejected, opened.footers)
        texts = as_texts(manifest, opened.frames)
    else:
        texts = texts_of(spark, manifest, files)
    place = str(segment.path / "lines") if staging is None else f"{staging}/{segment.id}"
    # Only what is set aside stands beside its record, which has the values too.
    quotes = quarantine or shows_values()
    check_rows(manifest, stage_lines(segment, manifest, texts, place, quotes=quotes))

    def rejected() -> DataFrame:
        return rejected_records(spark, place).withColumn(
            "line", F.lit(manifest.line).cast("bigint")
        )

    if segment.rejected and not quarantine:
        reason = first_rejection(rejected_records(spark, place))
        raise RecordError(f"stream {segment.stream}, line {manifest.line}: {reason}")
    return OpenSegment(partial(spooled, spark, place, line=str(manifest.line)), rejected)


def _none_rejected() -> DataFrame:
    raise AssertionError("columns are checked when they are written")
