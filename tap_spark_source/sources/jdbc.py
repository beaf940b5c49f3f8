"""Databases over JDBC: every query is written here and answered by the database itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from typing_extensions import override

from singer_spark.errors import SingerSparkError, SourceError
from singer_spark.names import quote
from singer_spark.secrets import mask
from tap_spark_source.dialects import dialect_of
from tap_spark_source.dialects.base import INDEX_FIELDS, Row, Wanted, matching, named
from tap_spark_source.dialects.reading import Reading
from tap_spark_source.dialects.statements import (
    NOTHING,
    KeyNames,
    conditions_of,
    expression_of,
    mark_texts,
    survey_statement,
    where_of,
)
from tap_spark_source.plan.key import Key, Reach, Slice, Survey
from tap_spark_source.plan.read_plan import ReadPlan
from tap_spark_source.plan.table import Column, Table, is_name, is_wanted
from tap_spark_source.settings import Settings
from tap_spark_source.sources.base import Place, TableSource, one_per_stream, source_errors

_OWN_ID = "own_id"
# As many names as every database takes in one list.
_NAMES = 500
# What Spark itself reads of the options; it does not mind how they are written.
_OPTIONS_OF_SPARK = {
    *("customschema", "fetchsize", "hint", "isolationlevel", "preparequery", "querytimeout"),
    *("connectionprovider", "refreshkrb5config", "prefertimestampntz", "sessioninitstatement"),
    *("pushdownpredicate", "pushdownaggregate", "pushdownlimit", "pushdownoffset"),
    *("pushdowntablesample", "pushdownlocaltimestamp"),
}


def _labels(place: Place) -> list[str]:
    """Name the tables that a stream can be of."""
    if place.schema and place.name:
        return [f"{place.schema}.{place.name}"]
    dashes = (match.start() for match in re.finditer("-", place.stream))
    return [f"{place.stream[:at]}.{place.stream[at + 1 :]}" for at in dashes]


class _Found(NamedTuple):
    """What the database tells of one table."""

    columns: list[Row]
    indexes: list[Row]


class JdbcSource(TableSource):
    """The tables and views of one database."""

    reads_by_connections = True

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        super().__init__(spark, settings)
        self._dialect = dialect_of(settings.url)
        self._id: str | None = None
        self._asks_for_id = True
        self._joins_id = True
        # Of the tables that were asked for by name; None where there is none.
        self._known: dict[str, _Found | None] = {}

    @override
    def sorts_as_spark(self, table: Table, column: Column) -> bool:
        if column.datatype != "string":
            return True
        return not table.is_view and self._dialect.sorts_by_bytes(column)

    @override
    def own_id(self) -> str | None:
        query = self._dialect.identity_query()
        if self._id is None and self._asks_for_id and query:
            self._asks_for_id = False
            with suppress(SingerSparkError):  # not every server lets every user ask
                self._id = self._rows(query, ["id"])[0]["id"]
        return None if self._id is None else str(self._id)

    @override
    def discover(self) -> list[Table]:
        patterns = self._settings.tables
        asked = self._ask(matching(self._dialect, patterns))
        found = [self._table(one) for label, one in asked.items() if is_wanted(label, patterns)]
        labels = [table.label for table in found]
        if missing := [name for name in patterns if is_name(name) and name not in labels]:
            raise SourceError(
                f"no table {', '.join(missing)} in {mask(self._settings.url)} that the user may "
                "read; correct tables (schema.table), or grant access"
            )
        return one_per_stream(found)

    @override
    def prefetch(self, places: Iterable[Place]) -> None:
        labels = {label for place in places for label in _labels(place)}
        new = sorted(labels - self._known.keys())
        for first in range(0, len(new), _NAMES):
            some = new[first : first + _NAMES]
            found = self._ask(named(self._dialect, some))
            self._known |= {label: found.get(label) for label in some}

    @override
    def find(self, place: Place) -> Table | None:
        self.prefetch([place])
        found = (one for label in _labels(place) if (one := self._known[label]))
        return next(iter(one_per_stream(map(self._table, found))), None)

    @override
    def describe(self, table: Table, expression: str) -> Column:
        # Not under a name of its own: identifiers are short, and Oracle's hold no quotes.
        bare = Column(name="expression", datatype="", schema={}, sql=expression)
        with source_errors(self._settings, table.stream):
            (field,) = self._select(table, [bare], [NOTHING]).schema.fields
            asked = expression_of(self._dialect, bare)
            kinds: list[str] = []
            if query := self._dialect.kinds_query:
                query = query.format(expression=asked, table=self._name(table))
                kinds = list(self._rows(query, ["low", "high"])[0].values())
            native = str(field.metadata.get("jdbcClientType", ""))
            found = self._dialect.reading_of(field.dataType.simpleString(), kinds)
            reading = self._ordered(found, native)
            exact = replace(bare, read=reading.read, parse=reading.parse)
            (field,) = self._select(table, [exact], [NOTHING]).schema.fields
        column = self._column_of(field, native, reading)
        return replace(column, name=expression, sql=expression)

    @override
    def frame(self, plan: ReadPlan, part: Slice | None = None) -> DataFrame:
        conditions = conditions_of(self._dialect, plan)
        if part is None or plan.key is None:
            return self._select(plan.table, plan.columns, conditions)
        predicates = KeyNames.in_query(self._dialect, plan.key).predicates(part)
        return self._select(plan.table, plan.columns, conditions, plan.key, predicates)

    @override
    def survey(self, plan: ReadPlan, key: Key, reach: Reach) -> Survey:
        query = survey_statement(
            KeyNames.in_table(self._dialect, key), self._name(plan.table), plan.where, reach
        )
        names = KeyNames.in_query(self._dialect, key).names
        asked = [part.asked(name) for part, name in zip(key.parts, names, strict=True)]
        items = ", ".join(f"{item} as k{number}" for number, item in enumerate(asked))
        keys = [f"k{number}" for number in range(len(names))]
        rows = self._load(f"select n, {items} from ({query}) s", ["n", *keys])
        found = rows.selectExpr("n", *mark_texts(key, keys)).toArrow()
        columns = [found.column(place).to_pylist() for place in range(1, found.num_columns)]
        numbers = map(int, found.column(0).to_pylist())
        marks = dict(zip(numbers, zip(*columns, strict=True), strict=True))
        highest = marks.pop(0, None)
        return Survey(marks=tuple(sorted(marks.items())), highest=highest)

    @override
    def count(self, plan: ReadPlan, part: Slice | None = None) -> int:
        where = where_of(conditions_of(self._dialect, plan, part))
        query = f"select count(*) as n from {self._name(plan.table)}{where}"
        return int(self._rows(query, ["n"])[0]["n"])

    def _select(
        self,
        table: Table,
        columns: Sequence[Column],
        conditions: Sequence[str] = (),
        along: Key | None = None,
        predicates: list[str] | None = None,
    ) -> DataFrame:
        """Select columns; with predicates one connection each, which name the key as we do."""
        quote_there = self._dialect.quote
        asked = ((expression_of(self._dialect, one), one) for one in columns)
        items = [f"{one.asked(text)} as {quote_there(one.name)}" for text, one in asked]
        names = [column.name for column in columns]
        if along is not None:
            outside = KeyNames.in_table(self._dialect, along).names
            keys = [f"_key{number}" for number in range(len(along.parts))]
            items += [
                f"{one} as {quote_there(key)}" for one, key in zip(outside, keys, strict=True)
            ]
            names += keys
        query = f"select {', '.join(items)} from {self._name(table)}{where_of(conditions)}"
        return self._load(query, names, predicates).selectExpr(
            *(f"{column.parsed(quote(column.name))} as {quote(column.name)}" for column in columns)
        )

    def _ordered(self, reading: Reading, native: str) -> Reading:
        """Say also whether the database sorts the type."""
        return reading if self._dialect.has_order(native) else replace(reading, can_be_key=False)

    def _name(self, table: Table) -> str:
        return f"{self._dialect.quote(table.schema or '')}.{self._dialect.quote(table.name)}"

    def _load(
        self, query: str, names: Sequence[str], predicates: list[str] | None = None
    ) -> DataFrame:
        settings = self._settings
        options = {
            **self._dialect.waits(settings.options, settings.url),
            **self._dialect.connection(settings.options),
            "fetchsize": str(settings.fetch_rows),
            # Without it a time without a zone would be taken for an instant.
            "preferTimestampNTZ": "true",
        }
        credentials = {"user": settings.user, "password": settings.password}
        options |= {key: value for key, value in credentials.items() if value is not None}
        if self._dialect.arrives_as_text:
            options["customSchema"] = ", ".join(f"{quote(name)} string" for name in names)
        # Spark Connect writes the names of options small, and a driver passes over a loginTimeout
        # that is written so.
        fixed = self._dialect.reads_any_case
        odd = {} if fixed else {name: one for name, one in options.items() if name != name.lower()}
        in_url = {name: one for name, one in odd.items() if name.lower() not in _OPTIONS_OF_SPARK}
        rest = {name: value for name, value in options.items() if name not in in_url}
        reader = self.spark.read.options(**rest)
        url = self._dialect.url_with(self._dialect.url(settings.url), in_url)
        subquery = f"({query}) t"
        if predicates is None:
            return reader.jdbc(url, subquery)
        return reader.jdbc(url, subquery, predicates=predicates)

    def _rows(self, query: str, names: Sequence[str]) -> list[dict[str, Any]]:
        with source_errors(self._settings, "the database"):
            rows = self._load(query, names).toArrow().to_pylist()
        return [{name.lower(): value for name, value in row.items()} for row in rows]

    def _ask(self, wanted: Wanted) -> dict[str, _Found]:
        """Ask what there is of tables, of all in one query where the database can."""
        dialect, found = self._dialect, dict[str, _Found]()
        if query := dialect.tables_query(wanted):
            rows = self._rows_and_id(query, dialect.table_fields)
        else:
            indexes = dialect.indexes_query(wanted)
            rows = [
                *self._rows_and_id(dialect.columns_query(wanted), dialect.column_fields),
                *({**row, "what": 1} for row in self._rows(indexes, INDEX_FIELDS)),
            ]
        for row in sorted(rows, key=lambda row: (row["s"], row["t"])):
            one = found.setdefault(f"{row['s'].strip()}.{row['t']}", _Found([], []))
            one[int(row.get("what") or 0)].append(row)
        return {label: one for label, one in found.items() if one.columns}

    def _rows_and_id(self, query: str, names: Sequence[str]) -> list[dict[str, Any]]:
        """Ask for tables, and with the first query for the database's own id."""
        identity = self._dialect.identity_query()
        if identity and self._id is None and self._joins_id:
            asked = f"select q.*, ({identity}) as {_OWN_ID} from ({query}) q"
            try:
                rows = self._rows(asked, [*names, _OWN_ID])
            except SourceError:  # not every server can, and some time out: it is asked for alone
                self._joins_id = False
            else:
                self._id = next((row[_OWN_ID] for row in rows), None)
                return rows
        return self._rows(query, names)

    def _table(self, found: _Found) -> Table:
        rows = sorted(found.columns, key=lambda row: int(row["pos"]))
        first = rows[0]
        schema, name, estimate = first["s"].strip(), first["t"], first.get("estimate")
        indexes = self._dialect.indexes(found.indexes, rows)
        table = Table(
            stream=f"{schema}-{name}",
            schema=schema,
            name=name,
            keys=next((index.columns for index in indexes if index.is_primary), ()),
            is_view="VIEW" in first["kind"],
            indexes=indexes if self._dialect.knows_indexes else None,
            knows_nulls=True,
            # Negative where the database has not counted yet.
            rows=estimate if estimate is not None and estimate >= 0 else None,
            most_rows=first.get("most"),
        )
        return replace(table, columns=self._columns(table, rows))

    def _columns(self, table: Table, rows: list[Row]) -> tuple[Column, ...]:
        """Ask Spark which types the columns arrive in, without reading a row."""
        readings = [
            self._ordered(self._dialect.reading(row), str(row.get("base") or row["native"]))
            for row in rows
        ]
        bare = [
            Column(name=row["c"], datatype="", schema={}, read=reading.read, parse=reading.parse)
            for row, reading in zip(rows, readings, strict=True)
        ]
        with source_errors(self._settings, table.label):
            fields = self._select(table, bare).schema.fields
        columns = []
        for field, row, reading in zip(fields, rows, readings, strict=True):
            column = self._column_of(field, str(row["native"]), reading)
            columns.append(replace(column, is_nullable=not int(row["required"])))
        return tuple(columns)
