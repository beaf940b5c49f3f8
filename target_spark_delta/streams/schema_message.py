"""A SCHEMA message into a destination, checked against what the user chose."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import types as T
from referencing.exceptions import Unresolvable

from singer_spark.deltalog import NO_TABLES
from singer_spark.errors import ProtocolError, SchemaError, SettingsError
from singer_spark.names import case_clashes, names_variable, table_name
from singer_spark.protocol import SOME, Scope, engine_of, scope_of, source_of
from singer_spark.types import column_names, comment_of, to_struct
from target_spark_delta.intake.json_schema import (
    LONGEST_NAME,
    MOST_COLUMNS,
    TooLargeError,
    check_depth,
    nullable,
    required_names,
    resolved_schema,
)
from target_spark_delta.intake.mapping import StreamMapping, changes_values, drops_records
from target_spark_delta.intake.messages import Message
from target_spark_delta.rows.columns import HISTORY_COLUMNS, METADATA
from target_spark_delta.settings import Settings
from target_spark_delta.streams.destination import Destination
from target_spark_delta.streams.safety import check_completeness
from target_spark_delta.table.evolve import changed

logger = logging.getLogger(__name__)
# A file system's limit is 255; beside a table there are others, named after it.
_LONGEST_NAME = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaMessage:
    """What a SCHEMA message says of its stream."""

    schema: Mapping[str, Any]  # the JSON Schema
    keys: list[str] | None = None  # the key properties, None where it has none
    # The properties that the tap reads by, none where it does not say.
    bookmarks: tuple[str, ...] = ()
    scope: Scope | None = None  # what the tap reads of the table, None where it does not say
    engine: str | None = None  # the engine that the tap runs on, None where it does not say
    is_filtered: bool = False  # whether stream_maps leave records out
    # The stream as the tap's state names it, where its stream_maps give it another name.
    source: str | None = None

    def mapped(self, one: StreamMapping) -> SchemaMessage:
        """Return what it says of a stream behind a map, which may change the key of a range."""
        scope = self.scope
        if scope and scope.column and changes_values(one.settings, one.stream, scope.column):
            why = "a replication key that stream_maps change"
            scope = Scope(rows=SOME, why=why, again=scope.again)
        filters = drops_records(one.settings, one.stream)
        schema, keys = one.mapped_schema, one.mapped_keys
        return replace(self, schema=schema, keys=keys, scope=scope, is_filtered=filters)


def read_schema_message(message: Message) -> SchemaMessage:
    """Read a SCHEMA message."""
    body = message.body()
    schema, keys = body.get("schema"), body.get("key_properties")
    if not message.stream or not isinstance(schema, Mapping):
        raise ProtocolError(
            f"line {message.number}: a SCHEMA needs stream and schema; look at the tap"
        )
    if keys is not None and not _are_names(keys):
        raise ProtocolError(
            f"line {message.number}: key_properties must be a list of names of properties; "
            "look at the tap"
        )
    check_depth(message.stream, schema)
    bookmarks = body.get("bookmark_properties")
    return SchemaMessage(
        schema=schema,
        keys=None if keys is None else list(dict.fromkeys(keys)),
        bookmarks=tuple(bookmarks or ()) if _are_names(bookmarks) else (),
        scope=scope_of(body),
        engine=engine_of(body),
        source=source_of(body),
    )


def _are_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def destination_of(
    stream: str, declared: SchemaMessage, settings: Settings, *, reloads: bool = False
) -> Destination:
    """Check a stream's SCHEMA and return where its records go, which the run may load afresh."""
    schema, keys = declared.schema, declared.keys
    if not isinstance(schema.get("properties"), Mapping):
        raise ProtocolError(f"stream {stream}: its SCHEMA has no properties; look at the tap")
    try:
        resolved = resolved_schema(schema)
    except TooLargeError as error:
        raise SchemaError(f"stream {stream}: {error.message}") from error
    except Unresolvable as error:
        raise SchemaError(
            f"stream {stream}: its SCHEMA refers to {error.ref}, which is not in it; look at the "
            "tap"
        ) from error
    options = settings.for_stream(stream)
    chosen = tuple(keys or ()) if options.key_properties is None else options.key_properties
    columns = to_struct(resolved)
    _check_names(stream, columns, chosen, settings)
    added = METADATA if settings.add_record_metadata else ()
    if problems := list(options.problems({*columns.names, *added}, chosen)):
        raise SettingsError(f"stream {stream}: {problem}" for problem in problems)
    if options.required_constraints:
        columns = _with_required(columns, resolved)
    destination = Destination(
        stream=stream,
        declared=columns,
        keys=chosen,
        options=options,
        settings=settings,
        comment=comment_of(resolved),
        bookmarks=declared.bookmarks,
        scope=declared.scope,
        reloads=reloads,
        is_filtered=declared.is_filtered,
    )
    _check_partitions(destination)
    _check_history(destination)
    check_completeness(destination)
    return destination


