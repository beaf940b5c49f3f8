"""Rows of one piece as lines: bytes for standard output, or records where Python must look."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from singer_spark.errors import TransientError
from tap_spark_source import messages
from tap_spark_source.again import Watch, observed
from tap_spark_source.messages import Envelope
from tap_spark_source.settings import Settings
from tap_spark_source.sources import source_errors
from tap_spark_source.spool import spooled_blocks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The rows of one piece, not yet fetched.

    Args:
        settings: What the tap was asked to do.
        envelope: What stands around every record.
        frame: The rows: columns, or with `are_texts` the JSON of the records.
        are_texts: Whether they are texts.
        keys: The key columns, where a row may be a deletion and then has nothing but them.
        watches: Who looks at the rows while they are written.
    """

    settings: Settings
    envelope: Envelope
    frame: DataFrame
    are_texts: bool
    keys: Sequence[str]
    watches: Sequence[Watch] = ()

    @property
    def stream(self) -> str:
        """Name the stream."""
        return self.envelope.stream

    @property
    def texts(self) -> DataFrame:
        """Return the JSON of the records, in the column `record`."""
        if self.are_texts:
            return self.frame
        decimal = self.settings.singer_decimal
        return messages.record_texts(
            self.frame, keys=self.keys, singer_decimal=decimal, beside=self.beside
        )

    @property
    def beside(self) -> list[str]:
        """Return the columns that are watched."""
        return [watch.value_in(self.frame) for watch in self.watches]

    def blocks(self) -> Iterator[tuple[bytes | memoryview, int]]:
        """Yield the lines as bytes, and how many line ends are in them; a block ends anywhere."""
        with source_errors(self.settings, self.stream):
            if self.settings.spark.retries_tasks:
                yield from self._complete(messages.fetched_pieces(self._unwatched))
            else:
                yield from self._complete(_spooled(self._lines, self.watches))

    def _complete(
        self, blocks: Generator[bytes | memoryview, None, int]
    ) -> Iterator[tuple[bytes | memoryview, int]]:
        """Pass blocks on with the number of their lines; fail where some of those are missing."""
        written = made = 0
        with closing(blocks):
            while True:
                try:
                    block = next(blocks)
                except StopIteration as end:
                    made = end.value
                    break
                rows = bytes(block).count(b"\n")
                written += rows
                yield block, rows
        if made != written:
            raise TransientError(
                f"{self.stream}: Spark made {made} records and {written} of them arrived here; "
                "the bookmark stays where it was, run again"
            )

    def first(self, count: int) -> list[bytes]:
        """Return at most so many lines."""
        with source_errors(self.settings, self.stream):
            return messages.first_lines(self._unwatched, count)

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the records as Python knows them."""
        rest = b""
        for block, _ in self.blocks():
            *complete, rest = (rest + bytes(block)).split(b"\n")
            for line in complete:
                yield json.loads(line, parse_float=Decimal)["record"]

    @property
    def _lines(self) -> DataFrame:
        beside = [watch.column for watch in self.watches]
        return messages.record_lines(self.texts, self.envelope, beside=beside)

    @property
    def _unwatched(self) -> DataFrame:
        """Return the lines for one who passes no observation back."""
        for watch in self.watches:
            watch.lose()
        return replace(self, watches=())._lines


def _spooled(lines: DataFrame, watches: Sequence[Watch]) -> Generator[bytes, None, int]:
    """Yield the lines that Spark writes into files; return how many it has made."""
    from pyspark.sql import Observation

    counted = Observation("lines")
    # Of the lines, not of the rows, whose columns would be copied once more: that takes 6 % of the
    # time of a large read, and this 1 %.
    yield from spooled_blocks(observed(lines, counted, watches))
    found = counted.get
    for watch in watches:
        watch.add(found)
    return int(found["rows"])


def open_reading(
    settings: Settings,
    stream: str,
    frame: DataFrame,
    *,
    keys: Sequence[str] = (),
    are_texts: bool = False,
    version: int | None = None,
    watches: Sequence[Watch] = (),
) -> Reading:
    """Prepare the records of a frame, whose columns are their properties, or their text."""
    now = datetime.now(timezone.utc).isoformat(timespec="microseconds")
    envelope = Envelope(stream=stream, time_extracted=now, version=version)
    return Reading(
        settings=settings,
        envelope=envelope,
        frame=frame,
        are_texts=are_texts,
        keys=keys,
        watches=watches,
    )
