"""Databases over JDBC: every query is written here and answered by the database itself."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from singer_spark.errors import SourceError
from singer_spark.names import quote
from tap_spark_source.settings import Settings
from tap_spark_source.sources.base import Bounds, describe_column, masked, source_errors
from tap_spark_source.sources.derby import Derby
from tap_spark_source.sources.dialect import Dialect, MySQL, Row, wanted_condition
from tap_spark_source.sources.postgres import Postgres
from tap_spark_source.table import Column, Table, is_name, is_wanted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DIALECTS: dict[str, type[Dialect]] = {
    "postgresql": Postgres,
    "derby": Derby,
    "mysql": MySQL,
    "mariadb": MySQL,
}
MARK = "mark"


class JdbcSource:
    """The tables and views of one database."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self._spark = spark
        self._settings = settings
        self._dialect = _DIALECTS.get(settings.url.split(":")[1].lower(), Dialect)()

    def discover(self) -> list[Table]:
        """Describe the tables that the settings ask for; the database does not list others."""
        patterns = self._settings.tables
        found = [table for table in self._described(patterns) if is_wanted(table.label, patterns)]
        labels = [table.label for table in found]
        if missing := [name for name in patterns if is_name(name) and name not in labels]:
            raise SourceError(
                f"no table {', '.join(missing)} in {masked(self._settings.url)} that the user may "
                "read; correct tables (schema.table), or grant access"
            )
        return found

    def find(self, stream: str, *, schema: str | None, name: str | None) -> Table | None:
        """Describe the one table of a stream, or return None where it is gone."""
        if schema and name:
            labels = [f"{schema}.{name}"]
        else:
            dashes = [match.start() for match in re.finditer("-", stream)]
            labels = [f"{stream[:at]}.{stream[at + 1 :]}" for at in dashes]
        exact = [re.sub(r"([*?\[])", r"[\1]", label) for label in labels]
        found = self._described(labels, exact=True) if labels else []
        return next((table for table in found if is_wanted(table.label, exact)), None)

    def frame(
        self,
        table: Table,
        columns: Sequence[Column],
        *,
        where: str | None = None,
        bounds: Bounds | None = None,
    ) -> DataFrame:
        """Return the rows of a table, filtered by the database itself."""
        selected = [(column, self._dialect.quote(column.name), column.name) for column in columns]
        conditions = [f"({where})"] if where else []
        if bounds:
            conditions.append(self._window(bounds))
        return self._select(table, selected, conditions)

    def high_mark(self, table: Table, key: Column, *, where: str | None) -> DataFrame:
        """Return one row whose column `mark` is the highest value of the key."""
        highest = f"max({self._dialect.quote(key.name)})"
        return self._select(table, [(key, highest, MARK)], [f"({where})"] if where else [])

    def count_nulls(self, table: Table, key: Column, *, where: str | None) -> int:
        """Count the rows whose key is NULL."""
        conditions = [
            f"{self._dialect.quote(key.name)} is null",
            *([f"({where})"] if where else []),
        ]
        query = f"select count(*) as n from {self._name(table)} where {' and '.join(conditions)}"
        return int(self._rows(query)[0]["n"])

    def _window(self, bounds: Bounds) -> str:
        name = self._dialect.quote(bounds.key.name)
        limits = [
            f"{name} {operator} {self._dialect.literal(bounds.key, value)}"
            for operator, value in ((">=", bounds.lower), ("<=", bounds.upper))
            if value is not None
        ]
        inside = " and ".join(limits) if bounds.upper is not None else "1 = 0"
        return f"(({inside}) or {name} is null)" if bounds.nulls else f"({inside})"

    def _select(
        self, table: Table, selected: list[tuple[Column, str, str]], conditions: list[str]
    ) -> DataFrame:
        """Select expressions of columns under the given names."""
        items = ", ".join(
            f"{(column.read or '{}').replace('{}', expression)} as {self._dialect.quote(name)}"
            for column, expression, name in selected
        )
        where = f" where {' and '.join(conditions)}" if conditions else ""
        frame = self._load(f"select {items} from {self._name(table)}{where}")
        return frame.selectExpr(
            *(
                f"{(column.parse or '{}').replace('{}', quote(name))} as {quote(name)}"
                for column, _, name in selected
            )
        )

    def _name(self, table: Table) -> str:
        return f"{self._dialect.quote(table.schema or '')}.{self._dialect.quote(table.name)}"

    def _load(self, query: str) -> DataFrame:
        settings = self._settings
        options = {
            **self._dialect.connection(),
            **settings.options,
            "url": settings.url,
            "dbtable": f"({query}) t",
            "fetchsize": str(settings.fetch_rows),
            # Without it a time without a zone would be taken for an instant.
            "preferTimestampNTZ": "true",
        }
        credentials = {"user": settings.user, "password": settings.password}
        options |= {key: value for key, value in credentials.items() if value is not None}
        return self._spark.read.format("jdbc").options(**options).load()

    def _rows(self, query: str) -> list[dict[str, Any]]:
        with source_errors(self._settings, "the database"):
            rows = self._load(query).toArrow().to_pylist()
        return [{name.lower(): value for name, value in row.items()} for row in rows]

    def _described(self, labels: Sequence[str], *, exact: bool = False) -> list[Table]:
        dialect = self._dialect
        wanted = (
            " or ".join(f"{{label}} = {dialect.text(label)}" for label in labels)
            if exact
            else wanted_condition(dialect, labels)
        )
        tables, keys = defaultdict(list), defaultdict(list)
        for row in self._rows(dialect.columns_query(wanted)):
            tables[row["s"], row["t"]].append(row)
        for row in self._rows(dialect.keys_query(wanted)):
            keys[row["s"], row["t"]].append(row)
        return [self._table(rows, keys[name]) for name, rows in sorted(tables.items())]

    def _table(self, found: Sequence[Row], keys: Sequence[Row]) -> Table:
        rows = sorted(found, key=lambda row: row["pos"])
        schema, name = rows[0]["s"].strip(), rows[0]["t"]
        table = Table(
            stream=f"{schema}-{name}",
            schema=schema,
            name=name,
            keys=self._dialect.key_columns(keys, rows),
            is_view="VIEW" in rows[0]["kind"],
        )
        return replace(table, columns=self._columns(table, rows))

    def _columns(self, table: Table, rows: list[Row]) -> tuple[Column, ...]:
        """Ask Spark which types the columns arrive in, without reading a row."""
        readings = [self._dialect.reading(row) for row in rows]
        bare = [
            Column(name=row["c"], datatype="", schema={}, read=reading.read, parse=reading.parse)
            for row, reading in zip(rows, readings, strict=True)
        ]
        with source_errors(self._settings, table.label):
            fields = self.frame(table, bare).schema.fields
        return tuple(
            describe_column(
                field,
                singer_decimal=self._settings.singer_decimal,
                native=str(row["native"]),
                read=reading.read,
                parse=reading.parse,
                hint=reading.hint,
            )
            for field, row, reading in zip(fields, rows, readings, strict=True)
        )
