"""One stream under one schema: its records are checked and go into its open segment."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any

from pyspark.sql import types as T

from singer_spark.report import is_reporting
from singer_spark.types import value_kinds
from target_spark_delta.intake.batch_files import Manifest, Rules, parse_manifest, rows_written
from target_spark_delta.intake.json_schema import resolved_schema
from target_spark_delta.intake.mapping import StreamMapping
from target_spark_delta.intake.messages import Message
from target_spark_delta.intake.segments import (
    Segment,
    carried_member,
    extracted_member,
    received_member,
    rejected_member,
    version_member,
)
from target_spark_delta.intake.validation import InvalidRecordError, Validator
from target_spark_delta.methods.batch import Bookmark, Progress, Work
from target_spark_delta.streams.destination import Destination


class SparkDeltaSink:
    """Takes the records of a stream under one SCHEMA; `on_open` hears of each new segment."""

    def __init__(
        self,
        destination: Destination,
        validator: Validator,
        schema: Mapping[str, Any],
        *,
        mapping: StreamMapping | None,
        folder: Path,
        on_open: Callable[[Segment], None],
    ) -> None:
        self.destination = destination
        self.schema = schema
        self.source = destination.read_as
        self._mapping = mapping
        self._loses_keys = mapping is not None and not mapping.keeps(destination.keys)
        self.segment: Segment | None = None
        self.declared_line = 0
        self.last_line = 0
        self.activated_line = 0
        self.versions: set[int] = set()
        self.progress = Progress()
        self._stamps = destination.settings.add_record_metadata or destination.keeps_history
        self._partial_records = destination.options.partial_records
        self._settings = destination.settings
        self._check = validator.check
        self._most_rows = self._settings.batch_size_rows
        self._most_bytes = self._settings.batch_size_bytes
        self._notes_keys = self._settings.validate_records and has_plain_keys(destination, schema)
        self._key_of = itemgetter(*(destination.keys or ("",)))
        self._folder = folder
        self._on_open = on_open
        self._received_at = 0

    def continue_from(self, before: SparkDeltaSink) -> None:
        """Take over what is known of the stream from its sink under an earlier schema."""
        self.last_line, self.activated_line = before.last_line, before.activated_line
        self.versions, self.progress = before.versions, before.progress

    @property
    def work(self) -> Work:
        """Return what a commit of the stream needs to know."""
        return Work(self.destination, self.progress, self._bookmark)

    @cached_property
    def _bookmark(self) -> Bookmark | None:
        """Where rows begin to be late; they are counted only if anybody wants to know."""
        scope = self.destination.scope
        return Bookmark(*scope.again) if scope and scope.again and is_reporting() else None

    def write(self, message: Message) -> bool:
        """Check a record and spool it; return whether the segment has become full."""
        # One that a map leaves out has come all the same.
        self.last_line = message.number
        if message.version is not None:
            self.versions.add(message.version)
        # Before it is mapped it may not say which row it is of.
        lost_key = self._loses_keys
        try:
            if self._mapping:
                mapped = self._mapping.mapped(message)
                if mapped is None:
                    return False
                message, lost_key = mapped, False
            return self._spool(message)
        except InvalidRecordError as error:
            if not self._settings.quarantine:
                raise
            return self._reject(message, rejected_member(error.reason, lost_key=lost_key))

    def _spool(self, message: Message) -> bool:
        partial = self._partial_records
        record, is_deletion = self._check(message.record, message.number, partial=partial)
        segment = self.segment or self._open()
        if segment.keys is not None:
            segment.keys.add(self._key_of(record))
        members = b""
        if is_deletion or partial:
            segment.is_partial = True
            segment.has_deletions |= is_deletion
            members = carried_member(record)
        if self._stamps:
            members += received_member(self._next_received_at())
            members += extracted_member(message.time_extracted)
        if message.version is not None:
            segment.has_versions = True
        return self._append(segment, message, members)

    def _reject(self, message: Message, why: bytes) -> bool:
        segment = self.segment or self._open()
        segment.rejected += 1
        return self._append(segment, message, why)

    def _append(self, segment: Segment, message: Message, members: bytes) -> bool:
        if message.version is not None:
            members += version_member(message.version)
        segment.append(message.record, message.number, members)
        return segment.rows >= self._most_rows or segment.size >= self._most_bytes

    def take_batch(self, message: Message) -> Segment | None:
        """Take the files of a BATCH message as a segment of their own."""
        body = message.body()
        roots = self._settings.batch_roots
        roots.warn_once(cleans_up=self._settings.clean_up_batch_files)
        files, kind = parse_manifest(body, message.number, roots)
        if not files:
            return None
        manifest = Manifest(
            files=files,
            format=kind,
            line=message.number,
            version=message.version,
            extracted_at=_as_text(body.get("time_extracted")),
            received_at=self._next_received_at(),
            rows=rows_written(body),
            rules=Rules(
                stream=self.destination.stream,
                schema=self.schema,
                keys=self.destination.keys,
                full=self._settings.validate_records,
                partial=self._partial_records,
                mapping=self._mapping,
            ),
            roots=roots,
        )
        if message.version is not None:
            self.versions.add(message.version)
        self.last_line = message.number
        segment = Segment.of_files(self._folder, manifest)
        self._on_open(segment)
        return segment

    def _next_received_at(self) -> int:
        """Tell the time in microseconds, strictly increasing, so that it orders records."""
        self._received_at = max(self._received_at + 1, time.time_ns() // 1000)
        return self._received_at

    @property
    def size(self) -> int:
        """Count the bytes in the open segment."""
        return self.segment.size if self.segment else 0

    @property
    def keys_held(self) -> int:
        """Count the keys of the open segment that take memory."""
        return len(self.segment.keys or ()) if self.segment else 0

    def forget_keys(self) -> int:
        """Leave it to Spark to look at the keys of the open segment; return how many they were."""
        held = self.keys_held
        if self.segment:
            self.segment.keys = None
        return held

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
        self.segment.keys = set() if self._notes_keys else None
        self._on_open(self.segment)
        return self.segment


def has_plain_keys(destination: Destination, schema: Mapping[str, Any]) -> bool:
    """Say whether two keys are the same just when Python says so: whole numbers and plain texts.

    Times, for one, can be the same instant in different spellings, and in a column of texts the
    number 1 is the text "1".
    """
    if destination.appends or not destination.keys:
        return False
    properties = resolved_schema(schema)["properties"]
    kinds = {"integer": T.IntegralType, "string": T.StringType}
    for key in destination.keys:
        (kind, *others) = value_kinds(properties[key]) or {""}
        plain = kinds.get(kind)
        if others or not plain or not isinstance(destination.declared[key].dataType, plain):
            return False
    return True


def _as_text(value: Any) -> str | None:
    """Return a member of a message as Spark reads it, which may turn out to be no time."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)
