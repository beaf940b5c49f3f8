"""A segment's lines into typed rows; what does not fit raises an error, or is set apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from singer_spark.names import literal, quote
from singer_spark.types import MAX_DEPTH
from target_spark_delta.intake.segments import (
    CARRIED,
    LINE_NUMBER,
    LOST_KEY,
    MEMBERS,
    RECEIVED,
    REJECTED,
    Segment,
)
from target_spark_delta.intake.validation import DELETED_AT
from target_spark_delta.rows.columns import TABLE_VERSION, Columns
from target_spark_delta.rows.values import first_of, misfit, raised, typed, wire_type

_CORRUPT = "\0corrupt"
_RECORD = "\0record"
_EXTRACTED = "\0extracted"
_ERROR = "\0error"
_VERSION = "\0version"
_PIECE_BYTES = 64 * 2**20
# The message and the record are two levels more.
_NESTING = str(MAX_DEPTH + 2)
_NO_LIMIT = str(2**31 - 1)
# A line's number, and the reason where it was rejected.
_HEAD = r'^(\{"#":[0-9]+(?:,"!":"[^"\\]*+(?:\\.[^"\\]*+)*+")?)'
_ODD_SHAPE = literal(
    "an object or array stands where the schema declares something else, or the other way round, "
    f"or is nested deeper than {MAX_DEPTH} levels"
)
# The names of partitions that Delta reads as null.
_READ_AS_NULL = ("", "__HIVE_DEFAULT_PARTITION__")
_NO_PARTITION = " cannot name a partition, where it would be null"
_STAMP = T.TimestampType()
_METADATA_SQL = {
    "_sdc_received_at": f"timestamp_micros({quote(RECEIVED)})",
    "_sdc_sequence": quote(RECEIVED),
    TABLE_VERSION: "version",
}


def path_for_spark(spark: SparkSession, segment: Segment, staging: str | None) -> str:
    """Return where Spark finds a segment's lines: on this disk, or sent as Arrow to `staging`."""
    if staging is None:
        return str(segment.path)
    place, mode = f"{staging}/{segment.id}", "overwrite"
    with segment.path.open("rb") as file:
        while lines := file.readlines(_PIECE_BYTES):
            texts = pa.array([line[:-1] for line in lines], pa.binary()).cast(pa.string())
            piece = spark.createDataFrame(pa.table({"value": texts}))
            piece.write.mode(mode).text(place)
            mode = "append"
    return place


def empty_staging(spark: SparkSession, segment: Segment, staging: str | None) -> None:
    """Remove the lines that were sent, once their rows are committed."""
    if staging is not None:
        empty_folder(spark, f"{staging}/{segment.id}")


