"""The Singer target: messages in, Delta commits out, STATE released when it has become true."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from pyspark.sql import SparkSession
from singer_sdk import Target
from singer_sdk.exceptions import RecordsWithoutSchemaException
from singer_sdk.helpers.capabilities import (
    CapabilitiesEnum,
    PluginCapabilities,
    TargetCapabilities,
)
from singer_sdk.mapper import RemoveRecordTransform
from typing_extensions import override

from singer_spark import exact_json
from singer_spark.assignment import Assignment
from singer_spark.engine.machine import ask_for_disk, expect_disk
from singer_spark.engine.session import hold_engine, isolated, open_session
from singer_spark.errors import DataError, ProtocolError, SchemaError
from singer_spark.names import table_name, unmatched
from singer_spark.plugin import SparkPlugin
from singer_spark.state.holder import confirm_lock
from target_spark_delta.commits import budget
from target_spark_delta.commits.closing import close
from target_spark_delta.commits.lanes import Lanes
from target_spark_delta.commits.opening import open_tables
from target_spark_delta.commits.queue import CommitQueue
from target_spark_delta.intake.mapping import StreamMapping, mappings_of
from target_spark_delta.intake.messages import Message, MessageReader
from target_spark_delta.intake.segments import Segment, make_folder
from target_spark_delta.intake.validation import Validator
from target_spark_delta.settings import CONFIG_JSONSCHEMA, Settings, place_problems
from target_spark_delta.sink import SparkDeltaSink
from target_spark_delta.streams.destination import Destination, waiting_folder
from target_spark_delta.streams.safety import warn_of_repetition
from target_spark_delta.streams.schema_message import (
    SchemaMessage,
    destination_of,
    read_schema_message,
)
from target_spark_delta.table import identity, races
from target_spark_delta.table.log import local_folder, remove_folder

logger = logging.getLogger(__name__)


class RecordBeforeSchemaError(ProtocolError, RecordsWithoutSchemaException):
    """A message of a stream came before its SCHEMA."""


class TargetSparkDelta(SparkPlugin, Target):
    """Loads Singer streams into Delta Lake tables with Apache Spark."""

    name = "target-spark-delta"
    config_jsonschema: ClassVar[dict[str, Any]] = CONFIG_JSONSCHEMA
    message_reader_class = MessageReader
    message_reader: MessageReader
    capabilities: ClassVar[list[CapabilitiesEnum]] = [
        PluginCapabilities.ABOUT,
        PluginCapabilities.ACTIVATE_VERSION,
        PluginCapabilities.BATCH,
        PluginCapabilities.STRUCTURED_LOGGING,
        PluginCapabilities.FLATTENING,
        PluginCapabilities.STREAM_MAPS,
        TargetCapabilities.HARD_DELETE,
        TargetCapabilities.SOFT_DELETE,
        TargetCapabilities.TARGET_SCHEMA,
        TargetCapabilities.VALIDATE_RECORDS,
    ]

    @override
    @classmethod
    def settings_problems(cls, config: Mapping[str, Any]) -> list[str]:
        return [*super().settings_problems(config), *place_problems(config)]

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        config = dict(self.config)
        if self.mapper.default_mapper_type is RemoveRecordTransform:
            # The SDK's own mapper has taken this out of the settings.
            config["stream_maps"] = {**config["stream_maps"], "__else__": None}
        self._settings = Settings.from_config(config)
        self._sinks: dict[str, SparkDeltaSink] = {}
        self._routes: dict[str, list[SparkDeltaSink]] = {}
        self._schema_lines: dict[str, bytes] = {}
        self._waiting_versions: dict[str, int] = {}
        self._newest_line = 0
        self._engine_of_tap: str | None = None
        self._assignment = Assignment.here()
        expect_disk(self._settings.spark)
        self._urls = {self._settings.path} - {""}
        self._loader = Lanes(self._engine, self._isolate, self._settings.parallelism)
        self._flow = CommitQueue(self._settings, self._loader, self._assignment)
        self.message_reader.on_tick = self._tick
        self.message_reader.on_failure = self._flow.settle

    @functools.cached_property
    def _folder(self) -> Path:
        return make_folder(self._settings.temp_dir, prefix=f"{self.name}-")

    def _engine(self) -> SparkSession:
        spark = open_session(
            self._settings.spark, urls=sorted(self._urls), engine=self._engine_of_tap
        )
        folders = [self._folder, local_folder(self._settings.path or "s3:/")]
        ask_for_disk(spark, filter(None, folders))
        return spark

    def _isolate(self) -> SparkSession:
        session = isolated()
        session.conf.set("spark.sql.parquet.compression.codec", self._settings.compression)
        races.fence(session, self._assignment)
        return session

    @override
    def _process_schema_message(self, message: Message) -> None:  # type: ignore[override]
        if self._schema_lines.get(message.stream) == message.line:
            return
        if not self._schema_lines:
            self._sweep()
        parts = read_schema_message(message)
        if parts.engine and self._engine_of_tap is None:
            self._engine_of_tap = parts.engine
            hold_engine(self._settings.spark, sorted(self._urls), parts.engine)
        opened = {*self._sinks}
        if self._settings.maps is None:
            routes = [self._declare(message.stream, parts, message)]
        else:
            routes = [
                self._declare(one.alias, parts.mapped(one), message, one.if_needed)
                for one in mappings_of(
                    self._settings.maps, message.stream, parts.schema, parts.keys
                )
            ]
        new = [sink for sink in routes if sink.destination.stream not in opened]
        open_tables(self._flow, routes, new)
        self._note_siblings(new)
        self._routes[message.stream] = routes
        self._schema_lines[message.stream] = message.line

    def _sweep(self) -> None:
        """Remove what dead runs have left beside the tables.

        Who holds a pipeline's lock knows that no other run of it lives.
        """
        pipeline, path = self._assignment.pipeline, self._settings.path
        if self._assignment.generation is not None and pipeline and path:
            confirm_lock(self._assignment)
            for kind in ("staging", "spool"):
                remove_folder(waiting_folder(path, kind, pipeline))

    def _declare(
        self,
        stream: str,
        parts: SchemaMessage,
        message: Message,
        mapping: StreamMapping | None = None,
    ) -> SparkDeltaSink:
        source, pipeline = parts.source or message.stream, self._assignment.pipeline
        reloads = self._assignment.reloads(source)
        destination = replace(
            destination_of(stream, parts, self._settings, reloads=reloads),
            pipeline=pipeline,
            source=None if source == stream else source,
        )
        self._check_table_names(destination)
        before = self._sinks.get(stream)
        destination = self._flow.with_key(destination)
        if before and before.destination == destination and before.schema == parts.schema:
            return before
        if before:
            self._flow.submit_held()
            self._flush(before, at_end=True)
        else:
            warn_of_repetition(destination, remembers=self._assignment.remembers)
        sink = self._new_sink(destination, parts.schema, before, mapping)
        sink.declared_line = message.number
        self._flow.declare(sink)
        self._sinks[stream] = sink
        return sink

    def _note_siblings(self, new: Sequence[SparkDeltaSink]) -> None:
        """Report the tables of a stream that fills several, though one may never get a row.

        A run that goes on from the checkpoint of this one, if it fails, knows all of them then.
        """
        sources = {one.source for one in new}
        siblings = [one for one in self._sinks.values() if one.source in sources]
        for one in siblings if len(siblings) > 1 else ():
            stream = one.destination.stream
            if not one.last_line and stream not in self._assignment.tables:
                identity.tell_absent(one.destination.table, self._assignment, stream, one.source)

    def _new_sink(
        self,
        destination: Destination,
        schema: Mapping[str, Any],
        before: SparkDeltaSink | None,
        mapping: StreamMapping | None,
    ) -> SparkDeltaSink:
        validator = Validator(
            destination.stream, schema, destination.keys, full=self._settings.validate_records
        )
        sink = SparkDeltaSink(
            destination,
            validator,
            schema,
            mapping=mapping,
            folder=self._folder,
            on_open=self._begin,
        )
        if before:
            sink.continue_from(before)
        return sink

    def _check_table_names(self, destination: Destination) -> None:
        stream, folded = destination.stream, table_name(destination.stream).lower()
        for other, sink in self._sinks.items():
            is_same = (other, sink.source) == (stream, destination.read_as)
            if not is_same and table_name(other).lower() == folded:
                raise SchemaError(
                    f"streams {other} and {stream} would share the table {folded}; "
                    "rename one of them in the tap"
                )

    def _sinks_of(self, message: Message) -> list[SparkDeltaSink]:
        sinks = self._routes.get(message.stream)
        if sinks is None:
            raise RecordBeforeSchemaError(
                f"line {message.number}: {message.type} of stream {message.stream!r} came before "
                "its SCHEMA; look at the tap"
            )
        return sinks

    @override
    def _process_record_message(self, message: Message) -> None:  # type: ignore[override]
        if not message.record:
            raise ProtocolError(f"line {message.number}: a RECORD needs a record; look at the tap")
        for sink in self._routes.get(message.stream) or self._sinks_of(message):
            # One whose records are appended may be full and still have to wait for a STATE.
            if sink.write(message) and self._cut_full(sink) and self._settings.flush_all_streams:
                for other in self._sinks.values():
                    self._flush(other)

    @override
    def _process_state_message(self, message: Message) -> None:  # type: ignore[override]
        if not message.value:
            raise ProtocolError(f"line {message.number}: a STATE needs a value; look at the tap")
        state = bytes(message.value)
        try:
            exact_json.check_state(state)
        except ValueError as error:
            raise DataError(
                f"line {message.number}: a STATE cannot be kept, because {error}; look at the tap"
            ) from error
        for sink in self._sinks.values():
            if sink.segment:
                sink.segment.mark(state)
        self._flow.take_state(state, message.number)

    @override
    def _process_activate_version_message(self, message: Message) -> None:  # type: ignore[override]
        if message.stream not in self._routes:
            logger.warning(
                "Line %d: stream %s has no SCHEMA yet, so its version is not activated",
                message.number,
                message.stream,
            )
            return
        if message.version is None:
            raise ProtocolError(
                f"line {message.number}: an ACTIVATE_VERSION needs a version; look at the tap"
            )
        for sink in self._routes[message.stream]:
            sink.activated_line = message.number
            if sink.destination.overwrites or not self._settings.process_activate_version:
                continue
            stream = sink.destination.stream
            if message.version in sink.versions:
                self._waiting_versions.pop(stream, None)
                self._activate(sink, message.version)
            else:
                # It precedes its records, so acting now would empty the table until they are here.
                self._waiting_versions[stream] = message.version

    @override
    def _process_batch_message(self, message: Message) -> None:  # type: ignore[override]
        sinks = self._sinks_of(message)
        # All of them first: files may be removed as soon as nobody is known to need them.
        taken = [(sink, sink.take_batch(message)) for sink in sinks]
        for sink, segment in taken:
            if segment is None:
                continue
            if sink.destination.appends:
                self._flow.hold_files(sink, segment)
            else:
                self._flush(sink, at_end=True)
                self._hold(sink, segment)

    @override
    def process_endofpipe(self) -> None:
        """Commit what is left, and release the last STATE."""
        self._flow.has_all_input = True
        self._flow.submit_held()
        for sink in self._sinks.values():
            self._flush(sink, at_end=True)
        for stream, version in self._waiting_versions.items():
            self._activate_at_end(self._sinks[stream], version)
        self._flow.submit_held()
        self._flow.drain()
        close(self._flow, self._sinks.values())
        for pattern in unmatched(self._settings.stream_options, self._sinks):
            logger.warning("stream_options: no stream is named %s", pattern)
        logger.info(
            "%d batch(es) of %d stream(s), %d record(s) quarantined",
            sum(self._flow.batches.values()),
            len(self._sinks),
            self._flow.quarantined,
        )

    def _activate_at_end(self, sink: SparkDeltaSink, version: int) -> None:
        if sink.last_line < sink.activated_line or self._flow.is_confirmed(sink):
            self._activate(sink, version)
        else:
            logger.warning(
                "Stream %s: version %d is not activated, because nothing says that the stream "
                "is complete",
                sink.destination.stream,
                version,
            )

    def _activate(self, sink: SparkDeltaSink, version: int) -> None:
        if sink.destination.stages_parts:
            # Its rows are not in the table before the end of the stream.
            sink.progress.version = version
            self._flow.hold_back(sink.destination.stream)
            return
        if sink.destination.appends:
            self._flow.submit_held()
        if segment := sink.cut(at_end=True):
            self._hold(sink, segment)
        self._flow.activate(sink, version)

    def _begin(self, segment: Segment) -> None:
        # Before the engine starts, which needs to know what it is to read.
        self._urls.update(segment.manifest.files if segment.manifest else ())
        self._flow.begin(segment, self._sinks[segment.stream].destination)

    def _flush(self, sink: SparkDeltaSink, *, at_end: bool = False) -> bool:
        """Have the open segment of a stream committed, if it may be; return whether it is."""
        segment = sink.cut(at_end=at_end)
        if segment:
            self._flow.submit(sink, segment)
        return segment is not None

    def _cut_full(self, sink: SparkDeltaSink) -> bool:
        """Close the open segment of a stream, if it may be committed; return whether it may."""
        if self._settings.flush_all_streams:
            return self._flush(sink)
        segment = sink.cut()
        if segment:
            self._hold(sink, segment)
        return segment is not None

    def _hold(self, sink: SparkDeltaSink, segment: Segment) -> None:
        """Have a segment committed once a STATE speaks of it, or more of its stream comes."""
        if sink.destination.appends or sink.destination.overwrites:
            self._flow.submit(sink, segment)
        else:
            self._flow.hold(sink, segment)

    def _tick(self) -> None:
        self._flow.collect()
        self._flow.submit_due()
        newest = max((sink.last_line for sink in self._sinks.values()), default=0)
        if newest > self._newest_line:
            self._newest_line = newest
            self._flow.note_progress()
        for sink in self._sinks.values():
            if sink.is_due:
                self._flush(sink)
        for sink in budget.too_large(self._sinks.values(), self._settings.batch_size_bytes):
            self._flush(sink)
        for sink in budget.too_many_keys(self._sinks.values()):
            sink.forget_keys()
