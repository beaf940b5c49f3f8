"""Tables that Spark itself reads, a DataFrame each: what folders and catalogs share; catalogs.

A catalog is one that Spark knows: its own, Hive, Unity, Iceberg and others.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from typing_extensions import override

from singer_spark.errors import SourceError
from singer_spark.names import names_variable, quote, quote_path
from singer_spark.types import column_names, to_ddl
from tap_spark_source.dialects.statements import (
    NOTHING,
    KeyNames,
    SparkSQL,
    conditions_of,
    expression_of,
    mark_texts,
)
from tap_spark_source.plan.key import Key, Mark, Range, Reach, Slice, Survey
from tap_spark_source.plan.read_plan import ReadPlan
from tap_spark_source.plan.table import Column, Table, is_name, is_wanted
from tap_spark_source.settings import Settings
from tap_spark_source.sources.base import Place, TableSource, one_per_stream, source_errors

_SPARK = SparkSQL()
_SAMPLED_KEYS = 20_000


class LakeSource(TableSource):
    """Tables that Spark itself knows how to read."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        super().__init__(spark, settings)
        self._frames: dict[str, DataFrame] = {}

    @abstractmethod
    def sql_name(self, table: Table) -> str:
        """Name a Delta table in Spark SQL."""

    def pin(self, table: Table, version: int) -> None:
        """Read a Delta table as it was at a version; columns that it did not have then are NULL."""
        found = self.spark.sql(f"select * from {self.sql_name(table)} version as of {version}")
        known = self._frames[table.stream].schema.fields
        new = (field for field in known if field.name not in found.columns)
        nulls = (f"cast(null as {to_ddl(field.dataType)}) as {quote(field.name)}" for field in new)
        self._frames[table.stream] = found.selectExpr("*", *nulls)

    def wanted_rows(self, frame: DataFrame, plan: ReadPlan, part: Slice | None = None) -> DataFrame:
        """Leave out the rows that a plan, or one slice of it, does not ask for."""
        for condition in conditions_of(_SPARK, plan, part):
            frame = frame.where(condition)
        return frame

    def rows_of(self, frame: DataFrame, plan: ReadPlan, *more: str) -> DataFrame:
        """Select the columns of a plan, and some expressions more."""
        asked = ((expression_of(_SPARK, one), one) for one in plan.columns)
        items = (f"{one.parsed(text)} as {quote(one.name)}" for text, one in asked)
        return frame.selectExpr(*items, *more)

    @override
    def describe(self, table: Table, expression: str) -> Column:
        with source_errors(self._settings, table.stream):
            frame = self._frames[table.stream].selectExpr(f"({expression}) as {quote(expression)}")
            (field,) = frame.schema.fields
        return replace(self._column_of(field), sql=expression)

    @override
    def frame(self, plan: ReadPlan, part: Slice | None = None) -> DataFrame:
        return self.rows_of(self._filtered(plan, part), plan)

    @override
    def survey(self, plan: ReadPlan, key: Key, reach: Reach) -> Survey:
        """Look at every key once, and where there are too many at some of them once more."""
        names = [f"_key{number}" for number in range(len(key.parts))]
        low, high, rows = self._ends(plan, key, reach)
        marks = {1: low} if low else {}
        if low and self.can_slice and rows > reach.rows:
            whole = self._keys(plan, key, reach.limits)
            sampled = whole.sample(fraction=min(1.0, _SAMPLED_KEYS / rows), seed=0).orderBy(*names)
            found = sampled.selectExpr(*mark_texts(key, names)).toArrow().to_pylist()
            place = int(len(found) * reach.rows / rows)
            if found:
                marks[reach.rows] = tuple(found[place].values())
        return Survey(marks=tuple(marks.items()), highest=high)

    @override
    def count(self, plan: ReadPlan, part: Slice | None = None) -> int:
        with source_errors(self._settings, plan.table.stream):
            return self._filtered(plan, part).count()

    def _filtered(self, plan: ReadPlan, part: Slice | None) -> DataFrame:
        # One frame per table: of a Delta table it is one version, however often it is read.
        return self.wanted_rows(self._frames[plan.table.stream], plan, part)

    def _keys(self, plan: ReadPlan, key: Key, *limits: Range) -> DataFrame:
        """Return the keys of the rows in one of some ranges, one row each."""
        names = KeyNames.in_table(_SPARK, key)
        # Of ranges with one start all rows are in the wider one, which files are chosen by.
        inside = " or ".join(dict.fromkeys(f"({names.within(one)})" for one in limits))
        frame = self._frames[plan.table.stream].where(inside)
        frame = frame.where(f"({plan.where})") if plan.where else frame
        return frame.selectExpr(*(f"{name} as _key{at}" for at, name in enumerate(names.names)))

    def _ends(self, plan: ReadPlan, key: Key, reach: Reach) -> tuple[Mark | None, Mark | None, int]:
        """Return the lowest key and the number of rows of a range, the highest key of another."""
        inside = KeyNames.in_query(_SPARK, key)
        whole, places = f"struct({', '.join(inside.names)})", range(len(key.parts))
        limits, top = inside.within(reach.limits), NOTHING
        if reach.top is not None:
            top = inside.within(reach.top)
        ranges = [one for one in (reach.limits, reach.top) if one is not None]
        ends = self._keys(plan, key, *ranges).selectExpr(
            f"min({whole}) filter (where {limits}) as low",
            f"max({whole}) filter (where {top}) as high",
            f"count_if({limits}) as n",
            f"count_if({top}) as m",
        )
        inner = {end: [f"{end}._key{number}" for number in places] for end in ("low", "high")}
        texts = [text for end in inner for text in mark_texts(key, inner[end], end)]
        (row,) = ends.selectExpr(*texts, "n", "m").toArrow().to_pylist()
        low, high = (tuple(row[f"{end}{number}"] for number in places) for end in ("low", "high"))
        return low if row["n"] else None, high if row["m"] else None, row["n"]

    def _columns(self, stream: str, frame: DataFrame) -> tuple[Column, ...]:
        """Keep the frame of a table and describe its columns."""
        if odd := [name for name in column_names(frame.schema) if names_variable(name)]:
            raise SourceError(
                f"{stream}: the column {odd[0]} has ${{ in its name, which Hadoop would replace by "
                "a setting when it reads Parquet files; rename it, or leave the table out"
            )
        self._frames[stream] = frame
        return tuple(map(self._column_of, frame.schema.fields))


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
        labels = {(s, name) for s in schemas for name in self._names("tables", "tableName", s)}
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
