"""A segment into a DataFrame of typed columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from singer_spark.names import literal, quote
from target_spark_delta.spool import (
    CARRIED,
    LINE_NUMBER,
    RECEIVED,
    Segment,
)
from target_spark_delta.validation import DELETED_AT
from target_spark_delta.values import typed, wire_type

_CORRUPT = "!"
_PIECE_BYTES = 64 * 2**20
# A record whose shape is another than declared, such as a number in an array's place.
_IS_SOUND = (
    f"if({quote(_CORRUPT)} is null, true, raise_error(concat('line ', {quote(LINE_NUMBER)}, "
    "': an object or array stands where the schema declares something else, or the other way "
    "round')))"
)
TABLE_VERSION = "_sdc_table_version"
METADATA: dict[str, T.DataType] = {
    "_sdc_extracted_at": T.TimestampType(),
    "_sdc_received_at": T.TimestampType(),
    "_sdc_batched_at": T.TimestampType(),
    DELETED_AT: T.TimestampType(),
    "_sdc_sequence": T.LongType(),
    TABLE_VERSION: T.LongType(),
    "_sdc_run_id": T.StringType(),
}
_METADATA_SQL = {
    "_sdc_received_at": f"timestamp_micros({quote(RECEIVED)})",
    "_sdc_sequence": quote(RECEIVED),
    TABLE_VERSION: "version",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the columns of a batch are.

    Args:
        declared: The columns that the stream's schema declares, with their types.
        metadata: The `_sdc_*` columns that are added.
        table: The table's schema, which has all of them.
        run_id: The run, for `_sdc_run_id`.
        batched_at: Now, for `_sdc_batched_at`; one value, so that a repeated read is the same.
    """

    declared: T.StructType
    metadata: Sequence[str]
    table: T.StructType
    run_id: str
    batched_at: str

    @property
    def columns(self) -> list[str]:
        """Name the columns of the batch."""
        return [*self.declared.names, *self.metadata]


def read_segment(
    spark: SparkSession, segment: Segment, shape: Shape, *, staging: str | None = None
) -> DataFrame:
    """Read a segment into the table's types; a value that does not fit raises an error.

    Args:
        spark: The session.
        segment: What is read.
        shape: Its columns.
        staging: A folder that driver and executors share, where they do not share this disk.
    """
    fields = [*shape.declared.fields]
    if DELETED_AT in shape.metadata:
        fields.append(T.StructField(DELETED_AT, T.TimestampType()))
    record = T.StructType([T.StructField(f.name, wire_type(f.dataType)) for f in fields])
    wire = (
        T.StructType()
        .add(LINE_NUMBER, T.LongType())
        .add(CARRIED, T.ArrayType(T.StringType()))
        .add(RECEIVED, T.LongType())
        .add("time_extracted", T.StringType())
        .add("version", T.LongType())
        .add("record", record)
        .add(_CORRUPT, T.StringType())
    )
    lines = (
        spark.read.schema(wire)
        .option("columnNameOfCorruptRecord", _CORRUPT)
        .option("lineSep", "\n")
        .option("maxStringLen", str(2**31 - 1))
        .option("maxNestingDepth", "2000")
        .json(_path_for_spark(spark, segment, staging))
    )
    return lines.where(_IS_SOUND).selectExpr(
        quote(LINE_NUMBER),
        quote(CARRIED),
        *(f"{sql} as {quote(name)}" for name, sql in _columns(fields, shape).items()),
    )


def _path_for_spark(spark: SparkSession, segment: Segment, staging: str | None) -> str:
    """Return where Spark finds the lines: on this disk, or sent as Arrow to where it can read."""
    if staging is None:
        return str(segment.path)
    place = f"{staging}/{segment.id}"
    with segment.path.open("rb") as file:
        while lines := file.readlines(_PIECE_BYTES):
            texts = pa.array([line[:-1] for line in lines], pa.binary()).cast(pa.string())
            piece = spark.createDataFrame(pa.table({"value": texts}))
            piece.write.mode("append").text(place)
    return place


def empty_staging(spark: SparkSession, segment: Segment, staging: str | None) -> None:
    """Remove the lines that were sent, once their rows are committed."""
    if staging is not None:
        nothing = spark.createDataFrame([], "value string")
        nothing.write.mode("overwrite").text(f"{staging}/{segment.id}")


def _columns(fields: Sequence[T.StructField], shape: Shape) -> dict[str, str]:
    types = {field.name.lower(): field.dataType for field in shape.table}
    columns = {
        field.name: typed(
            f"record.{quote(field.name)}",
            field.dataType,
            types.get(field.name.lower(), field.dataType),
            field.name,
        )
        for field in fields
    }
    for name in shape.metadata:
        if name == "_sdc_extracted_at":
            stamp = T.TimestampType()
            columns[name] = typed("time_extracted", stamp, stamp, "time_extracted")
        elif name == "_sdc_run_id":
            columns[name] = literal(shape.run_id)
        elif name == "_sdc_batched_at":
            columns[name] = f"timestamp {literal(shape.batched_at)}"
        elif name != DELETED_AT:
            columns[name] = _METADATA_SQL[name]
    return columns
