"""One stream: plan, read, write, bookmark. The SDK drives it, Spark does the work."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from singer_sdk import Stream
from singer_sdk.helpers.types import Context, Record
from singer_sdk.mapper import SameRecordTransform
from singer_sdk.singerlib import (
    Catalog,
    CatalogEntry,
    MetadataMapping,
    Schema,
    SchemaMessage,
    StateMessage,
)
from typing_extensions import override

from singer_spark.errors import SourceError
from tap_spark_source import messages
from tap_spark_source.catalog import root_metadata, table_metadata
from tap_spark_source.plan import ReadPlan, plan_read, plan_replication
from tap_spark_source.reading import Reading, open_reading
from tap_spark_source.settings import INCREMENTAL
from tap_spark_source.table import Column, Table

if TYPE_CHECKING:
    from tap_spark_source.tap import TapSparkSource

_SDK_MARKERS = ("progress_markers", "starting_replication_value", "replication_key_signpost")


class SparkStream(Stream):
    """The stream of one table, described by discovery or, when it is read, by its catalog entry."""

    _tap: TapSparkSource

    def __init__(
        self,
        tap: TapSparkSource,
        *,
        table: Table | None = None,
        entry: CatalogEntry | None = None,
    ) -> None:
        self._table = table
        self._entry = entry
        if table is not None:
            name, schema = table.stream, _json_schema(table.columns)
        elif entry is not None:
            name, schema = entry.tap_stream_id, entry.schema.to_dict()
        super().__init__(tap, name=name, schema=schema)
        self._settle_keys()

    @override
    def apply_catalog(self, catalog: Catalog) -> None:
        super().apply_catalog(catalog)
        self._settle_keys()

    def _settle_keys(self) -> None:
        """Decide on keys and method; the SDK would let the entry's fields beat the metadata."""
        settings, entry = self._tap.settings, self._entry
        options = settings.of_stream(self.name)
        found = self._table.keys if self._table else ()
        given = entry.key_properties if entry else None
        self.primary_keys = tuple(given or options.get("key_properties") or found)
        replication = plan_replication(
            self.name, settings, columns=self.schema.get("properties", {}), entry=entry
        )
        self.replication_key = replication.key
        self.forced_replication_method = replication.method

    # Catalog

    @property
    @override
    def metadata(self) -> MetadataMapping:
        if self._metadata is None and self._table is not None and self._entry is None:
            automatic = {*self.primary_keys, *filter(None, [self.replication_key])}
            self._metadata = table_metadata(self._table, automatic=automatic)
        return super().metadata

    @property
    @override
    def _singer_catalog_entry(self) -> CatalogEntry:
        table = self._table
        return CatalogEntry(
            tap_stream_id=self.name,
            stream=self.name,
            schema=Schema.from_dict(self.schema),
            metadata=self.metadata,
            key_properties=list(self.primary_keys),
            replication_key=self.replication_key,
            # Not the default: it would beat a replication_key that is added to the settings.
            replication_method=INCREMENTAL if self.replication_key else None,
            is_view=table.is_view if table else None,
            table=table.name if table else None,
        )

    @cached_property
    def table(self) -> Table:
        """The table as it is now."""
        if self._table is not None:
            return self._table
        schema = root_metadata(self._entry).schema_name if self._entry else None
        name = self._entry.table if self._entry else None
        table = self._tap.source.find(self.name, schema=schema, name=name)
        if table is None:
            label = ".".join(filter(None, [schema, name])) or self.name
            raise SourceError(
                f"{self.name}: table {label} is gone; discover again, or deselect the stream"
            )
        return table

    @cached_property
    def plan(self) -> ReadPlan:
        """What this run reads."""
        table = self.table
        known = self._entry.schema.to_dict().get("properties", {}) if self._entry else {}
        wanted = {name for name in known if self.mask["properties", name]}
        if gone := sorted(name for name in wanted if table.column(name) is None):
            raise SourceError(
                f"{self.name}: table {table.label} has no column {', '.join(gone)}; discover "
                "again, or deselect it"
            )
        return plan_read(
            table,
            self._tap.settings,
            replication=plan_replication(
                self.name,
                self._tap.settings,
                columns={column.name: column for column in table.columns},
                entry=self._entry,
            ),
            key_properties=tuple(self.primary_keys),
            is_selected=lambda name: (
                name in wanted if known else bool(self.mask["properties", name])
            ),
            bookmark=self._bookmark(),
        )

    def _bookmark(self) -> Mapping[str, Any]:
        """Return the stream's bookmark; one of another key starts afresh."""
        found = self.stream_state
        old = found.get("replication_key")
        if self.replication_key and old not in (None, self.replication_key):
            self.logger.info(
                "%s: the replication key was %s and is now %s; reading from the start",
                self.name,
                old,
                self.replication_key,
            )
            return {}
        return found

    # SCHEMA, ACTIVATE_VERSION and STATE

    @override
    def _generate_schema_messages(self) -> Generator[SchemaMessage, None, None]:
        plan = self.plan
        if self._takes_sdk_path:
            yield from super()._generate_schema_messages()
            return
        known = self._entry.schema.to_dict().get("properties", {}) if self._entry else {}
        yield SchemaMessage(
            self.name,
            _json_schema(plan.columns, known=known),
            list(plan.key_properties),
            [self.replication_key] if self.replication_key else None,
        )

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

    @override
    def get_batch_config(self, config: Mapping[str, Any]) -> None:
        """Return none: records are written as RECORD messages."""

    @override
    def _sync_records(
        self, context: Context | None = None, *, write_messages: bool = True
    ) -> Generator[dict[str, Any], Any, Any]:
        """Write the records, then what they make true; none passes through Python's hands."""
        with self.get_record_counter() as counter, self.get_sync_timer():
            reading = self._open()
            for count in self._emit(reading):
                counter.increment(count)
        state = self.stream_state
        for marker in _SDK_MARKERS:
            state.pop(marker, None)
        if reading.mark is not None:
            state["replication_key"] = self.replication_key
            state["replication_key_value"] = reading.mark
        if self._stream_version is not None:
            super()._write_activate_version_message(self._stream_version)
        self.state_manager.is_flushed = False
        self._write_state_message()
        yield from ()

    @override
    def get_records(self, context: Context | None) -> Iterable[Record]:
        """Yield the records of this run as the SDK knows them."""
        return self._open().records()

    def _open(self) -> Reading:
        tap = self._tap
        version = self._stream_version
        return open_reading(tap.spark, tap.source, self.plan, tap.settings, version=version)

    def _emit(self, reading: Reading) -> Iterator[int]:
        """Write the records, and yield how many as they go."""
        limit = self.ABORT_AT_RECORD_COUNT
        if self._takes_sdk_path:
            yield from self._emit_mapped(reading)
        elif limit is None:
            for block in reading.blocks():
                messages.write_bytes(block)
                yield bytes(block).count(b"\n")
        else:
            found = reading.first(limit + 1)
            messages.write_bytes(b"".join(found[:limit]))
            yield len(found[:limit])
            self._check_max_record_limit(len(found) - 1)

    def _emit_mapped(self, reading: Reading) -> Iterator[int]:
        self.logger.info(
            "%s: stream maps, flattening or a deselected nested property; records go through the "
            "SDK, one by one",
            self.name,
        )
        for index, record in enumerate(reading.records()):
            self._check_max_record_limit(index)
            self._write_record_message(record)
            yield 1

    @cached_property
    def _takes_sdk_path(self) -> bool:
        """Say whether Python must look at each record."""
        for crumb, is_chosen in self.mask.items():
            if len(crumb) > 2 and not is_chosen and self.mask[crumb[:2]]:
                return True
        maps = self.stream_maps
        is_plain = len(maps) == 1 and type(maps[0]) is SameRecordTransform
        return not is_plain or bool(self.config.get("flattening_enabled"))


def _json_schema(
    columns: Iterable[Column], *, known: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the schema of a record; what a catalog says of the same type is kept."""
    properties = {}
    for column in columns:
        given = (known or {}).get(column.name) or {}
        same = given.get("x-sql-datatype", "") == column.schema.get("x-sql-datatype")
        properties[column.name] = dict(given if same else column.schema)
    return {"type": "object", "properties": properties}
