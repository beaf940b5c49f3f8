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
from target_spark_delta.commits.closing import close
from target_spark_delta.commits.cutting import SegmentCutter
from target_spark_delta.commits.lanes import Lanes
from target_spark_delta.commits.opening import open_tables, with_key
from target_spark_delta.commits.queue import CommitQueue
from target_spark_delta.commits.reports import stream_table
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
from target_spark_delta.table import races
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
        self._routes: dict[str, list[SparkDeltaSink]] = {}
        self._schema_lines: dict[str, bytes] = {}
        self._engine_of_tap: str | None = None
        self._assignment = Assignment.here()
        expect_disk(self._settings.spark)
        self._urls = {self._settings.path} - {""}
        lanes = Lanes(self._engine, self._isolate, self._settings.parallelism)
        self._queue = CommitQueue(self._settings, lanes, self._assignment)
        self._cutter = SegmentCutter(self._queue)
        self._sinks = self._cutter.sinks
        self.message_reader.on_tick = self._cutter.tick
        self.message_reader.on_failure = self._queue.settle

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
        open_tables(self._queue, routes, new)
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
        destination = with_key(self._queue, destination)
        if before and before.destination == destination and before.schema == parts.schema:
            return before
        if before:
            self._cutter.submit_held()
            self._cutter.flush(before)
        else:
            warn_of_repetition(destination, remembers=self._assignment.remembers)
        sink = self._new_sink(destination, parts.schema, before, mapping)
        sink.declared_line = message.number
        self._cutter.add(sink)
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
                stream_table(one.destination, self._assignment).report_absent()

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
            if sink.write(message):
                self._cutter.cut_full(sink)

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
        self._cutter.take_state(state, message.number)

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
            if self._settings.process_activate_version and not sink.destination.overwrites:
                self._cutter.activate(sink, message.version)

    @override
    def _process_batch_message(self, message: Message) -> None:  # type: ignore[override]
        sinks = self._sinks_of(message)
        # All of them first: files may be removed as soon as nobody is known to need them.
        taken = [(sink, sink.take_batch(message)) for sink in sinks]
        for sink, segment in taken:
            if segment:
                self._cutter.take_files(sink, segment)

    @override
    def process_endofpipe(self) -> None:
        """Commit what is left, and release the last STATE."""
        self._cutter.end_input()
        close(self._queue, self._sinks.values())
        for pattern in unmatched(self._settings.stream_options, self._sinks):
            logger.warning("stream_options: no stream is named %s", pattern)
        logger.info(
            "%d batch(es) of %d stream(s), %d record(s) quarantined",
            sum(self._queue.batches.values()),
            len(self._sinks),
            self._queue.quarantined,
        )

    def _begin(self, segment: Segment) -> None:
        # Before the engine starts, which needs to know what it is to read.
        self._urls.update(segment.manifest.files if segment.manifest else ())
        self._cutter.begin(segment)
