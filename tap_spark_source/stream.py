"""One stream: chunk after chunk, each followed by its STATE; the SDK drives, Spark works."""

from __future__ import annotations

import json
from collections.abc import Container, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from singer_sdk.helpers.types import Context, Record
from singer_sdk.metrics import get_metrics_logger
from singer_sdk.singerlib import SchemaMessage, StateMessage
from typing_extensions import override

from singer_spark.engine.session import engine_for_pipe
from singer_spark.errors import SettingsError
from singer_spark.protocol import AT_BOOKMARK, LATE, SOME, Scope
from singer_spark.report import Pulse, report
from tap_spark_source.output import records
from tap_spark_source.output.batch_files import has_room, write_batch
from tap_spark_source.output.records import Reading, open_reading
from tap_spark_source.plan.scope import (
    Traits,
    completes_version,
    mapped,
    read_again,
    read_for,
    scope_of_late_rows,
    scope_of_read,
)
from tap_spark_source.plan.warnings import advice, idle_settings
from tap_spark_source.plan.window import Bounds
from tap_spark_source.planned_stream import PlannedStream, json_schema
from tap_spark_source.readers import chunks, preview
from tap_spark_source.readers.chunks import Chunk
from tap_spark_source.readers.open_window import bounds_of
from tap_spark_source.sources.base import source_errors
from tap_spark_source.sources.kafka.topics import KafkaSource


