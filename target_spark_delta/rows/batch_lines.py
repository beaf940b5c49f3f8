"""BATCH files of JSON lines into the lines of a segment, by Spark's workers in parallel.

Each line gets what a RECORD gets when it comes: the strict parser, the validator, its place in the
order, and what it carries if it is a deletion. Rows never pass through the target's own process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from singer_spark.names import quote
from target_spark_delta.intake.batch_files import Manifest
from target_spark_delta.intake.segments import (
    LINE_NUMBER,
    Segment,
    carried_member,
    entry_of,
    extracted_member,
    received_member,
    rejected_member,
    version_member,
)
from target_spark_delta.intake.validation import InvalidRecordError, Validator

if TYPE_CHECKING:
    from pyspark.sql.column import Column

FILE_PLACES = 2**40
_ROWS_OF_A_SPLIT = 2**33 - 1
_CHECKED = "line string, is_rejected boolean, is_deletion boolean, is_record boolean"
_Entry = tuple[bytes | None, bool, bool]
_LEFT_OUT: _Entry = (None, False, False)
_BLANK = (*_LEFT_OUT, False)
_whole = msgspec.json.Decoder(msgspec.Raw).decode


def stage_lines(
    segment: Segment, manifest: Manifest, texts: DataFrame, place: str, *, quotes: bool
) -> int:
    """Write the lines of a segment to a folder, and note in the segment what they are.

    `texts` has order, file, text and version of each record. With `quotes` the reason why one is
    rejected has its values. Return how many records the files have, those that a map leaves out
    included.
    """
    seen = Observation()
    check = arrow_udf(line_maker(manifest, quotes=quotes), _CHECKED)  # type: ignore[call-overload]
    columns = [F.col(quote(name)) for name in (LINE_NUMBER, "file", "text", "version")]
    checked = texts.select(check(*columns).alias("c"), "version").observe(
        seen,
        F.count_if(F.col("c.is_record")).alias("read"),
        F.count(F.col("c.line")).alias("rows"),
        F.count_if(F.col("c.is_rejected")).alias("rejected"),
        F.count_if(F.col("c.is_deletion")).alias("deletions"),
        F.count_if(F.expr("c.line is not null and version is not null")).alias("versioned"),
    )
    checked.where("c.line is not null").select("c.line").write.mode("overwrite").text(place)
    counts = seen.get
    segment.rejected = counts["rejected"]
    segment.note_rows(counts["rows"], counts["deletions"], counts["versioned"])
    return int(counts["read"])


def texts_of(spark: SparkSession, manifest: Manifest, files: Sequence[str]) -> DataFrame:
    """Read files of lines as they are, with a number that orders them as they stand."""
    return functools.reduce(
        DataFrame.unionAll,
        (
            spark.read.option("lineSep", "\n")
            .text(file)
            .select(
                _place(index).alias(LINE_NUMBER),
                F.lit(manifest.files[index]).alias("file"),
                F.col("value").cast("binary").alias("text"),
                F.lit(manifest.version).cast("bigint").alias("version"),
            )
            for index, file in enumerate(files)
        ),
    )


def _place(index: int) -> Column:
    """Number the lines of a file: its splits by their start, the lines of each as they are read."""
    row = F.monotonically_increasing_id().bitwiseAND(F.lit(_ROWS_OF_A_SPLIT))
    return F.lit(index * FILE_PLACES) + F.col("_metadata.file_block_start") + row


def line_maker(
    manifest: Manifest, *, quotes: bool
) -> Callable[[Iterator[tuple[pa.Array, pa.Array, pa.Array, pa.Array]]], Iterator[pa.Array]]:
    """Return what turns records into lines of a segment; blank lines are left out."""

    def make_lines(
        blocks: Iterator[tuple[pa.Array, pa.Array, pa.Array, pa.Array]],
    ) -> Iterator[pa.Array]:
        entry = _Entries(manifest, quotes=quotes).entry
        for block in blocks:
            rows = zip(*(column.to_pylist() for column in block), strict=True)
            entries = [(*entry(*row), True) if row[2].strip() else _BLANK for row in rows]
            lines, *facts = zip(*entries, strict=True)
            columns = [
                pa.array(lines, pa.binary()).cast(pa.string()),
                *(pa.array(fact, pa.bool_()) for fact in facts),
            ]
            yield pa.StructArray.from_arrays(
                columns, ["line", "is_rejected", "is_deletion", "is_record"]
            )

    return make_lines


class _Entries:
    """Makes the lines of a segment, in a worker."""

    def __init__(self, manifest: Manifest, *, quotes: bool) -> None:
        rules, self._quotes = manifest.rules, quotes
        self._line = manifest.line
        self._mapping = rules.mapping
        self._loses_keys = rules.mapping is not None and not rules.mapping.keeps(rules.keys)
        self._partial = rules.partial
        schema, keys = rules.schema, rules.keys
        if manifest.format == "parquet":
            # What is null there cannot be told from what is absent.
            schema, keys = {**schema, "required": rules.needed}, rules.needed_keys
        self._check = Validator(rules.stream, schema, keys, full=rules.full).check
        self._common = received_member(manifest.received_at)
        if manifest.extracted_at is not None:
            self._common += extracted_member(msgspec.json.encode(manifest.extracted_at))

    def entry(self, number: int, file: str, text: bytes, version: int | None) -> _Entry:
        """Return a record's line, whether it is rejected, and whether it is a deletion."""
        lost_key = self._loses_keys
        try:
            text.decode()
            # The whole text: what follows a record in its line must not become members of ours.
            text = bytes(_whole(text))
            mapped = self._mapping.apply(text, self._line) if self._mapping else text
            if mapped is None:
                return _LEFT_OUT
            text, lost_key = mapped, False
            return self._checked(number, text, version)
        except InvalidRecordError as error:
            reason = error.reason if self._quotes else error.told
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            reason = f"no JSON object: {error}"
            text = msgspec.json.encode(text.decode(errors="replace"))
        rejected = rejected_member(f"{reason} (in {file})", lost_key=lost_key)
        return self._made(number, rejected + version_member(version), text), True, False

    def _checked(self, number: int, text: bytes, version: int | None) -> _Entry:
        record, is_deletion = self._check(msgspec.Raw(text), self._line, partial=self._partial)
        extra = carried_member(record) if is_deletion or self._partial else b""
        return self._made(number, extra + version_member(version), text), False, is_deletion

    def _made(self, number: int, members: bytes, text: bytes) -> bytes:
        return entry_of(text, number, members + self._common)


def first_rejection(rejected: DataFrame) -> str:
    """Return why the first of the rejected records was rejected."""
    return str(rejected.orderBy("line").limit(1).toArrow()["error"][0].as_py())