def _with_required(declared: T.StructType, schema: Mapping[str, Any]) -> T.StructType:
    """Mark the columns that every record must have a value for."""
    required = required_names(schema)
    properties = schema["properties"]
    return T.StructType(
        [
            changed(one, nullable=one.name not in required or nullable(properties[one.name]))
            for one in declared
        ]
    )


def _check_partitions(destination: Destination) -> None:
    types = {field.name: field.dataType for field in destination.declared}
    refused = (T.BinaryType, T.StructType, T.ArrayType, T.MapType)
    for name in destination.options.partition_by:
        if isinstance(datatype := types.get(name), refused):
            raise SettingsError(
                f"stream {destination.stream}: partition_by: {name} is {datatype.typeName()}, "
                "which cannot name a partition; choose another column"
            )


def _check_history(destination: Destination) -> None:
    if not destination.keeps_history:
        return
    declared, by = destination.declared, destination.options.dedupe_by
    taken = {name.lower() for name in declared.names}
    if clashes := [name for name in HISTORY_COLUMNS if name in taken]:
        raise SchemaError(
            f"stream {destination.stream}: scd2 adds the columns {', '.join(clashes)}, which the "
            "stream has too; rename them with stream_maps"
        )
    times = (T.DateType, T.TimestampType, T.TimestampNTZType)
    types = {**METADATA, **{field.name: field.dataType for field in declared}}
    if by and not isinstance(types[by], times):
        raise SettingsError(
            f"stream {destination.stream}: scd2 needs a time in dedupe_by, and {by} is "
            f"{types[by].simpleString()}; choose another column or leave it out"
        )
    if by is None:
        logger.warning(
            "Stream %s: scd2 without dedupe_by dates versions by when they were extracted, so what "
            "is sent again after a failure may make versions that never were",
            destination.stream,
        )


def _check_names(
    stream: str, declared: T.StructType, keys: tuple[str, ...], settings: Settings
) -> None:
    if clashes := list(_clashes(declared)):
        listed = "; ".join(" and ".join(group) for group in clashes)
        raise SchemaError(
            f"stream {stream}: columns that differ only by case cannot live in one table: "
            f"{listed}; rename one with stream_maps"
        )
    _check_column_names(stream, list(column_names(declared)))
    _check_table_name(stream)
    if unknown := [key for key in keys if key not in declared.names]:
        raise SchemaError(
            f"stream {stream}: its SCHEMA does not declare the key {', '.join(unknown)}; "
            "look at the tap or set key_properties in stream_options"
        )
    if settings.primary_key_required and not keys:
        raise SchemaError(
            f"stream {stream} has no key and primary_key_required is set; "
            "set key_properties in stream_options"
        )


def _check_column_names(stream: str, listed: list[str]) -> None:
    if len(listed) > MOST_COLUMNS:
        raise SchemaError(
            f"stream {stream}: its SCHEMA declares {len(listed)} columns, those inside structs "
            f"included, and a table takes {MOST_COLUMNS}; leave some out, or declare an object "
            "without properties, which becomes JSON text"
        )
    if beyond := [name for name in listed if len(name) > LONGEST_NAME]:
        raise SchemaError(
            f"stream {stream}: the name of the property {beyond[0][:40]}… is longer than "
            f"{LONGEST_NAME} characters; rename it with stream_maps"
        )
    if odd := [name for name in listed if "\0" in name]:
        # Nor may a column pass for one of those that are put in front of a record.
        raise SchemaError(
            f"stream {stream}: the property {odd[0]!r} has a NUL in its name, which readers of "
            "Parquet refuse; rename it with stream_maps"
        )
    if odd := [name for name in listed if names_variable(name)]:
        raise SchemaError(
            f"stream {stream}: the property {odd[0]} has ${{ in its name, which Hadoop would "
            "replace by a setting in Parquet files; rename it with stream_maps"
        )
    if "" in listed:
        raise SchemaError(
            f"stream {stream}: a property without a name cannot be a column; rename it with "
            "stream_maps"
        )


def _check_table_name(stream: str) -> None:
    if (folder := table_name(stream).lower()) in NO_TABLES:
        raise SchemaError(
            f"stream {stream}: its table would be the folder {folder}, which is no table's; "
            "rename it with stream_maps"
        )
    if len(table_name(stream)) > _LONGEST_NAME:
        raise SchemaError(
            f"stream {stream[:40]}…: its name is too long for a table; rename it with stream_maps"
        )


def _clashes(datatype: T.DataType, prefix: str = "") -> Iterator[tuple[str, ...]]:
    """Find the names that differ only by case, inside structs too."""
    if isinstance(datatype, T.StructType):
        for group in case_clashes(datatype.names):
            yield tuple(f"{prefix}{name}" for name in group)
        for field in datatype:
            yield from _clashes(field.dataType, f"{prefix}{field.name}.")
    elif isinstance(datatype, T.ArrayType):
        yield from _clashes(datatype.elementType, prefix)
    elif isinstance(datatype, T.MapType):
        yield from _clashes(datatype.valueType, prefix)