class SparkStream(PlannedStream):
    """What a stream writes."""

    # SCHEMA, ACTIVATE_VERSION and STATE

    @override
    def _generate_schema_messages(self) -> Generator[SchemaMessage, None, None]:
        plan, name, late = self.plan, self.name, self._late_name
        self._tap.check_source()
        if self.takes_sdk_path:
            yield from self._mapped_schemas()
            return
        self._refuse_hidden_key(plan.key_properties, [one.name for one in plan.properties])
        known = self._entry.schema.to_dict().get("properties", {}) if self._entry else {}
        scopes = {name: self.scope} | ({late: self._late_scope} if late else {})
        for stream, scope in scopes.items():
            yield records.ScopedSchema(
                stream,
                json_schema(plan.properties, known=known),
                list(plan.key_properties),
                self._bookmark_properties,
                scope.to_dict(engine_for_pipe()),
            )

    def _mapped_schemas(self) -> Iterator[SchemaMessage]:
        """Yield what the SDK says of each stream that maps make of this one."""
        has_flag = self._tap.settings.of_stream(self.name).get("deleted_flag")
        if self.plan.has_deletions or has_flag:
            raise SettingsError(
                f"{self.name}: LOG_BASED, snapshot and deleted_flag do not go with stream "
                "maps, flattening or deselected nested properties, which would undo deletions; "
                "remove one of them"
            )
        for message in super()._generate_schema_messages():
            arrives = message.schema.get("properties", {})
            self._refuse_hidden_key(message.key_properties or (), arrives)
            scope = mapped(self.scope, self.plan, arrives=arrives, maps=self._maps)
            scope = replace(scope, again=self.scope.again)
            source = {} if message.stream == self.name else {"stream": self.name}
            yield records.ScopedSchema(
                message.stream,
                message.schema,
                message.key_properties,
                self._bookmark_properties,
                {**scope.to_dict(engine_for_pipe()), **source},
            )

    @property
    def _maps(self) -> Mapping[str, Any]:
        return self.config.get("stream_maps") or {}

    @property
    def _bookmark_properties(self) -> list[str] | None:
        plan = self.plan
        return [part.name for part in plan.key.parts] if plan.window and plan.key else None

    def _refuse_hidden_key(self, keys: Sequence[str], arrives: Container[str]) -> None:
        """Fail where nothing that arrives tells rows that come again from new ones."""
        hidden = [name for name in self._bookmark_properties or () if name not in arrives]
        if hidden and not keys:
            raise SettingsError(
                f"{self.name}: a stream without key_properties needs a replication key that "
                f"arrives as a column, and {', '.join(hidden)} does not; set key_properties, or "
                "choose a column that stream_maps leave as it is"
            )

    @cached_property
    def scope(self) -> Scope:
        """Which rows of the table this run reads."""
        if self.ABORT_AT_RECORD_COUNT is not None:
            return Scope(rows=SOME, why="a limit of records")
        scope = scope_of_read(self.plan, self._bounds, self._traits)
        return replace(scope, again=read_again(self.plan, self._bounds))

    @property
    def _traits(self) -> Traits:
        source, table, key = self._tap.source, self.plan.table, self.plan.key
        return Traits(
            is_topic=isinstance(source, KafkaSource),
            can_slice=source.can_slice,
            sorts_as_spark=key is None or source.sorts_as_spark(table, key.parts[0]),
        )

    @property
    def _numbers_all(self) -> bool:
        """Say whether rows that lack the version of this load are gone at the source."""
        return completes_version(mapped(self.scope, self.plan, arrives=(), maps=self._maps))

    @property
    def _late_scope(self) -> Scope:
        return scope_of_late_rows(self.plan, self._bounds, self._traits)

    @cached_property
    def _bounds(self) -> Bounds:
        with source_errors(self._tap.settings, self.name):
            return bounds_of(self._tap.source, self.plan)

    @property
    def _late_name(self) -> str | None:
        """The stream of the rows below the bookmark, where they have one of their own."""
        if not (self.plan.late_stream and self.plan.window):
            return None
        if self.takes_sdk_path:
            raise SettingsError(
                f"{self.name}: late_stream does not go with stream maps, flattening or deselected "
                "nested properties; remove one of them"
            )
        return f"{self.name}{LATE}"

    @override
    def get_replication_key_signpost(self, context: Context | None = None) -> None:
        """Return none: the upper bound of a read comes from the source."""

    @override
    def _write_activate_version_message(self, full_table_version: int) -> None:
        """Number the load, but leave the message to its end: here it precedes the records."""
        del full_table_version
        self._stream_version = self._initialized_at

    @override
    def _write_state_message(self) -> None:
        """Write the state even where it is the same as before: it also ends the stream."""
        if not self.state_manager.is_flushed:
            self._tap.write_message(StateMessage(value=self.tap_state))
            self.state_manager.is_flushed = True

    @override
    def finalize_state_progress_markers(self, state: dict[str, Any] | None = None) -> None:
        """Do nothing: the state is complete when the stream is."""

    # Records

    def preview(self) -> dict[str, Any]:
        """Describe what this run would read."""
        with source_errors(self._tap.settings, self.name):
            told = preview(self._tap.source, self.plan)
        keys = list(self.plan.key_properties)
        return {**told, "key_properties": keys, **self.scope.to_dict()}

    @override
    def get_batch_config(self, config: Mapping[str, Any]) -> None:
        """Return none: the SDK would write files row by row; ours are Spark's."""

    @override
    def _sync_records(
        self, context: Context | None = None, *, write_messages: bool = True
    ) -> Generator[dict[str, Any], Any, Any]:
        """Write chunk after chunk, each followed by what it makes true."""
        with self.get_record_counter() as counter, self.get_sync_timer():
            self._advise()
            pulse = Pulse(f"reading {self.name}")
            below, written, is_complete = 0, 0, True
            said: Mapping[str, Any] | None = None
            for chunk in self._chunks():
                is_complete, before = chunk.is_last, written
                for count in self._emit(chunk, written=written):
                    pulse.beat()
                    written += count
                    counter.increment(count)
                    below += count if chunk.below_bookmark else 0
                below += chunk.below.rows if chunk.below else 0
                # What lay beyond the highest key was nothing: there is nothing new to say.
                if written > before or chunk.version is not None or chunk.bookmark != said:
                    self._settle(chunk)
                said = chunk.bookmark
        if not is_complete:
            report("limited", self.name)
        if below:
            self._tell_below(below)
        yield from ()

    def _tell_below(self, rows: int) -> None:
        """Tell log and metrics how many rows the lookback has read, late or not."""
        self.logger.info(
            "%s: the lookback read %d rows below the bookmark, those known before included",
            self.name,
            rows,
        )
        told = {"type": "counter", "metric": "late_record_count", "value": rows}
        told["tags"] = {"stream": self.name}
        get_metrics_logger().info("METRIC: %s", json.dumps(told))

    def _advise(self) -> None:
        """Log what the user should know before the rows come."""
        for line in (*idle_settings(self.plan, self._tap.settings), *advice(self.plan)):
            self.logger.warning("%s: %s", self.name, line)
        if self._stream_version is not None and not self._numbers_all:
            self.logger.warning(
                "%s: no ACTIVATE_VERSION is written, because the read is limited by %s; rows that "
                "are gone at the source stay in the target",
                self.name,
                self.scope.why or "a filter of stream_maps",
            )
        if self.takes_sdk_path:
            self.logger.info(
                "%s: stream maps, flattening or a deselected nested property; records go through "
                "the SDK, one by one",
                self.name,
            )

    def _settle(self, chunk: Chunk) -> None:
        """Write what is true now that the chunk is written."""
        state = self.stream_state
        state.clear()
        state.update(chunk.bookmark)
        again = chunk.again if chunk.is_last else None
        if again and again.rows is not None:
            state[AT_BOOKMARK] = again.rows.to_dict(again.plan)
        if self._tap.settings.has_window and not (state or self._is_in_state):
            del self.tap_state["bookmarks"][self.name]
        # What tells changes alone has no version, which would retire every other row.
        version = chunk.version if self._stream_version is not None else None
        if chunk.is_last and version is not None and self._numbers_all:
            super()._write_activate_version_message(version)
        self.state_manager.is_flushed = False
        self._write_state_message()

    @override
    def get_records(self, context: Context | None) -> Iterable[Record]:
        """Yield the records of this run as the SDK knows them."""
        for chunk in self._chunks():
            if reading := self._open(chunk):
                yield from reading.records()

    def _chunks(self) -> Iterator[Chunk]:
        """Read the stream in the way that fits what becomes of its rows."""
        tap = self._tap
        loaded = tap.loaded(self.name, self.plan.key_properties)
        plan = read_for(
            self.plan, self.scope, loaded, reloads=tap.reloads(self.name), is_told=tap.knows_loading
        )
        plan = replace(plan, is_observed=self._is_observed)
        with source_errors(tap.settings, self.name):
            yield from chunks(tap.source, plan, version=self._initialized_at)

    @property
    def _is_observed(self) -> bool:
        """Say whether Spark's own counts of what it writes are heard."""
        settings = self._tap.settings
        is_written = bool(settings.batch) or not settings.spark.retries_tasks
        return is_written and not self.takes_sdk_path and self.ABORT_AT_RECORD_COUNT is None

    def _open(self, chunk: Chunk) -> Reading | None:
        if chunk.frame is None:
            return None
        version = chunk.version if self._stream_version is not None else None
        if chunk.again and self.takes_sdk_path:
            chunk.again.lose()  # nobody looks at what maps make of rows
        name = (self._late_name if chunk.below_bookmark else None) or self.name
        return open_reading(
            self._tap.settings,
            name,
            chunk.frame,
            keys=self.plan.key_properties if self.plan.has_deletions else (),
            are_texts=chunk.are_texts,
            version=version,
            watches=[watch for watch in (chunk.again, chunk.below) if watch],
        )

    def _emit(self, chunk: Chunk, *, written: int) -> Iterator[int]:
        """Write the records of a chunk after those of others, and yield how many as they go."""
        reading, limit = self._open(chunk), self.ABORT_AT_RECORD_COUNT
        if reading is None:
            return
        if self.takes_sdk_path:
            if chunk.version is not None and self._stream_version is not None:
                # A load that goes on keeps its version; the SDK would write that of this run.
                self._stream_version = chunk.version
            for index, record in enumerate(reading.records(), start=written):
                self._check_max_record_limit(index)
                self._write_record_message(record)
                yield 1
        elif limit is None and (batch := self._tap.settings.batch) and has_room(batch):
            yield write_batch(reading, batch)
        elif limit is None:
            for block, rows in reading.blocks():
                records.write_bytes(block)
                yield rows
        else:
            found = reading.first(limit - written + 1)
            records.write_bytes(b"".join(found[: limit - written]))
            yield len(found[: limit - written])
            self._check_max_record_limit(written + len(found) - 1)
