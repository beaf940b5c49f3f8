"""The differences between databases; what is not overridden follows the SQL standard."""

from __future__ import annotations

import base64
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote_plus

from singer_spark.errors import SettingsError
from tap_spark_source.dialects.reading import DECIMAL_HINT, PLAIN, Reading
from tap_spark_source.plan.key import Mark
from tap_spark_source.plan.table import Column, Index, is_name

Row = Mapping[str, Any]
# Makes a condition of the SQL of a table's label, schema.table.
Wanted = Callable[[str], str]

# What the queries of every database about its tables tell.
COLUMN_FIELDS = ("s", "t", "kind", "c", "native", "pos", "required")
INDEX_FIELDS = ("s", "t", "i", "c", "pos", "is_primary", "is_unique")


class Dialect:
    """A database with an INFORMATION_SCHEMA."""

    quotes = ('"', '"')
    label = "concat({schema}, '.', {table})"
    random = "rand()"
    # Whether the driver's own idea of types is of no use.
    arrives_as_text = False
    # Whether indexes_query tells of all indexes, or of primary keys alone.
    knows_indexes = False
    # Whether NULL stands for a value of any type in a union, so that one query can ask for both.
    unites = False
    # What columns_query tells, and what it calls the type of a column.
    column_fields: tuple[str, ...] = COLUMN_FIELDS
    native = "c.data_type as native"
    # Types that the database does not sort, or otherwise than it compares them with a text.
    unordered = ""
    # How to read columns by the name of their type there, and expressions by their type in Spark.
    readings: Mapping[str, Reading] = {}
    expressions: Mapping[str, Reading] = {}
    # Where the type of an expression tells nothing: the query of the kinds of its values.
    kinds_query: str | None = None
    # Bytes by their digits, an ordered query cut off, the number of its rows, every n-th of them.
    bytes_literal = "X'{digits}'"
    first_rows = "{query} fetch first {rows} rows only"
    row_number = "row_number() over (order by {order})"
    every_nth = "mod(n, {step}) = 0"
    # Connection properties that those of the user come after.
    properties: Mapping[str, str] = {}
    # Where a URL takes none: what to do instead.
    refuses_properties = ""
    # What ends a wait for a server that is gone: half a minute for a connection, a minute for a
    # login, half an hour for the first row of a slow query or the next one.
    timeouts: Mapping[str, str] = {}
    system_schemas: tuple[str, ...] = (
        *("information_schema", "INFORMATION_SCHEMA", "pg_catalog"),
        *("sys", "SYS", "mysql", "performance_schema"),
    )

    # Names, values and comparisons

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
        if column.datatype == "binary":
            return self.bytes_literal.format(digits=base64.b64decode(value).hex())
        return self.text(value)

    def compared(
        self, names: Sequence[str], columns: Sequence[Column], operator: str, mark: Mark
    ) -> str:
        """Compare a key with a mark, part by part; the first part alone can use an index."""
        literal = self.literal(columns[0], mark[0])
        if len(mark) == 1:
            return f"{names[0]} {operator} {literal}"
        rest = self.compared(names[1:], columns[1:], operator, mark[1:])
        strict = operator[0]
        return f"({names[0]} {strict}= {literal} and ({names[0]} {strict} {literal} or {rest}))"

    def url(self, url: str) -> str:
        """Return the URL as Spark and the driver need it."""
        return url

    # Whether the driver knows a connection property however its name is written.
    reads_any_case = False

    def url_with(self, url: str, properties: Mapping[str, str]) -> str:
        """Add connection properties to a URL, as most drivers read them."""
        if properties and self.refuses_properties:
            names = ", ".join(f"-D{name}=…" for name in properties)
            raise SettingsError(
                f"source_options: {', '.join(properties)} cannot be passed on; "
                f"{self.refuses_properties.format(names=names)}"
            )
        parts = [f"{name}={quote_plus(value)}" for name, value in properties.items()]
        sign = "&" if "?" in url else "?"
        return f"{url}{sign}{'&'.join(parts)}" if parts else url

    def connection(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the connection properties: those given, and what the tap adds."""
        return {**self.properties, **given}

    def waits(self, given: Mapping[str, str], url: str) -> dict[str, str]:
        """Return the timeouts that neither the options nor the URL of the user set."""
        known = {name.lower() for name in given}
        there = {name for name in self.timeouts if re.search(rf"(?i)[?;&]{re.escape(name)}=", url)}
        unset = (name for name in self.timeouts if name.lower() not in known and name not in there)
        return {name: self.timeouts[name] for name in unset}

    # What the database says of itself and of its tables

    def identity_query(self) -> str | None:
        """Return the query of the database's own id, in the column `id`, where it has one."""
        return None

    def tables_query(self, wanted: Wanted) -> str | None:
        """Return one query of columns and indexes, 0 and 1 as `what`; None where it takes two."""
        if not self.unites:
            return None
        queries = (self.columns_query, self.column_fields), (self.indexes_query, INDEX_FIELDS)
        names = self.table_fields[1:]
        return " union all ".join(
            f"select {what} as what, "
            f"{', '.join(name if name in told else f'null as {name}' for name in names)} "
            f"from ({query(wanted)}) q"
            for what, (query, told) in enumerate(queries)
        )

    @property
    def table_fields(self) -> tuple[str, ...]:
        """Name what tables_query tells."""
        return ("what", *dict.fromkeys((*self.column_fields, *INDEX_FIELDS)))

    def columns_query(self, wanted: Wanted) -> str:
        """Return a query of tables and columns: one row per column."""
        return f"""
            select c.table_schema as s, c.table_name as t, tb.table_type as kind,
                   c.column_name as c, {self.native}, c.ordinal_position as pos,
                   c.numeric_precision as p, c.numeric_scale as sc,
                   case when c.is_nullable = 'NO' then 1 else 0 end as required
            from information_schema.columns c
            join information_schema.tables tb
              on tb.table_schema = c.table_schema and tb.table_name = c.table_name
            where {self.condition(wanted, "c.table_schema", "c.table_name")}"""

    def indexes_query(self, wanted: Wanted) -> str:
        """Return a query of indexes, or of primary keys alone: one row per column."""
        return f"""
            select k.table_schema as s, k.table_name as t, k.constraint_name as i,
                   k.column_name as c, k.ordinal_position as pos, 1 as is_primary, 1 as is_unique
            from information_schema.table_constraints tc
            join information_schema.key_column_usage k
              on k.constraint_schema = tc.constraint_schema
             and k.constraint_name = tc.constraint_name
             and k.table_schema = tc.table_schema and k.table_name = tc.table_name
            where tc.constraint_type = 'PRIMARY KEY'
              and {self.condition(wanted, "k.table_schema", "k.table_name")}"""

    def condition(self, wanted: Wanted, schema: str, table: str) -> str:
        """Return the condition of the wanted tables, system tables aside."""
        names = ", ".join(self.text(name) for name in self.system_schemas)
        label = self.label.format(schema=schema, table=table)
        return f"{schema} not in ({names}) and ({wanted(label)})"

    def indexes(self, rows: Sequence[Row], columns: Sequence[Row]) -> tuple[Index, ...]:
        """Return the indexes of one table from the rows of indexes_query and columns_query."""
        del columns
        found: dict[str, list[Row]] = defaultdict(list)
        for row in sorted(rows, key=lambda row: int(row["pos"])):
            found[row["i"]].append(row)
        return tuple(
            Index(
                columns=tuple(row["c"] for row in parts),
                is_unique=bool(int(parts[0]["is_unique"])),
                is_primary=bool(int(parts[0]["is_primary"])),
            )
            for parts in found.values()
        )

    def reading(self, row: Row) -> Reading:
        """Say how to read the column of one row of columns_query."""
        native, precision = str(row["native"]).lower(), row.get("p")
        if native in self.readings:
            return self.readings[native]
        if native == "time" or native.startswith("time("):
            return Reading("cast({} as char(16))", "rtrim({})")
        if native in ("decimal", "numeric") and precision is not None and int(precision) > 38:
            return Reading("cast({} as char(80))", "rtrim({})", DECIMAL_HINT)
        return PLAIN

    def reading_of(self, datatype: str, kinds: Sequence[str] = ()) -> Reading:
        """Say how to read an expression of this type in Spark, with values of these kinds."""
        del kinds
        return self.expressions.get(datatype, PLAIN)

    def has_order(self, native: str) -> bool:
        """Say whether a key can be of this type, as the database names it."""
        return not (self.unordered and re.match(rf"({self.unordered})(?![\w.])", native.lower()))

    def sorts_by_bytes(self, column: Column) -> bool:
        """Say whether a text is surely sorted by its bytes, not by the rules of a language."""
        del column
        return False


def named(dialect: Dialect, labels: Sequence[str]) -> Wanted:
    """Ask for tables by their labels."""
    texts = ", ".join(map(dialect.text, labels))
    return lambda label: f"{label} in ({texts})"


def matching(dialect: Dialect, patterns: Sequence[str]) -> Wanted:
    """Ask for tables by shell patterns of their labels.

    What SQL cannot say is widened; the tap filters by the pattern itself afterwards.
    """
    return lambda label: " or ".join(_like(dialect, label, pattern) for pattern in patterns)


def _like(dialect: Dialect, label: str, pattern: str) -> str:
    if is_name(pattern):
        return f"{label} = {dialect.text(pattern)}"
    before, bracket, _ = pattern.partition("[")
    escaped = "".join("!" + char if char in "!%_" else char for char in before)
    like = escaped.replace("*", "%").replace("?", "_") + ("%" if bracket else "")
    return f"{label} like {dialect.text(like)} escape '!'"
