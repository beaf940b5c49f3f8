"""Singer catalogs with the metadata that the SDK's own classes drop.

Meltano writes `replication-method` and `replication-key` into the metadata, and says that they win
over the fields of the entry; the SDK keeps only the second.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from singer_sdk.singerlib import Catalog, CatalogEntry, Metadata, MetadataMapping, StreamMetadata

from singer_spark.errors import SettingsError
from tap_spark_source.plan.table import Table
from tap_spark_source.settings import Settings, StreamOptions
from tap_spark_source.settings_schema import FULL_TABLE, INCREMENTAL, LOG_BASED, METHODS

_AUTOMATIC = Metadata.InclusionType.AUTOMATIC
_AVAILABLE = Metadata.InclusionType.AVAILABLE


@dataclass(slots=True)
class TableMetadata(StreamMetadata):
    """Metadata of a stream, with what databases know of it."""

    replication_method: str | None = None
    is_view: bool | None = None


@dataclass(slots=True)
class ColumnMetadata(Metadata):
    """Metadata of a property, with the source's own name of its type."""

    sql_datatype: str | None = None


def read_catalog(document: Mapping[str, Any]) -> Catalog:
    """Read a catalog document, or explain what is wrong with it."""
    catalog = Catalog()
    try:
        for entry in document["streams"]:
            catalog.add_stream(_entry(entry))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SettingsError(
            f"the catalog is no Singer catalog ({type(error).__name__} {error}); write it anew "
            "with --discover"
        ) from error
    return catalog


def _entry(document: Mapping[str, Any]) -> CatalogEntry:
    entry = CatalogEntry.from_dict(dict(document))
    _check_kinds(entry)
    if not isinstance(document["schema"], Mapping):
        raise TypeError("a schema is no object")
    entry.stream = entry.tap_stream_id
    mapping = MetadataMapping()
    for item in document.get("metadata") or ():
        breadcrumb = tuple(item["breadcrumb"])
        kind = ColumnMetadata if breadcrumb else TableMetadata
        mapping[breadcrumb] = kind.from_dict(item["metadata"])
    entry.metadata = mapping
    # Not `mapping.root`, which would add an entry, and that would mean: not selected.
    root = mapping.get(())
    if isinstance(root, TableMetadata) and root.table_key_properties:
        if not _are_names(root.table_key_properties):
            raise TypeError("table-key-properties are no list of names")
        entry.key_properties = root.table_key_properties
    return entry


def _check_kinds(entry: CatalogEntry) -> None:
    """Refuse members of other kinds, which the SDK takes as they are."""
    given, optional = entry.tap_stream_id, (entry.table, entry.replication_method)
    if not all(isinstance(one, str) for one in (given, *filter(None, optional))):
        raise TypeError("a name or a method is no text")
    if not _are_names(entry.key_properties):
        raise TypeError("key_properties are no list of names")


def _are_names(value: object) -> bool:
    return value is None or (
        isinstance(value, list) and all(isinstance(name, str) for name in value)
    )


def root_metadata(entry: CatalogEntry) -> TableMetadata:
    """Return the metadata of the stream itself, empty where the catalog has none."""
    root = entry.metadata.get(())
    return TableMetadata.from_dict(root.to_dict()) if root else TableMetadata()


def table_metadata(table: Table, *, automatic: set[str]) -> MetadataMapping:
    """Return the metadata of a discovered table, selected as a whole."""
    mapping = MetadataMapping()
    mapping[()] = TableMetadata(
        inclusion=_AVAILABLE,
        selected=True,
        selected_by_default=True,
        table_key_properties=list(table.keys),
        valid_replication_keys=[column.name for column in table.columns if column.is_orderable],
        schema_name=table.schema,
        is_view=table.is_view,
    )
    for column in table.columns:
        crumb = ("properties", column.name)
        inclusion = _AUTOMATIC if column.name in automatic else _AVAILABLE
        mapping[crumb] = ColumnMetadata(
            inclusion=inclusion, sql_datatype=column.native or column.datatype
        )
        _add_nested(mapping, crumb, column.schema)
    return mapping


