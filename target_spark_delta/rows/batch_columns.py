"""BATCH files of Parquet: columns that have the table's types are taken as they are.

Any other column goes through its text, as if it stood in a RECORD, so that the same values fit and
the same are refused. Nothing leaves the JVM.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from singer_spark.engine.session import SPARK_ERRORS
from singer_spark.errors import DataError, RecordError
from singer_spark.names import literal, quote
from singer_spark.shown import without_values
from singer_spark.types import to_ddl
from target_spark_delta.intake.batch_files import Manifest, Rules
from target_spark_delta.intake.segments import CARRIED, LINE_NUMBER, RECEIVED, Segment
from target_spark_delta.intake.validation import DELETED_AT
from target_spark_delta.rows.batch_lines import FILE_PLACES
from target_spark_delta.rows.columns import TABLE_VERSION, Columns
from target_spark_delta.rows.records import Records, wire_fields, wire_schema
from target_spark_delta.rows.spark_jobs import Footer, read_footer
from target_spark_delta.rows.values import raised, wire_type

logger = logging.getLogger(__name__)
_JSON_OPTIONS = (
    "map('timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\", "
    "'timestampNTZFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\")"
)


@dataclass(frozen=True, slots=True)
class Opened:
    """Files that are open: a frame of each, and what they say of themselves, if all of them do."""

    frames: Sequence[DataFrame]
    footers: Sequence[Footer]


def open_files(
    spark: SparkSession, manifest: Manifest, files: Sequence[str], *, shares_disk: bool
) -> Opened:
    """Open the files, each with the schema it has; `#` orders their rows as they stand."""
    footers = [read_footer(file) if shares_disk else None for file in files]
    frames = [
        _open(spark, manifest, index, file, footer.schema if footer else None)
        for index, (file, footer) in enumerate(zip(files, footers, strict=True))
    ]
    known = [footer for footer in footers if footer]
    return Opened(frames, known if len(known) == len(files) else ())


def _open(
    spark: SparkSession, manifest: Manifest, index: int, file: str, schema: T.StructType | None
) -> DataFrame:
    name = (
        f"stream {manifest.rules.stream}, line {manifest.line}: BATCH file {manifest.files[index]}"
    )
    try:
        frame = (spark.read.schema(schema) if schema else spark.read).parquet(file)
        names = schema.names if schema else frame.columns
    except SPARK_ERRORS as error:
        said = without_values(str(error).splitlines()[0])[:200]
        raise DataError(f"{name} cannot be read as Parquet ({said}); look at the tap") from error
    if not manifest.rules.mapping:
        _check_columns(name, manifest.rules, names)
    number = F.lit(index * FILE_PLACES) + F.col("_metadata.row_index")
    return frame.select("*", number.alias(LINE_NUMBER))


def _check_columns(name: str, rules: Rules, columns: Sequence[str]) -> None:
    if missing := [key for key in rules.keys if key not in columns]:
        raise RecordError(f"{name} lacks the key {', '.join(missing)}; look at the tap")
    declared = {*rules.schema["properties"], DELETED_AT, TABLE_VERSION}
    if unknown := sorted(set(columns) - declared):
        logger.warning("%s: left out, because its SCHEMA lacks it: %s", name, ", ".join(unknown))


def note_facts(segment: Segment, manifest: Manifest, opened: Opened) -> None:
    """Note how many rows there are, deletions among them and such that have a version."""
    columns = {name for footer in opened.footers for name in footer.schema.names}
    if not opened.footers or columns & {DELETED_AT, TABLE_VERSION}:
        rows, deletions, versioned = _count(manifest, opened.frames)
    else:
        rows, deletions = sum(footer.rows for footer in opened.footers), 0
        versioned = 0 if manifest.version is None else rows
    segment.note_rows(rows, deletions, versioned)


def _count(manifest: Manifest, frames: Sequence[DataFrame]) -> tuple[int, int, int]:
    """Count the rows, the deletions among them and those that have a version."""
    facts = functools.reduce(
        DataFrame.unionAll,
        (
            frame.selectExpr(
                f"{_deleted_at(frame)} is not null as deleted",
                f"{_version(frame, manifest)} is not null as versioned",
            )
            for frame in frames
        ),
    ).selectExpr("count(*)", "count_if(deleted)", "count_if(versioned)")
    rows, deletions, versioned = (column[0].as_py() for column in facts.toArrow().columns)
    return rows, deletions, versioned


def typed_records(manifest: Manifest, frames: Sequence[DataFrame], shape: Columns) -> Records:
    """Read the files as the records of a segment."""
    exact = frozenset.intersection(*(_exact(frame, shape) for frame in frames))
    record = [
        T.StructField(
            field.name,
            _type_in(shape.table, field) if field.name in exact else wire_type(field.dataType),
        )
        for field in wire_fields(shape)
    ]
    wire = [_wire(frame, manifest, T.StructType(record), exact) for frame in frames]
    texts = [
        frame.selectExpr(f"{as_json(frame, manifest)} as record", quote(LINE_NUMBER))
        for frame in frames
    ]
    return Records(
        wire=functools.reduce(DataFrame.unionAll, wire),
        texts=functools.reduce(DataFrame.unionAll, texts),
        shape=shape,
        exact=exact,
        keys=manifest.rules.needed_keys,
        needed=manifest.rules.needed,
        line=str(manifest.line),
    )


def as_texts(manifest: Manifest, frames: Sequence[DataFrame]) -> DataFrame:
    """Turn the rows into JSON, for rules and maps that only know records."""
    return functools.reduce(
        DataFrame.unionAll,
        (
            frame.selectExpr(
                quote(LINE_NUMBER),
                f"{literal(manifest.files[index])} as file",
                f"cast({as_json(frame, manifest)} as binary) as text",
                f"cast({_version(frame, manifest)} as bigint) as version",
            )
            for index, frame in enumerate(frames)
        ),
    )


def as_json(frame: DataFrame, manifest: Manifest) -> str:
    """Return SQL for a row as JSON, without what is null: nothing tells it from absent."""
    # The version belongs to the message of a record, unless the stream declares it as its own.
    declared = (manifest.rules.mapping or manifest.rules).schema["properties"]
    beside = {LINE_NUMBER, TABLE_VERSION} - {*declared}
    columns = [name for name in frame.columns if name not in beside]
    return f"to_json(struct({', '.join(map(quote, columns))}), {_JSON_OPTIONS})"


def _type_in(table: T.StructType, field: T.StructField) -> T.DataType:
    types = {column.name.lower(): column.dataType for column in table}
    return types.get(field.name.lower(), field.dataType)


def _exact(frame: DataFrame, shape: Columns) -> frozenset[str]:
    """Name the columns whose values need no conversion."""
    types = {field.name: field.dataType for field in frame.schema}
    return frozenset(
        field.name
        for field in wire_fields(shape)
        if field.name in types and to_ddl(types[field.name]) == to_ddl(_type_in(shape.table, field))
    )


def _wire(
    frame: DataFrame, manifest: Manifest, record: T.StructType, exact: frozenset[str]
) -> DataFrame:
    types = {field.name: field.dataType for field in frame.schema}
    members = []
    for field in record:
        if field.name not in types:
            value = f"cast(null as {to_ddl(field.dataType)})"
        elif field.name in exact:
            value = quote(field.name)
        else:
            column = quote(field.name), types[field.name], field.dataType
            value = as_wire(*column, field.name, str(manifest.line))
        members.append(f"{literal(field.name)}, {value}")
    carried = ", ".join(
        f"if({quote(name)} is null, null, {literal(name)})" for name in types if name != LINE_NUMBER
    )
    whole = "false" if manifest.rules.partial else f"{_deleted_at(frame)} is null"
    extracted = "null" if manifest.extracted_at is None else literal(manifest.extracted_at)
    columns = {
        LINE_NUMBER: quote(LINE_NUMBER),
        CARRIED: f"if({whole}, null, array_compact(array({carried})))",
        RECEIVED: str(manifest.received_at),
        "time_extracted": extracted,
        "version": _version(frame, manifest),
        "record": f"named_struct({', '.join(members)})",
    }
    return frame.selectExpr(
        *(
            f"cast({columns.get(field.name, 'null')} as {to_ddl(field.dataType)}) "
            f"as {quote(field.name)}"
            for field in wire_schema(record)
        )
    )


def _deleted_at(frame: DataFrame) -> str:
    return quote(DELETED_AT) if DELETED_AT in frame.columns else "null"


def _version(frame: DataFrame, manifest: Manifest) -> str:
    if TABLE_VERSION in frame.columns:
        return quote(TABLE_VERSION)
    return "null" if manifest.version is None else str(manifest.version)


def as_wire(value: str, source: T.DataType, wire: T.DataType, path: str, line: str) -> str:
    """Return SQL for a value of a file in the shape in which a RECORD's would be read, `wire`.

    Another shape raises an error that names the path and the line of the BATCH message.
    """
    if isinstance(source, T.StructType) and isinstance(wire, T.StructType):
        known = {field.name: field.dataType for field in source}
        members = []
        for field in wire:
            member = f"cast(null as {to_ddl(field.dataType)})"
            if field.name in known:
                types = known[field.name], field.dataType
                inner = f"{value}.{quote(field.name)}", *types, f"{path}.{field.name}"
                member = as_wire(*inner, line)
            members.append(f"{literal(field.name)}, {member}")
        return f"if({value} is null, null, named_struct({', '.join(members)}))"
    if isinstance(source, T.ArrayType) and isinstance(wire, T.ArrayType):
        item = as_wire("x", source.elementType, wire.elementType, f"{path}[]", line)
        return f"transform({value}, x -> {item})"
    if isinstance(source, T.MapType) and isinstance(wire, T.MapType):
        entry = as_wire("y", source.valueType, wire.valueType, f"{path}{{}}", line)
        return f"transform_values({value}, (x, y) -> {entry})"
    if not isinstance(wire, T.StringType):
        # A column that is null in all rows of a file has no type there.
        said = f"{path}: {source.simpleString()} stands where the schema declares something else"
        return f"if({value} is null, null, {raised(line, literal(said))})"
    return _text_of(type(source))(value)


def _text_of(source: type[T.DataType]) -> Callable[[str], str]:
    """Return what makes the text of a value, as a RECORD would have it."""
    if source in (T.StructType, T.ArrayType, T.MapType):
        return lambda value: f"to_json({value}, {_JSON_OPTIONS})"
    if source is T.BinaryType:
        return lambda value: f"base64({value})"
    if source is T.TimestampType:
        # An instant; a column without a zone must not take it.
        return lambda value: f"concat(replace(cast({value} as string), ' ', 'T'), '+00:00')"
    return lambda value: f"cast({value} as string)"
