"""SQLite: columns have no type, values have; every value arrives as text, its kind before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from typing_extensions import override

from tap_spark_source.dialects.base import Dialect, Row, Wanted
from tap_spark_source.dialects.reading import DECIMAL_HINT, OTHER_KIND, Reading
from tap_spark_source.plan.table import Column

# A real's shortest exact text; bytes as digits.
_VALUE = (
    "case typeof({}) when 'null' then null "
    "when 'real' then 'real:' || case {} when 9e999 then 'Infinity' when -9e999 then '-Infinity' "
    "else quote({}) end "
    "when 'blob' then 'blob:' || hex({}) else typeof({}) || ':' || {} end"
)
_TEXT = "regexp_extract({}, '(?s)^[a-z]+:(.*)$', 1)"


def _parse(result: str, *kinds: str) -> str:
    """Take the kinds of values that the column can hold; others are an error."""
    found = " or ".join(f"startswith({{}}, '{kind}:')" for kind in kinds)
    return (
        f"case when {{}} is null then null when {found} then {result} "
        f'else raise_error(concat({{}}, " {OTHER_KIND}")) end'
    )


_INTEGER = Reading(_VALUE, _parse(f"cast({_TEXT} as bigint)", "integer"))
_REAL = Reading(_VALUE, _parse(f"cast({_TEXT} as double)", "real", "integer"))
_ANY_TEXT = Reading(_VALUE, _parse(_TEXT, "text", "integer", "real"))
_ONLY_TEXT = Reading(_VALUE, _parse(_TEXT, "text"))
_BYTES = Reading(_VALUE, _parse(f"unhex({_TEXT})", "blob"))
_BOOLEAN = Reading(_VALUE, _parse(f"cast({_TEXT} as boolean)", "integer", "text"))
_DECIMAL = Reading(_VALUE, _parse(_TEXT, "integer", "real"), DECIMAL_HINT)


class SQLite(Dialect):
    """SQLite, through its pragmas; its one schema is main."""

    label = "({schema} || '.' || {table})"
    # A whole number between the ends of 64 bits.
    random = "abs(random() / 9223372036854775808.0)"
    system_schemas = ("",)
    arrives_as_text = True
    # What stands in the URL this driver would take for a part of the file's name.
    refuses_properties = "SQLite's own are written small"
    # The ends alone: kinds are ordered, numbers before texts before bytes.
    kinds_query = (
        "select typeof((select min({expression}) from {table})) as low, "
        "typeof((select max({expression}) from {table})) as high"
    )
    first_rows = "select * from ({query} limit {rows})"
    unites = True

    @override
    def literal(self, column: Column, value: str) -> str:
        if column.datatype == "binary":
            return super().literal(column, value)
        return value if column.is_number else self.text(value)

    @override
    def columns_query(self, wanted: Wanted) -> str:
        # SQLite lets NULL into a primary key, unless that is the rowid, which needs no index.
        return f"""
            select 'main' as s, m.name as t, upper(m.type) as kind, p.name as c,
                   p.type || case when m.sql like '%collate%' then ' collate' else '' end as native,
                   p.cid as pos,
                   p."notnull" or p.pk > 0 and not exists (
                     select 1 from pragma_index_list(m.name) x where x.origin = 'pk') as required
            from sqlite_master m join pragma_table_info(m.name) p
            where m.type in ('table', 'view') and m.name not like 'sqlite!_%' escape '!'
              and {self.condition(wanted, "'main'", "m.name")}"""

    @override
    def indexes_query(self, wanted: Wanted) -> str:
        return f"""
            select 'main' as s, m.name as t, 'primary key' as i, p.name as c, p.pk as pos,
                   1 as is_primary, 1 as is_unique
            from sqlite_master m join pragma_table_info(m.name) p
            where m.type = 'table' and p.pk > 0
              and {self.condition(wanted, "'main'", "m.name")}"""

    @override
    def reading(self, row: Row) -> Reading:
        """Follow SQLite's own rules of affinity; it has no type for times, which stay texts."""
        declared = str(row["native"]).upper()
        rules = (
            (("INT",), _INTEGER),
            (("CHAR", "CLOB", "TEXT", "DATE", "TIME", "JSON"), _ANY_TEXT),
            (("BLOB", "BINARY"), _BYTES),
            (("REAL", "FLOA", "DOUB"), _REAL),
            (("BOOL",), _BOOLEAN),
            (("NUM", "DEC"), _DECIMAL),
        )
        for words, reading in rules:
            if any(word in declared for word in words):
                return reading
        # Without a type nothing is converted: the text 30 is above every number.
        return replace(_ANY_TEXT, can_be_key=False)

    @override
    def sorts_by_bytes(self, column: Column) -> bool:
        """Trust columns that keep texts as they are, in the default order; times may be numbers."""
        native = column.native.upper()
        return "COLLATE" not in native and any(one in native for one in ("CHAR", "CLOB", "TEXT"))

    @override
    def reading_of(self, datatype: str, kinds: Sequence[str] = ()) -> Reading:
        """Take an expression for what its values are: SQLite does not convert it either."""
        found = set(kinds) - {"null"}
        if found == {"integer"}:
            return _INTEGER
        if found and found <= {"integer", "real"}:
            return _DECIMAL
        if found == {"blob"}:
            return _BYTES
        if found <= {"text"}:
            return _ONLY_TEXT
        return replace(_ANY_TEXT, can_be_key=False)
