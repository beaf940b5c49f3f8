"""Rows of one piece as lines: bytes for standard output, or records where Python must look."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tap_spark_source import messages
from tap_spark_source.settings import Settings
from tap_spark_source.sources import source_errors
from tap_spark_source.spool import spooled_blocks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The lines of one piece, not yet fetched."""

    settings: Settings
    stream: str
    lines: DataFrame

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
    settings: Settings,
    stream: str,
    frame: DataFrame,
    *,
    keys: Sequence[str] = (),
    are_texts: bool = False,
    version: int | None = None,
) -> Reading:
    """Prepare the lines of a frame, whose columns are the properties of a record or its text."""
    now = datetime.now(timezone.utc).isoformat(timespec="microseconds")
    with source_errors(settings, stream):
        envelope = messages.Envelope(stream=stream, time_extracted=now, version=version)
        lines = (
            messages.text_lines(frame, envelope)
            if are_texts
            else messages.record_lines(
                frame, envelope, keys=keys, singer_decimal=settings.singer_decimal
            )
        )
    return Reading(settings=settings, stream=stream, lines=lines)
