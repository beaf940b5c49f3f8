"""One stream as the SDK sees it before a row is read: keys, catalog entry, table, plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from singer_sdk import Stream
from singer_sdk.mapper import SameRecordTransform
from singer_sdk.singerlib import Catalog, CatalogEntry, MetadataMapping, Schema
from typing_extensions import override

from singer_spark.errors import SourceError
from singer_spark.protocol import AT_BOOKMARK, DELTA_SNAPSHOT
from tap_spark_source.plan.bookmark import DELTA_VERSION
from tap_spark_source.plan.read_plan import ReadPlan, plan_read
from tap_spark_source.plan.replication import (
    Replication,
    plan_replication,
    root_metadata,
    table_metadata,
)
from tap_spark_source.plan.table import Column, Table
from tap_spark_source.readers import delta_log
from tap_spark_source.settings import FULL_TABLE, INCREMENTAL, LOG_BASED
from tap_spark_source.sources.base import Place, source_errors
from tap_spark_source.sources.lake import LakeSource

if TYPE_CHECKING:
    from tap_spark_source.tap import TapSparkSource


_SDK_MARKERS = ("progress_markers", "starting_replication_value", "replication_key_signpost")


class PlannedStream(Stream):
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
            name, schema = table.stream, json_schema(table.columns)
        elif entry is not None:
            # The SDK takes an empty one for none.
            name, schema = entry.tap_stream_id, entry.schema.to_dict() or {"type": "object"}
        # Before the SDK makes an entry for every stream.
        self._is_in_state = name in tap.state.get("bookmarks", {})
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
        columns = self.schema.get("properties", {})
        self._replication = replication = self._decide(columns)
        self.forced_replication_method = replication.method
        # The SDK knows keys of one column only; expressions and lists are ours alone.
        plain = replication.key if len(replication.key) == 1 else ()
        self.replication_key = next((name for name in plain if name in columns), None)

    def _decide(self, columns: Iterable[str]) -> Replication:
        return plan_replication(
            self.name, self._tap.settings, columns=set(columns), entry=self._entry
        )

    @property  # type: ignore[explicit-override]
    @override
    def selected(self) -> bool:
        """Whether to read the stream: with a given window only where it has a key."""
        if self.is_chosen and self._tap.settings.has_window and not self._replication.key:
            self.logger.warning(
                "%s: left out, because it has no replication key that window_start and window_end "
                "could be values of",
                self.name,
            )
            return False
        return self.is_chosen

    @selected.setter
    @override
    def selected(self, value: bool | None) -> None:
        self.metadata.root.selected = value
        self._mask = self.metadata.resolve_selection()

    # Catalog

    @property
    @override
    def metadata(self) -> MetadataMapping:
        if self._metadata is None and self._table is not None and self._entry is None:
            automatic = {*self.primary_keys, *self._replication.key}
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
            replication_key=self._replication.name,
            # Not the default: it would beat a replication_key that is added to the settings.
            replication_method=INCREMENTAL if self._replication.key else None,
            is_view=table.is_view if table else None,
            table=table.name if table else None,
        )

    @property
    def place(self) -> Place:
        """Where the table is, as far as the catalog says it."""
        entry = self._entry
        schema = root_metadata(entry).schema_name if entry else None
        return Place(stream=self.name, schema=schema, name=entry.table if entry else None)

    @property
    def is_chosen(self) -> bool:
        """Whether the catalog selects the stream."""
        return bool(self.mask.get((), True))

    @cached_property
    def table(self) -> Table:
        """The table as it is now."""
        if self._table is not None:
            return self._table
        place = self.place
        table = self._tap.find(place)
        if table is None:
            label = ".".join(filter(None, [place.schema, place.name])) or self.name
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
        replication = self._possible(self._decide(column.name for column in table.columns), table)
        return plan_read(
            table,
            self._tap.settings,
            replication=replication,
            key_properties=tuple(self.primary_keys),
            is_selected=lambda name: (
                name in wanted if known else bool(self.mask["properties", name])
            ),
            bookmark=self._bookmark(replication.name),
            describe=lambda expression: self._tap.source.describe(table, expression),
        )

    def _possible(self, replication: Replication, table: Table) -> Replication:
        """Have a table read in full that only the default would follow, and that keeps no log."""
        source, begun = self._tap.source, {DELTA_VERSION, DELTA_SNAPSHOT} & {*self.stream_state}
        is_by_default = replication.is_default and replication.method == LOG_BASED and not begun
        if not is_by_default or not isinstance(source, LakeSource):
            return replication
        with source_errors(self._tap.settings, self.name):
            if delta_log.can_follow(source, table):
                return replication
        self.logger.info(
            "%s: %s records no changes to follow; it is read by FULL_TABLE", self.name, table.label
        )
        self.forced_replication_method = FULL_TABLE
        return Replication()

    def _bookmark(self, new: Any) -> Mapping[str, Any]:
        """Return the stream's bookmark; one of another key starts afresh."""
        found = dict(self.stream_state)
        if self._tap.settings.has_window:
            return found
        for marker in _SDK_MARKERS:
            found.pop(marker, None)
        old = found.get("replication_key")
        if new and old is None and found.get("replication_key_value") is not None:
            # As many a state that was written by hand, or by another tap.
            self.logger.info(
                "%s: the bookmark names no replication_key; its value is taken for one of %s",
                self.name,
                new,
            )
            found["replication_key"] = old = new
        if new and old not in (None, new):
            self.logger.info(
                "%s: the replication key was %s and is now %s; reading from the start",
                self.name,
                old,
                new,
            )
            del found["replication_key"]
            found.pop(AT_BOOKMARK, None)
            found.pop("replication_key_value", None)
        return found

    @cached_property
    def takes_sdk_path(self) -> bool:
        """Say whether Python must look at each record."""
        for crumb, is_chosen in self.mask.items():
            if len(crumb) > 2 and not is_chosen and self.mask[crumb[:2]]:
                return True
        maps = self.stream_maps
        is_plain = len(maps) == 1 and type(maps[0]) is SameRecordTransform
        return not is_plain or bool(self.config.get("flattening_enabled"))


def json_schema(
    columns: Iterable[Column], *, known: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the schema of a record; what a catalog says of the same type is kept."""
    properties = {}
    for column in columns:
        given = (known or {}).get(column.name) or {}
        same = given.get("x-sql-datatype", "") == column.schema.get("x-sql-datatype")
        properties[column.name] = dict(given if same else column.schema)
    return {"type": "object", "properties": properties}
