"""The Singer target: messages in, Delta commits out, STATE released when it has become true."""

from __future__ import annotations

import atexit
import functools
import logging
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Mapping
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
from typing_extensions import override

from singer_spark.errors import ProtocolError, SchemaError
from singer_spark.names import table_name
from singer_spark.plugin import SparkPlugin
from singer_spark.session import isolated, open_session
from target_spark_delta.checkpoint import Checkpoints, is_resumable, state_of
from target_spark_delta.commit import Commit
from target_spark_delta.load import Destination, activate_version, load_segment
from target_spark_delta.loader import Loader
from target_spark_delta.messages import Message, MessageReader
from target_spark_delta.settings import CONFIG_JSONSCHEMA, Settings
from target_spark_delta.sink import SparkDeltaSink, destination_of
from target_spark_delta.spool import Segment
from target_spark_delta.validation import Validator

logger = logging.getLogger(__name__)

_SEGMENTS_AHEAD = 2


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
        PluginCapabilities.STRUCTURED_LOGGING,
        TargetCapabilities.HARD_DELETE,
        TargetCapabilities.SOFT_DELETE,
        TargetCapabilities.TARGET_SCHEMA,
        TargetCapabilities.VALIDATE_RECORDS,
    ]

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._settings = Settings.from_config(self.config)
        self._pipeline = os.environ.get("SINGER_SPARK_PIPELINE")
        self._run_id = os.environ.get("SINGER_SPARK_RUN_ID") or str(uuid.uuid4())
        self._sinks: dict[str, SparkDeltaSink] = {}
        self._schema_lines: dict[str, bytes] = {}
        self._segments: dict[int, Segment] = {}
        self._batches: dict[str, int] = {}
        self._waiting_versions: dict[str, int] = {}
        self._checkpoints = Checkpoints()
        self._state: bytes | None = None
        self._state_line = 0
        self._loader = Loader(self._engine, self._isolate, self._settings.parallelism)
        self.message_reader.on_tick = self._tick
        self.message_reader.on_failure = self._settle

    @functools.cached_property
    def _folder(self) -> Path:
        folder = tempfile.mkdtemp(prefix=f"{self.name}-", dir=self._settings.temp_dir)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return Path(folder)

    def _engine(self) -> SparkSession:
        return open_session(self._settings.spark, urls=[self._settings.path])

    def _isolate(self, engine: SparkSession) -> SparkSession:
        session = isolated(engine)
        session.conf.set("spark.sql.parquet.compression.codec", self._settings.compression)
        return session

    @override
    def _process_schema_message(self, message: Message) -> None:  # type: ignore[override]
        if self._schema_lines.get(message.stream) == message.line:
            return
        body = message.body()
        if not message.stream or not isinstance(body.get("schema"), Mapping):
            raise ProtocolError(f"line {message.number}: a SCHEMA needs stream and schema")
        destination, schema = destination_of(
            message.stream, body["schema"], body.get("key_properties"), self._settings
        )
        self._check_table_names(message.stream)
        self._schema_lines[message.stream] = message.line
        before = self._sinks.get(message.stream)
        if before and before.destination == destination and before.schema == schema:
            return
        if before:
            self._flush(before, at_end=True)
        self._sinks[message.stream] = self._new_sink(destination, schema, before)

    def _new_sink(
        self, destination: Destination, schema: dict[str, Any], before: SparkDeltaSink | None
    ) -> SparkDeltaSink:
        validator = Validator(
            destination.stream, schema, destination.keys, full=self._settings.validate_records
        )
        sink = SparkDeltaSink(
            destination, validator, schema, folder=self._folder, on_open=self._begin
        )
        if before:
            sink.last_line, sink.versions = before.last_line, before.versions
        return sink

    def _check_table_names(self, stream: str) -> None:
        folded = table_name(stream).lower()
        for other in self._sinks:
            if other != stream and table_name(other).lower() == folded:
                raise SchemaError(
                    f"streams {other} and {stream} would share the table {folded}; "
                    "rename one of them in the tap"
                )

    def _sink(self, message: Message) -> SparkDeltaSink:
        sink = self._sinks.get(message.stream)
        if sink is None:
            raise RecordBeforeSchemaError(
                f"line {message.number}: {message.type} of stream {message.stream!r} came before "
                "its SCHEMA; look at the tap"
            )
        return sink

    @override
    def _process_record_message(self, message: Message) -> None:  # type: ignore[override]
        sink = self._sinks.get(message.stream) or self._sink(message)
        if sink.write(message):
            self._flush(sink)

    @override
    def _process_state_message(self, message: Message) -> None:  # type: ignore[override]
        if not message.value:
            raise ProtocolError(f"line {message.number}: a STATE needs a value")
        self._state, self._state_line = bytes(message.value), message.number
        for sink in self._sinks.values():
            if sink.segment:
                sink.segment.mark(self._state)
        self._checkpoints.hold(self._state)
        self._release()

    @override
    def _process_activate_version_message(self, message: Message) -> None:  # type: ignore[override]
        sink = self._sink(message)
        if message.version is None:
            raise ProtocolError(f"line {message.number}: an ACTIVATE_VERSION needs a version")
        if not self._settings.process_activate_version:
            return
        if message.version in sink.versions:
            self._activate(sink, message.version)
        else:
            # It precedes its records, so acting now would empty the table until they are here.
            self._waiting_versions[message.stream] = message.version

    @override
    def _process_batch_message(self, message: Message) -> None:  # type: ignore[override]
        raise ProtocolError(
            f"line {message.number}: BATCH messages are not taken; remove batch_config in the tap"
        )

    @override
    def process_endofpipe(self) -> None:
        """Commit what is left, and release the last STATE."""
        for sink in self._sinks.values():
            self._flush(sink, at_end=True)
        for stream, version in self._waiting_versions.items():
            self._activate_at_end(self._sinks[stream], version)
        while self._loader.wait_for_one():
            self._collect()
        self._collect()
        logger.info("%d batch(es) of %d stream(s)", sum(self._batches.values()), len(self._sinks))

    def _activate_at_end(self, sink: SparkDeltaSink, version: int) -> None:
        stream = sink.destination.stream
        confirmed = self._state_line > sink.last_line and not is_resumable(
            state_of(stream, self._state)
        )
        if confirmed or version not in sink.versions:
            self._activate(sink, version)
        else:
            logger.warning(
                "Stream %s: version %d is not activated, because nothing says that the stream "
                "is complete",
                stream,
                version,
            )

    def _activate(self, sink: SparkDeltaSink, version: int) -> None:
        self._flush(sink, at_end=True)
        commit = Commit(
            pipeline=self._pipeline, run_id=self._run_id, stream=sink.destination.stream
        )
        marker = Segment(sink.destination.stream, Path())
        self._checkpoints.begin(marker.id)
        self._loader.submit(
            sink.destination.stream,
            marker.id,
            lambda spark: activate_version(spark, sink.destination, version, commit),
        )

    def _begin(self, segment: Segment) -> None:
        self._checkpoints.begin(segment.id)
        self._loader.warm_up()

    def _flush(self, sink: SparkDeltaSink, *, at_end: bool = False) -> None:
        segment = sink.cut(at_end=at_end)
        if segment is None:
            return
        destination = sink.destination
        stream = destination.stream
        self._batches[stream] = self._batches.get(stream, 0) + 1
        self._segments[segment.id] = segment
        commit = Commit(
            pipeline=self._pipeline,
            run_id=self._run_id,
            stream=stream,
            batch=self._batches[stream],
            rows=segment.rows,
            state=state_of(stream, segment.state or self._state),
        )
        self._loader.submit(
            stream, segment.id, lambda spark: load_segment(spark, destination, segment, commit)
        )
        # Spooling runs ahead of the commits, but not without bound.
        self._loader.wait(self._settings.parallelism * _SEGMENTS_AHEAD)

    def _tick(self) -> None:
        self._collect()
        for sink in self._sinks.values():
            if sink.is_due:
                self._flush(sink)

    def _collect(self) -> None:
        """Take note of what has been committed, release STATE, and raise what failed."""
        while done := self._loader.completed():
            for number in done:
                self._checkpoints.commit(number)
                if segment := self._segments.pop(number, None):
                    segment.remove()
                    logger.info("%s: %d record(s) loaded", segment.stream, segment.rows)
            self._release()

    def _release(self) -> None:
        state = self._checkpoints.release()
        if state is not None:
            sys.stdout.write(f"{state.decode()}\n")
            sys.stdout.flush()

    def _settle(self) -> None:
        """Let what is under way end, and release its STATE, before the error ends the run."""
        self._loader.settle()
        self._collect()