def empty_folder(spark: SparkSession, place: str) -> None:
    """Remove what is in a folder, by the one way that every kind of session offers."""
    spark.createDataFrame([], "value string").write.mode("overwrite").text(place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """The records of a segment as Spark reads them, before they have the table's types."""

    wire: DataFrame  # a row per record, as `wire_schema` has it
    texts: DataFrame  # the record's text and number, to be read only for those that do not fit
    shape: Columns  # what columns they become
    exact: frozenset[str] = frozenset()  # the columns that have the table's type already
    keys: Sequence[str] = ()  # the columns that must never be null
    needed: Sequence[str] = ()  # the columns that must not be null, except in a deletion
    line: str = quote(LINE_NUMBER)  # SQL of the line of the input that a record came in

    def rows(self) -> DataFrame:
        """Give them the table's types; a value that does not fit raises an error."""
        odd = self._odd()
        is_sound = f"if({odd} is null, true, {raised(self.line, odd)})"
        return self.wire.where(f"{quote(REJECTED)} is null and {is_sound}").selectExpr(
            quote(LINE_NUMBER),
            quote(CARRIED),
            *self._values(self.line),
            *self._metadata(self.line),
        )

    def fitting_rows(self) -> DataFrame:
        """Read only those into the table's types whose every value fits."""
        return self._judged().where(f"{quote(_ERROR)} is null").drop(_ERROR, _VERSION)

    def misfits(self) -> DataFrame:
        """Return those that have a value which does not fit, as `rejected_records` does."""
        found = self._judged().where(f"{quote(_ERROR)} is not null")
        extra = f"{quote(_ERROR)} as error", f"{quote(_VERSION)} as version"
        errors = found.selectExpr(quote(LINE_NUMBER), *extra)
        return self.texts.join(errors, LINE_NUMBER).selectExpr(
            "record", "error", f"{self.line} as line", "version", "false as lost_key"
        )

    def _judged(self) -> DataFrame:
        """Read every line that was not rejected before, with the reason why it does not fit."""
        wire = self.wire.where(f"{quote(REJECTED)} is null")
        read = wire.selectExpr(
            quote(LINE_NUMBER),
            quote(CARRIED),
            f"{self._odd()} as {quote(_CORRUPT)}",
            f"record as {quote(_RECORD)}",
            f"time_extracted as {quote(_EXTRACTED)}",
            f"version as {quote(_VERSION)}",
            *self._values(None),
            *self._metadata(None),
        )
        reasons = [
            misfit(
                f"{quote(_RECORD)}.{quote(field.name)}",
                quote(field.name),
                field.dataType,
                self._target(field),
                field.name,
            )
            for field in wire_fields(self.shape)
            if field.name not in self.exact and not self._is_flag(field)
        ]
        if (name := "_sdc_extracted_at") in self.shape.metadata:
            names = quote(_EXTRACTED), quote(name)
            reasons.append(misfit(*names, _STAMP, _STAMP, "time_extracted"))
        error = F.expr(first_of([quote(_CORRUPT), *reasons]))
        return read.withColumn(_ERROR, error).drop(_CORRUPT, _RECORD, _EXTRACTED)

    def _is_flag(self, field: T.StructField) -> bool:
        """Say whether a deletion's mark only says that it is one, and is not stored."""
        kept = self.shape.dates_deletions or DELETED_AT in self.shape.table.names
        return field.name == DELETED_AT and not kept

    def _target(self, field: T.StructField) -> T.DataType:
        types = {column.name.lower(): column.dataType for column in self.shape.table}
        return types.get(field.name.lower(), field.dataType)

    def _odd(self) -> str:
        """Return SQL that tells what is wrong with a record as a whole, null if nothing is."""
        shape = f"if({quote(_CORRUPT)} is null, null, {_ODD_SHAPE})"
        whole = f"{quote(CARRIED)} is null"
        conditions = {**dict.fromkeys(self.needed, whole), **dict.fromkeys(self.keys, "true")}
        nulls = [
            f"if(record.{quote(name)} is null and {condition}, "
            f"{literal(f'{name} is null, which its schema forbids')}, null)"
            for name, condition in conditions.items()
        ]
        return first_of([shape, *nulls, *self._lost_in_partitions()])

    def _lost_in_partitions(self) -> Iterator[str]:
        """Yield SQL that tells of texts which would be null once they name a partition."""
        partitions = {name.lower() for name in self.shape.partition_by}
        for field in self.shape.declared:
            if field.name.lower() in partitions and self._target(field) == T.StringType():
                text = f"record.{quote(field.name)}"
                reason = f"concat({literal(f'{field.name}: ')}, '\"', {text}, '\"{_NO_PARTITION}')"
                yield f"if({text} in ({', '.join(map(literal, _READ_AS_NULL))}), {reason}, null)"

    def _values(self, line: str | None) -> Iterator[str]:
        for field in wire_fields(self.shape):
            value = f"record.{quote(field.name)}"
            if self._is_flag(field):
                value = f"if({value} is null, null, timestamp '1970-01-01')"
            elif field.name not in self.exact:
                types = field.dataType, self._target(field)
                value = typed(value, *types, field.name, line)
            yield f"{value} as {quote(field.name)}"

    def _metadata(self, line: str | None) -> list[str]:
        name = "time_extracted"
        sql = {
            **_METADATA_SQL,
            "_sdc_extracted_at": typed(name, _STAMP, _STAMP, name, line),
            "_sdc_run_id": literal(self.shape.run_id),
            "_sdc_batched_at": f"timestamp {literal(self.shape.batched_at)}",
        }
        return [
            f"{sql[name]} as {quote(name)}" for name in self.shape.metadata if name != DELETED_AT
        ]


def wire_fields(shape: Columns) -> list[T.StructField]:
    """Return the fields that are read from a record."""
    fields = [*shape.declared.fields]
    if DELETED_AT in shape.metadata:
        fields.append(T.StructField(DELETED_AT, T.TimestampType()))
    return fields


def spooled(
    spark: SparkSession, path: str, shape: Columns, *, line: str = quote(LINE_NUMBER)
) -> Records:
    """Read the lines of a segment."""
    fields = [T.StructField(f.name, wire_type(f.dataType)) for f in wire_fields(shape)]
    # A record's exact text needs a reading of its own.
    texts = _read(spark, path, T.StringType()).selectExpr(
        f"coalesce(record, {quote(_CORRUPT)}) as record", quote(LINE_NUMBER)
    )
    wire = _read(spark, path, T.StructType(fields))
    return Records(wire=wire, texts=texts, shape=shape, line=line)


def rejected_records(spark: SparkSession, path: str) -> DataFrame:
    """Return the records that were invalid when they came.

    Record, error, line, version, and whether nothing says which row the record is of.
    """
    lines = _read(spark, path, T.StringType()).where(f"{quote(REJECTED)} is not null")
    return lines.selectExpr(
        f"coalesce(record, {quote(_CORRUPT)}) as record",
        f"{quote(REJECTED)} as error",
        f"{quote(LINE_NUMBER)} as line",
        "version",
        f"coalesce({quote(LOST_KEY)}, false) as lost_key",
    )


def _read(spark: SparkSession, path: str, record: T.DataType) -> DataFrame:
    columns = wire_schema(record)
    members = {column: member for member, column in MEMBERS.items()}
    schema = [T.StructField(members.get(f.name, f.name), f.dataType) for f in columns]
    lines = (
        spark.read.schema(T.StructType(schema))
        .option("columnNameOfCorruptRecord", _CORRUPT)
        .option("lineSep", "\n")
        .option("maxStringLen", _NO_LIMIT)
        .option("maxNumLen", _NO_LIMIT)
        .option("maxNestingDepth", _NESTING)
        .json(path)
        .toDF(*columns.names)
    )
    # Of a line that is nested too deeply nothing is read, not even what was put in front.
    head = f"regexp_extract({quote(_CORRUPT)}, {literal(_HEAD)}, 1)"
    given = f"from_json(concat({head}, '}}'), '`#` bigint, `!` string')"
    read = {
        name: F.expr(
            f"if({quote(_CORRUPT)} is null, {quote(name)}, "
            f"coalesce({quote(name)}, {given}.{quote(member)}))"
        )
        for member, name in (("#", LINE_NUMBER), ("!", REJECTED))
    }
    return lines.withColumns(read)


def wire_schema(record: T.DataType) -> T.StructType:
    """Return what is read of a record: the members put in front of it, and itself."""
    return (
        T.StructType()
        .add(LINE_NUMBER, T.LongType())
        .add(CARRIED, T.ArrayType(T.StringType()))
        .add(RECEIVED, T.LongType())
        .add(REJECTED, T.StringType())
        .add(LOST_KEY, T.BooleanType())
        .add("time_extracted", T.StringType())
        .add("version", T.LongType())
        .add("record", record)
        .add(_CORRUPT, T.StringType())
    )
