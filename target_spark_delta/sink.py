"""One stream under one schema: its records are checked and go into its open segment."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any

from pyspark.sql import types as T
from singer_sdk.singerlib import resolve_schema_references

from singer_spark.errors import ProtocolError, SchemaError
from singer_spark.names import case_clashes
from singer_spark.typemap import to_struct
from target_spark_delta.load import Destination
from target_spark_delta.messages import Message
from target_spark_delta.settings import Settings
from target_spark_delta.spool import Segment, carried_member, received_member
from target_spark_delta.table import Table
from target_spark_delta.validation import Validator


class SparkDeltaSink:
    """Takes the records of a stream.

    Args:
        destination: Where they go.
        validator: What they must satisfy.
        schema: The schema they are under.
        folder: Where segments are spooled.
        on_open: Called with each new segment.
    """

    def __init__(
        self,
        destination: Destination,
        validator: Validator,
        schema: Mapping[str, Any],
        *,
        folder: Path,
        on_open: Callable[[Segment], None],
    ) -> None:
        self.destination = destination
        self.schema = schema
        self.segment: Segment | None = None
        self.last_line = 0
        self.versions: set[int] = set()
        self._partial_records = destination.options.partial_records
        self._settings = destination.settings
        self._check = validator.check
        self._most_rows = self._settings.batch_size_rows
        self._most_bytes = self._settings.batch_size_bytes
        self._tells_keys = self._settings.validate_records and tells_keys(destination)
        self._key_of = itemgetter(*(destination.keys or ("",)))
        self._folder = folder
        self._on_open = on_open
        self._received_at = 0

    def write(self, message: Message) -> bool:
        """Check a record and spool it; return whether the segment has become full."""
        partial = self._partial_records
        record, is_deletion = self._check(message.record, message.number, partial=partial)
        segment = self.segment or self._open()
        if segment.keys is not None:
            segment.keys.add(self._key_of(record))
        extra = b""
        if is_deletion or partial:
            segment.is_partial = True
            segment.has_deletions |= is_deletion
            extra = carried_member(record)
        if self._settings.add_record_metadata:
            # Strictly increasing, so that it orders records as they came.
            self._received_at = max(self._received_at + 1, time.time_ns() // 1000)
            extra += received_member(self._received_at)
        if message.version is not None:
            segment.has_versions = True
            self.versions.add(message.version)
        segment.append(message.line, message.number, extra)
        self.last_line = message.number
        return segment.rows >= self._most_rows or segment.size >= self._most_bytes

    @property
    def is_due(self) -> bool:
        """Say whether the open segment has waited long enough."""
        segment = self.segment
        waited = self._settings.batch_wait_seconds
        return segment is not None and time.monotonic() - segment.opened_at >= waited

    def cut(self, *, at_end: bool = False) -> Segment | None:
        """Close the open segment, if its records may be committed now.

        An append is exactly-once only if its commit ends where the STATE that it carries does, so
        segments of appended streams are cut at a STATE, whatever their size.
        """
        segment = self.segment
        if segment is None:
            return None
        if at_end or not self.destination.appends:
            segment.close()
            segment.note_facts(self.destination.keys)
            self.segment = None
        elif not segment.is_marked:
            return None
        else:
            self.segment = segment.split_at_mark(self._folder)
            if self.segment:
                self._on_open(self.segment)
        return segment

    def _open(self) -> Segment:
        self.segment = Segment.open(self._folder, self.destination.stream)
        self.segment.keys = set() if self._tells_keys else None
        self._on_open(self.segment)
        return self.segment


def tells_keys(destination: Destination) -> bool:
    """Say whether two keys are the same just when Python says so: whole numbers and plain texts.

    Times, for one, can be the same instant in different spellings.
    """
    types = [destination.declared[key].dataType for key in destination.keys]
    plain = all(isinstance(datatype, (T.IntegralType, T.StringType)) for datatype in types)
    return plain and not destination.appends


def destination_of(
    stream: str, schema: Mapping[str, Any], keys: list[str] | None, settings: Settings
) -> tuple[Destination, dict[str, Any]]:
    """Check a stream's SCHEMA and return where its records go, and the schema, references resolved.

    Args:
        stream: The stream's name.
        schema: Its JSON Schema.
        keys: Its key properties, None where the SCHEMA has none.
        settings: What the user chose.
    """
    if not isinstance(schema.get("properties"), Mapping):
        raise ProtocolError(f"stream {stream}: its SCHEMA has no properties; look at the tap")
    resolved: dict[str, Any] = resolve_schema_references(dict(schema))
    options = settings.for_stream(stream)
    chosen = tuple(keys or ()) if options.key_properties is None else options.key_properties
    _check_names(stream, resolved["properties"], chosen, settings)
    destination = Destination(
        stream=stream,
        table=Table.of_stream(settings.path, settings.schema, stream),
        declared=to_struct(resolved),
        keys=chosen,
        options=options,
        settings=settings,
    )
    return destination, resolved


def _check_names(
    stream: str, properties: Mapping[str, Any], keys: tuple[str, ...], settings: Settings
) -> None:
    if clashes := case_clashes(properties):
        listed = "; ".join(" and ".join(group) for group in clashes)
        raise SchemaError(
            f"stream {stream}: columns that differ only by case cannot live in one table: "
            f"{listed}; rename one with stream_maps"
        )
    if unknown := [key for key in keys if key not in properties]:
        raise SchemaError(
            f"stream {stream}: its SCHEMA does not declare the key {', '.join(unknown)}; "
            "look at the tap or set key_properties in stream_options"
        )
    if settings.primary_key_required and not keys:
        raise SchemaError(
            f"stream {stream} has no key and primary_key_required is set; "
            "set key_properties in stream_options"
        )
