"""The differences between databases; what is not overridden follows the SQL standard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from tap_spark_source.table import Column, is_name

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reading:
    """How to read a column that a plain read would bend; `{}` stands for the column.

    `read` is for the database, `parse` for Spark, `hint` is added to the JSON Schema.
    """

    read: str | None = None
    parse: str | None = None
    hint: Mapping[str, Any] = field(default_factory=dict)


PLAIN = Reading()
DECIMAL_HINT = {"format": "x-singer.decimal"}


class Dialect:
    """A database with an INFORMATION_SCHEMA."""

    quotes = ('"', '"')
    label = "concat({schema}, '.', {table})"
    system_schemas: tuple[str, ...] = (
        "information_schema",
        "INFORMATION_SCHEMA",
        "pg_catalog",
        "sys",
        "SYS",
        "mysql",
        "performance_schema",
    )

    def quote(self, name: str) -> str:
        """Quote an identifier."""
        left, right = self.quotes
        return left + name.replace(right, right * 2) + right

    def text(self, value: str) -> str:
        """Quote a text."""
        return "'" + value.replace("'", "''") + "'"

    def literal(self, column: Column, value: str) -> str:
        """Write a bookmark as a literal that compares with the column by its own type."""
        if column.is_number:
            return value
        if column.is_time:
            kind = "DATE" if column.datatype == "date" else "TIMESTAMP"
            return f"{kind} {self.text(value.replace('T', ' '))}"
        return self.text(value)

    def connection(self) -> dict[str, str]:
        """Return connection properties that the tap adds."""
        return {}

    def columns_query(self, wanted: str) -> str:
        """Return a query of tables and columns: one row per column."""
        return f"""
            select c.table_schema as s, c.table_name as t, tb.table_type as kind,
                   c.column_name as c, c.data_type as native, c.ordinal_position as pos,
                   c.numeric_precision as p, c.numeric_scale as sc
            from information_schema.columns c
            join information_schema.tables tb
              on tb.table_schema = c.table_schema and tb.table_name = c.table_name
            where {self.condition(wanted, "c.table_schema", "c.table_name")}"""

    def keys_query(self, wanted: str) -> str:
        """Return a query of the columns of primary keys: one row per column."""
        return f"""
            select k.table_schema as s, k.table_name as t, k.column_name as c,
                   k.ordinal_position as pos
            from information_schema.table_constraints tc
            join information_schema.key_column_usage k
              on k.constraint_schema = tc.constraint_schema
             and k.constraint_name = tc.constraint_name
             and k.table_schema = tc.table_schema and k.table_name = tc.table_name
            where tc.constraint_type = 'PRIMARY KEY'
              and {self.condition(wanted, "k.table_schema", "k.table_name")}"""

    def condition(self, wanted: str, schema: str, table: str) -> str:
        """Return the condition of the wanted tables, system tables aside."""
        names = ", ".join(self.text(name) for name in self.system_schemas)
        label = self.label.format(schema=schema, table=table)
        return f"{schema} not in ({names}) and ({wanted.replace('{label}', label)})"

    def key_columns(self, rows: Sequence[Row], columns: Sequence[Row]) -> tuple[str, ...]:
        """Return the primary key of one table from the rows of keys_query and columns_query."""
        del columns
        return tuple(row["c"] for row in sorted(rows, key=lambda row: row["pos"]))

    def reading(self, row: Row) -> Reading:
        """Say how to read the column of one row of columns_query."""
        native, precision = str(row["native"]).lower(), row.get("p")
        if native == "time" or native.startswith("time("):
            return Reading("cast({} as char(16))", "rtrim({})")
        if native in ("decimal", "numeric") and precision is not None and int(precision) > 38:
            return Reading("cast({} as char(80))", "rtrim({})", DECIMAL_HINT)
        return PLAIN


class MySQL(Dialect):
    """MySQL and MariaDB."""

    quotes = ("`", "`")

    @override
    def text(self, value: str) -> str:
        """Quote a text; a backslash escapes here."""
        return super().text(value.replace("\\", "\\\\"))


def wanted_condition(dialect: Dialect, patterns: Sequence[str]) -> str:
    """Translate shell patterns into SQL, `{label}` standing for schema.table.

    What SQL cannot say is widened; the tap filters by the pattern itself afterwards.
    """
    return " or ".join(_like(dialect, pattern) for pattern in patterns)


def _like(dialect: Dialect, pattern: str) -> str:
    if is_name(pattern):
        return f"{{label}} = {dialect.text(pattern)}"
    before, bracket, _ = pattern.partition("[")
    escaped = "".join("!" + char if char in "!%_" else char for char in before)
    like = escaped.replace("*", "%").replace("?", "_") + ("%" if bracket else "")
    return f"{{label}} like {dialect.text(like)} escape '!'"
