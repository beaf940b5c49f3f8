"""One segment into one commit: the table is made to fit, then the rows are written."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from singer_spark.errors import RecordError, SingerSparkError
from singer_spark.names import quote
from singer_spark.session import SPARK_ERRORS
from target_spark_delta import merge, table
from target_spark_delta.frame import (
    METADATA,
    TABLE_VERSION,
    Shape,
    empty_staging,
    folded_per_key,
    key_facts,
    latest_per_key,
    read_segment,
)
from target_spark_delta.merge import Commit, Upsert
from target_spark_delta.settings import Settings
from target_spark_delta.spool import Segment
from target_spark_delta.validation import DELETED_AT

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where the records of one stream go, under one schema."""

    stream: str
    table: table.Table
    declared: T.StructType
    keys: tuple[str, ...]
    appends: bool
    allow_rewrite: bool
    settings: Settings

    @property
    def staging(self) -> str | None:
        """Return where records wait that Spark cannot read from this machine's disk."""
        settings = self.settings
        return None if settings.spark.is_local else f"{settings.path}/_singer_spark/spool"

    @property
    def removes(self) -> bool:
        """Say whether deletions remove rows."""
        return self.settings.hard_delete and not self.appends


def load_segment(
    spark: SparkSession, destination: Destination, segment: Segment, commit: Commit
) -> None:
    """Commit a segment's records."""
    with explained(destination.stream):
        merge.describe_commits(spark, replace(commit, batch=None, rows=None, state=None))
        before = destination.table.schema(spark)
        metadata = _metadata(destination, segment, before)
        schema = _fitting_table(spark, destination, metadata, before)
        merge.describe_commits(spark, commit)
        has_flag = destination.removes and segment.has_deletions
        shape = Shape(
            declared=destination.declared,
            metadata=[*metadata, DELETED_AT]
            if has_flag and DELETED_AT not in (*metadata, *destination.declared.names)
            else metadata,
            table=schema,
            run_id=commit.run_id,
            batched_at=utc_now(),
        )
        _write(spark, destination, segment, shape, is_new=before is None)
        empty_staging(spark, segment, destination.staging)


def _write(
    spark: SparkSession, destination: Destination, segment: Segment, shape: Shape, *, is_new: bool
) -> None:
    known = {name.lower() for name in shape.table.names}
    columns = [name for name in shape.columns if name.lower() in known]
    quoted = [quote(name) for name in columns]
    rows = read_segment(spark, segment, shape, staging=destination.staging)
    if destination.appends:
        merge.append(destination.table, rows.select(*quoted))
        return
    facts = segment.facts or key_facts(rows, destination.keys)
    if segment.is_partial:
        rows = folded_per_key(rows, destination.keys, shape)
    elif facts.keys < facts.rows:
        rows = latest_per_key(rows, destination.keys)
    if is_new and not segment.is_partial:
        merge.append(destination.table, rows.select(*quoted))
        return
    batch = Upsert(
        rows=rows,
        keys=destination.keys,
        columns=columns,
        types=shape.table,
        ranges=facts.ranges,
        count=facts.keys,
        folded=segment.is_partial,
        delete=destination.removes and segment.has_deletions,
        skip_unchanged=destination.settings.skip_unchanged,
    )
    if not merge.upsert(spark, destination.table, batch):
        logger.info("%s: nothing changed, no commit", destination.stream)


def _metadata(destination: Destination, segment: Segment, before: T.StructType | None) -> list[str]:
    """Choose the `_sdc_*` columns of a batch: what is asked for, and what its records need."""
    present = set(before.names) if before else set()
    needed = set(METADATA) if destination.settings.add_record_metadata else set()
    if segment.has_versions or TABLE_VERSION in present:
        needed.add(TABLE_VERSION)
    if DELETED_AT in present or (segment.has_deletions and not destination.removes):
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
        allow_rewrite=destination.allow_rewrite,
    )


def activate_version(
    spark: SparkSession, destination: Destination, version: int, commit: Commit
) -> None:
    """Retire the rows of older versions."""
    with explained(destination.stream):
        merge.describe_commits(spark, commit)
        schema = destination.table.schema(spark)
        if schema is None or TABLE_VERSION not in schema.names:
            return
        hard = destination.settings.hard_delete
        if not hard and DELETED_AT not in schema.names:
            marker = T.StructType([T.StructField(DELETED_AT, T.TimestampType())])
            table.adapt(spark, destination.table, marker)
        merge.retire_versions(spark, destination.table, version, hard=hard, deleted_at=utc_now())


def utc_now() -> str:
    """Return the time as Spark reads it."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f+00:00")


@contextmanager
def explained(stream: str) -> Iterator[None]:
    """Turn what Spark says into one line."""
    try:
        yield
    except SPARK_ERRORS as error:
        text = str(error)
        if refused := re.search(r"\[USER_RAISED_EXCEPTION\] (.*?) SQLSTATE", text, re.DOTALL):
            raise RecordError(
                f"stream {stream}, {refused[1]}; fix the data or its schema"
            ) from error
        raise SingerSparkError(f"stream {stream}: {text.splitlines()[0][:500]}") from error