def _add_nested(mapping: MetadataMapping, crumb: tuple[str, ...], schema: Any) -> None:
    for name, nested in (schema.get("properties") or {}).items():
        below = (*crumb, "properties", name)
        mapping[below] = ColumnMetadata(inclusion=_AVAILABLE)
        _add_nested(mapping, below, nested)


# Kinds of sources that keep a log of their changes.
_LOGS = ("delta", "catalog", "kafka")
_FILES = ("csv", "json", "parquet", "orc", "avro", "text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replication:
    """How a stream is replicated, decided before its table is looked at.

    `is_default` says that nobody asked for the method of this very stream.
    """

    method: str = FULL_TABLE
    key: tuple[str, ...] = ()
    is_default: bool = False

    @property
    def name(self) -> Any:
        """Name the key as catalogs and bookmarks do: a text, or a list of several."""
        return list(self.key) if len(self.key) > 1 else next(iter(self.key), None)


def plan_replication(
    stream: str, settings: Settings, *, columns: Container[str], entry: CatalogEntry | None = None
) -> Replication:
    """Decide on method and key of a stream; `entry` is the one in the user's catalog."""
    options = settings.of_stream(stream)
    method, key = _from_catalog(entry)
    if key is None and method != FULL_TABLE:
        key = options.replication_key
        implied = INCREMENTAL if key or options.new_files else None
        method = method or options.replication_method or implied
    is_default = method is None and key is None
    # New files stand in the place of a key; the default one would only move what nobody reads by.
    if key is None and method != FULL_TABLE and not options.new_files:
        method, key = _default(settings, method, columns)
    if method is None:
        method = INCREMENTAL if key else FULL_TABLE
    if method not in METHODS:
        raise SettingsError(
            f"{stream}: replication method {method} is unknown; use {' or '.join(METHODS)}"
        )
    _refuse_impossible(stream, settings, Replication(method=method, key=_names(key)), options)
    if method == INCREMENTAL and not key and not options.new_files:
        raise SettingsError(
            f"{stream}: INCREMENTAL needs a replication key; set replication-key in the catalog, "
            "replication_key in stream_options or default_replication_key"
        )
    names = _names(key) if method == INCREMENTAL else ()
    return Replication(method=method, key=names, is_default=is_default)


def _refuse_impossible(
    stream: str, settings: Settings, wanted: Replication, options: StreamOptions
) -> None:
    method = wanted.method
    has_key = options.replication_key or (method == INCREMENTAL and wanted.key)
    if options.new_files and (settings.kind not in _FILES or has_key):
        raise SettingsError(
            f"{stream}: new_files needs a folder of files ({', '.join(_FILES)}), and stands in the "
            "place of a replication key in the catalog or in stream_options; remove one of them"
        )
    if method == LOG_BASED and settings.kind not in _LOGS:
        raise SettingsError(
            f"{stream}: LOG_BASED needs a Delta table with its change data feed, or topics of "
            "Debezium; choose FULL_TABLE or INCREMENTAL"
        )
    if settings.kind == "kafka" and method != LOG_BASED:
        raise SettingsError(
            f"{stream}: a topic can only be read by LOG_BASED, not by {method}; "
            "set replication_method"
        )


def _names(key: str | list[str] | None) -> tuple[str, ...]:
    return tuple(key) if isinstance(key, list) else (key,) if key else ()


def _from_catalog(entry: CatalogEntry | None) -> tuple[str | None, Any]:
    """Return method and key as the catalog gives them; its metadata beats its fields."""
    if entry is None:
        return None, None
    root = root_metadata(entry)
    method = root.replication_method or root.forced_replication_method or entry.replication_method
    return method, root.replication_key or entry.replication_key


def _default(
    settings: Settings, method: str | None, columns: Container[str]
) -> tuple[str, str | None]:
    """Return the default method, where the stream can be read by it."""
    by_log = settings.kind == "kafka" or settings.default_method == LOG_BASED
    if method is None and settings.kind in _LOGS and by_log:
        return LOG_BASED, None
    key = settings.default_key if settings.default_key in columns else None
    if method is not None:
        return method, key
    wanted = settings.default_method == INCREMENTAL and key is not None
    return (INCREMENTAL, key) if wanted else (FULL_TABLE, None)
