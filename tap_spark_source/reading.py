"""One read of one table: asks how far the keys go, then turns the rows into lines."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from singer_spark.errors import DataError
from tap_spark_source import bookmark, messages
from tap_spark_source.plan import ReadPlan, Window
from tap_spark_source.settings import Settings
from tap_spark_source.sources import Bounds, Source, source_errors
from tap_spark_source.spool import spooled_blocks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger("tap-spark-source")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The lines of one read, not yet fetched, and the bookmark that is true after them."""

    settings: Settings
    stream: str
    lines: DataFrame
    mark: Any

    def blocks(self) -> Iterator[bytes | memoryview]:
        """Yield the lines as bytes; a block ends anywhere."""
        with source_errors(self.settings, self.stream):
            if not self.settings.spark.retries_tasks:
                yield from spooled_blocks(self.lines)
            else:
                yield from messages.fetched_pieces(self.lines)

    def first(self, count: int) -> list[bytes]:
        """Return at most so many lines."""
        with source_errors(self.settings, self.stream):
            return messages.first_lines(self.lines, count)

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the records as Python knows them."""
        rest = b""
        for block in self.blocks():
            *complete, rest = (rest + bytes(block)).split(b"\n")
            for line in complete:
                yield json.loads(line, parse_float=Decimal)["record"]


def open_reading(
    spark: SparkSession,
    source: Source,
    plan: ReadPlan,
    settings: Settings,
    *,
    version: int | None = None,
) -> Reading:
    """Pin the window of a plan and prepare its lines."""
    stream = plan.table.stream
    with source_errors(settings, stream):
        bounds, mark = _settle(spark, source, plan, plan.window) if plan.window else (None, None)
        frame = source.frame(plan.table, plan.columns, where=plan.where, bounds=bounds)
        now = datetime.now(timezone.utc).isoformat(timespec="microseconds")
        lines = messages.record_lines(
            frame,
            plan.columns,
            messages.Envelope(stream=stream, time_extracted=now, version=version),
            singer_decimal=settings.singer_decimal,
        )
    return Reading(settings=settings, stream=stream, lines=lines, mark=mark)


def _settle(
    spark: SparkSession, source: Source, plan: ReadPlan, window: Window
) -> tuple[Bounds, Any]:
    """Ask the source how far its keys go; return the bounds and the bookmark after them."""
    stream, key = plan.table.stream, window.key
    if window.null_keys == "fail":
        rows = source.count_nulls(plan.table, key, where=plan.where)
        if rows:
            raise DataError(
                f"{stream}: {rows} rows have no {key.name}; fill it, or set null_replication_key "
                "to include or exclude"
            )
    upper = bookmark.read_mark(source.high_mark(plan.table, key, where=plan.where), key)
    settled = bookmark.settle(spark, window, stream=stream, upper=upper)
    if settled.is_ahead and window.from_bookmark:
        logger.warning(
            "%s: the bookmark %s is ahead of the source, whose highest %s is %s; it stays",
            stream,
            window.start,
            key.name,
            upper,
        )
    return settled.bounds, settled.bookmark
