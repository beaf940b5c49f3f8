"""Folders of tables: Delta, Parquet, CSV and JSON, on any storage that Spark reaches."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from singer_spark.errors import SourceError
from singer_spark.names import literal, quote
from tap_spark_source.settings import Settings
from tap_spark_source.sources.base import Bounds, describe_column, source_errors
from tap_spark_source.table import Column, Table, is_name, is_wanted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Options that keep values as they are; the user's own come after them.
_DEFAULTS = {
    "csv": {"header": "true", "inferSchema": "true", "mode": "FAILFAST"},
    "json": {"prefersDecimal": "true", "mode": "FAILFAST"},
    "parquet": {"mergeSchema": "true"},
    "delta": {},
}


class FileSource:
    """The tables under one folder: a sub-folder or a file each."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self._spark = spark
        self._settings = settings
        self._root = _absolute(settings.url.partition(":")[2])
        self._frames: dict[str, DataFrame] = {}
        self._paths: dict[str, str] | None = None

    def discover(self) -> list[Table]:
        """Describe the tables that the settings ask for."""
        patterns = self._settings.tables
        names = {name for name in patterns if is_name(name)}
        found = {name: self.find(name, schema=None, name=None) for name in sorted(names)}
        if missing := [name for name, table in found.items() if table is None]:
            raise SourceError(f"no table {', '.join(missing)} in {self._root}; correct tables")
        if len(names) < len(set(patterns)):
            for name, path in self._listed().items():
                if name not in found and is_wanted(name, patterns):
                    found[name] = self._table(name, path)
        return [table for table in found.values() if table is not None]

    def find(self, stream: str, *, schema: str | None, name: str | None) -> Table | None:
        """Describe the one table of a stream, or return None where it is gone."""
        del schema
        wanted = name or stream
        path = f"{self._root}/{wanted}" if self._is_there(wanted) else self._listed().get(wanted)
        return self._table(wanted, path) if path else None

    def frame(
        self,
        table: Table,
        columns: Sequence[Column],
        *,
        where: str | None = None,
        bounds: Bounds | None = None,
    ) -> DataFrame:
        """Return the rows of a table; the filter reaches the files' own statistics."""
        frame = self._filtered(table, where)
        if bounds:
            frame = frame.where(_window(bounds))
        return frame.select(*(quote(column.name) for column in columns))

    def high_mark(self, table: Table, key: Column, *, where: str | None) -> DataFrame:
        """Return one row whose column `mark` is the highest value of the key."""
        return self._filtered(table, where).selectExpr(f"max({quote(key.name)}) as mark")

    def count_nulls(self, table: Table, key: Column, *, where: str | None) -> int:
        """Count the rows whose key is NULL."""
        with source_errors(self._settings, table.label):
            return self._filtered(table, where).where(f"{quote(key.name)} is null").count()

    def _filtered(self, table: Table, where: str | None) -> DataFrame:
        # One frame per table: of a Delta table it is one version, however often it is read.
        frame = self._frames[table.name]
        return frame.where(f"({where})") if where else frame

    def _table(self, name: str, path: str) -> Table:
        with source_errors(self._settings, name):
            self._frames[name] = frame = self._load(path)
            fields = frame.schema.fields
        columns = tuple(
            describe_column(field, singer_decimal=self._settings.singer_decimal) for field in fields
        )
        return Table(stream=name, name=name, columns=columns)

    def _load(self, path: str) -> DataFrame:
        kind = self._settings.kind
        options = {**_DEFAULTS[kind], **self._settings.options}
        # Delta takes a path as it is, the others as a pattern.
        literally = path if kind == "delta" else _globbed(path)
        return self._spark.read.format(kind).options(**options).load(literally)

    def _is_there(self, name: str) -> bool:
        """Say whether a folder of that name exists, without listing its siblings."""
        try:
            return bool(self._files(_globbed(f"{self._root}/{name}")).take(1))
        except Exception as error:
            if "PATH_NOT_FOUND" in str(error):
                return False
            with source_errors(self._settings, name):
                raise

    def _listed(self) -> dict[str, str]:
        """Return the paths of all tables by name."""
        if self._paths is None:
            with source_errors(self._settings, "the folder"):
                paths = self._files(f"{_globbed(self._root)}/*").toArrow().column(0).to_pylist()
            root = _bare(self._root) + "/"
            entries = {_bare(path).removeprefix(root).split("/")[0] for path in paths}
            names = defaultdict(list)
            for entry in sorted(entries):
                names[_table_name(entry, self._settings.kind)].append(entry)
            if clashes := [", ".join(group) for group in names.values() if len(group) > 1]:
                raise SourceError(f"{self._root}: one name for {'; '.join(clashes)}; rename one")
            self._paths = {name: f"{self._root}/{group[0]}" for name, group in names.items()}
        return self._paths

    def _files(self, glob: str) -> DataFrame:
        """List files by Spark, which sees what the executors will read."""
        if self._settings.kind == "delta":
            glob += "/_delta_log/*"
        reader = self._spark.read.format("binaryFile").option("recursiveFileLookup", "true")
        return reader.load(glob).select("path")


def _window(bounds: Bounds) -> str:
    name = quote(bounds.key.name)
    limits = [
        f"{name} {operator} cast({literal(value)} as {bounds.key.datatype})"
        for operator, value in ((">=", bounds.lower), ("<=", bounds.upper))
        if value is not None
    ]
    inside = " and ".join(limits) if bounds.upper is not None else "false"
    return f"(({inside}) or {name} is null)" if bounds.nulls else f"({inside})"


def _absolute(path: str) -> str:
    """Return a local path in full; others have a scheme."""
    return path.rstrip("/") if re.match(r"\w+:", path) else os.path.abspath(path)  # noqa: PTH100


def _bare(path: str) -> str:
    """Return a path without its scheme and host, which Spark spells in its own way."""
    return re.sub(r"^\w+:(//[^/]*)?", "", path)


def _globbed(path: str) -> str:
    """Write a path as a pattern that matches it alone."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


def _table_name(entry: str, kind: str) -> str:
    """Name a table after its folder, or after its file without what tells the format."""
    return re.sub(rf"\.{kind}(\.\w+)?$", "", entry, flags=re.IGNORECASE)
