"""Folders of tables: Delta, Parquet, CSV and JSON, on any storage that Spark reaches."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from typing_extensions import override

from singer_spark.errors import SourceError
from singer_spark.names import quote
from tap_spark_source.key import Key, Mark, Range
from tap_spark_source.plan import ReadPlan
from tap_spark_source.settings import Settings
from tap_spark_source.slicing import Slice, Survey
from tap_spark_source.sources.base import Reach, Source, describe_column, mark_texts, source_errors
from tap_spark_source.sources.sparksql import SparkSQL
from tap_spark_source.sources.statements import KeyNames, conditions_of, expression_of
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
_SPARK = SparkSQL()
_SAMPLED_KEYS = 20_000


class FileSource(Source):
    """The tables under one folder: a sub-folder or a file each."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        super().__init__(spark, settings)
        # The others have no statistics, so that each slice would read every file again.
        self.can_slice = settings.kind in ("delta", "parquet")
        self._root = _absolute(settings.url.partition(":")[2])
        self._frames: dict[str, DataFrame] = {}
        self._paths: dict[str, str] | None = None

    @override
    def discover(self) -> list[Table]:
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

    @override
    def find(self, stream: str, *, schema: str | None, name: str | None) -> Table | None:
        del schema
        wanted = name or stream
        path = f"{self._root}/{wanted}" if self._is_there(wanted) else self._listed().get(wanted)
        return self._table(wanted, path) if path else None

    @override
    def describe(self, table: Table, expression: str) -> Column:
        with source_errors(self._settings, table.stream):
            frame = self._frames[table.name].selectExpr(f"({expression}) as {quote(expression)}")
            (field,) = frame.schema.fields
        column = describe_column(field, singer_decimal=self._settings.singer_decimal)
        return replace(column, sql=expression)

    @override
    def frame(self, plan: ReadPlan, piece: Slice | None = None) -> DataFrame:
        items = (
            f"{column.parsed(expression_of(_SPARK, column))} as {quote(column.name)}"
            for column in plan.columns
        )
        return self._filtered(plan, piece).selectExpr(*items)

    @override
    def survey(self, plan: ReadPlan, key: Key, reach: Reach) -> Survey:
        """Look at every key once, and where there are too many at some once more."""
        names = [f"_key{number}" for number in range(len(key.parts))]
        whole = self._keys(plan, key, reach.limits)
        low, rows = self._aggregate(key, whole, "min")
        high = None
        if reach.top is not None:
            high, _ = self._aggregate(key, self._keys(plan, key, reach.top), "max")
        marks = {1: low} if low else {}
        if low and self.can_slice and rows > reach.rows:
            sampled = whole.sample(fraction=min(1.0, _SAMPLED_KEYS / rows), seed=0).orderBy(*names)
            found = sampled.selectExpr(*mark_texts(key, names)).toArrow().to_pylist()
            place = int(len(found) * reach.rows / rows)
            if found:
                marks[reach.rows] = tuple(found[place].values())
        return Survey(marks=tuple(marks.items()), highest=high)

    @override
    def count(self, plan: ReadPlan, piece: Slice | None = None) -> int:
        with source_errors(self._settings, plan.table.stream):
            return self._filtered(plan, piece).count()

    def _filtered(self, plan: ReadPlan, piece: Slice | None) -> DataFrame:
        # One frame per table: of a Delta table it is one version, however often it is read.
        frame, conditions = self._frames[plan.table.name], conditions_of(_SPARK, plan)
        if piece is not None and plan.key is not None:
            conditions.append(KeyNames.in_table(_SPARK, plan.key).any_of(piece))
        for condition in conditions:
            frame = frame.where(condition)
        return frame

    def _keys(self, plan: ReadPlan, key: Key, limits: Range) -> DataFrame:
        """Return the keys of a range, one row each."""
        names = KeyNames.in_table(_SPARK, key)
        frame = self._frames[plan.table.name].where(names.within(limits))
        frame = frame.where(f"({plan.where})") if plan.where else frame
        return frame.selectExpr(
            *(f"{name} as _key{number}" for number, name in enumerate(names.names))
        )

    def _aggregate(self, key: Key, keys: DataFrame, function: str) -> tuple[Mark | None, int]:
        """Return the lowest or highest key, and how many there are."""
        names = [f"_key{number}" for number in range(len(key.parts))]
        found = keys.selectExpr(f"{function}(struct({', '.join(names)})) as found", "count(*) as n")
        texts = mark_texts(key, [f"found.{name}" for name in names])
        (row,) = found.selectExpr(*texts, "n").toArrow().to_pylist()
        rows = row.pop("n")
        return (tuple(row.values()) if rows else None), rows

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
        return self.spark.read.format(kind).options(**options).load(literally)

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
        reader = self.spark.read.format("binaryFile").option("recursiveFileLookup", "true")
        return reader.load(glob).select("path")


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
