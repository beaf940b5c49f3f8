"""Singer catalogs with the metadata that the SDK's own classes drop.

Meltano writes `replication-method` and `replication-key` into the metadata, and says that they win
over the fields of the entry; the SDK keeps only the second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from singer_sdk.singerlib import (
    Catalog,
    CatalogEntry,
    Metadata,
    MetadataMapping,
    StreamMetadata,
)

from singer_spark.errors import SettingsError
from tap_spark_source.table import Column, Table

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
        mapping[crumb] = ColumnMetadata(inclusion=inclusion, sql_datatype=_native(column))
        _add_nested(mapping, crumb, column.schema)
    return mapping


def _native(column: Column) -> str:
    return column.native or column.datatype


def _add_nested(
    mapping: MetadataMapping, crumb: tuple[str, ...], schema: Mapping[str, Any]
) -> None:
    for name, nested in (schema.get("properties") or {}).items():
        below = (*crumb, "properties", name)
        mapping[below] = ColumnMetadata(inclusion=_AVAILABLE)
        _add_nested(mapping, below, nested)
