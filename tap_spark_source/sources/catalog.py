"""Tables of a catalog that Spark knows: its own, Hive, Unity, Iceberg and others."""

from __future__ import annotations

import re

from pyspark.sql import SparkSession
from typing_extensions import override

from singer_spark.errors import SourceError
from singer_spark.names import quote_path
from tap_spark_source.plan.table import Table, is_name, is_wanted
from tap_spark_source.settings import Settings
from tap_spark_source.sources.base import Place, one_per_stream, source_errors
from tap_spark_source.sources.lake import LakeSource


class CatalogSource(LakeSource):
    """The tables and views of one catalog, or of one schema in it."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        super().__init__(spark, settings)
        self._catalog, _, schema = settings.url.partition(":")[2].partition(".")
        self._schema = schema or None

    @override
    def discover(self) -> list[Table]:
        patterns = self._settings.tables
        schemas = [self._schema] if self._schema else self._names("schemas", "namespace")
        labels = {
            (one, name) for one in schemas for name in self._names("tables", "tableName", one)
        }
        wanted = sorted(label for label in labels if is_wanted(".".join(label), patterns))
        found = [".".join(label) for label in wanted]
        if missing := [name for name in patterns if is_name(name) and name not in found]:
            raise SourceError(
                f"no table {', '.join(missing)} in the catalog {self._catalog}; correct tables "
                "(schema.table)"
            )
        return one_per_stream(self._table(schema, name) for schema, name in wanted)

    @override
    def find(self, place: Place) -> Table | None:
        if place.schema and place.name:
            return self._found(place.schema, place.name)
        stream = place.stream
        splits = [(stream[: at.start()], stream[at.end() :]) for at in re.finditer("-", stream)]
        found = one_per_stream(table for split in splits if (table := self._found(*split)))
        return next(iter(found), None)

    @override
    def sql_name(self, table: Table) -> str:
        return self._path(table.schema or "", table.name)

    def _path(self, schema: str, *names: str) -> str:
        return quote_path(self._catalog, *schema.split("."), *names)

    def _found(self, schema: str, name: str) -> Table | None:
        path = self._path(schema, name)
        with source_errors(self._settings, f"{schema}.{name}"):
            is_there = self.spark.catalog.tableExists(path)
        return self._table(schema, name) if is_there else None

    def _table(self, schema: str, name: str) -> Table:
        stream = f"{schema}-{name}"
        with source_errors(self._settings, f"{schema}.{name}"):
            columns = self._columns(stream, self.spark.table(self._path(schema, name)))
        return Table(stream=stream, schema=schema, name=name, columns=columns)

    def _names(self, what: str, column: str, *schema: str) -> list[str]:
        place = self._path(*schema) if schema else quote_path(self._catalog)
        with source_errors(self._settings, "the catalog"):
            rows = self.spark.sql(f"show {what} in {place}").toArrow().to_pylist()
        # Views of the session alone belong to no schema.
        return [row[column] for row in rows if not row.get("isTemporary")]
