"""PostgreSQL: every type that Spark's JDBC reader would bend is read as what it is."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence

from typing_extensions import override

from tap_spark_source.dialects.base import COLUMN_FIELDS, Dialect, Row, Wanted
from tap_spark_source.dialects.reading import DECIMAL_HINT, OUT_OF_RANGE, PLAIN, Reading
from tap_spark_source.plan.key import Mark
from tap_spark_source.plan.table import Column

_NATIVE = re.compile(r"(?P<name>[^(\[]+)(?:\((?P<args>[^)]*)\))?(?P<tail>[^(\[]*)(?P<array>\[\])?")
# Types that Spark reads as they are, alone and in arrays; all others travel as text.
_EXACT = {
    *("boolean", "smallint", "integer", "bigint", "real", "double precision"),
    *("text", "character varying", "character", "bytea", "uuid"),
}
_ZONELESS, _INSTANT = "timestamp without time zone", "timestamp with time zone"
_RANGES = {
    "date": ("date", "'0001-01-01'", "'9999-12-31'"),
    _ZONELESS: ("timestamp", "'0001-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'"),
    _INSTANT: ("timestamptz", "'0001-01-01 00:00:00+00'", "'9999-12-31 23:59:59.999999+00'"),
}
_KINDS = {"date": "date", "timestamp_ntz": _ZONELESS, "timestamp": _INSTANT}
# What a row takes at least, even without a column.
_ROW_BYTES = 28


class Postgres(Dialect):
    """PostgreSQL, through pg_catalog."""

    label = "({schema} || '.' || {table})"
    random = "random()"
    knows_indexes = True
    unites = True
    column_fields = (*COLUMN_FIELDS, "dims", "base", "estimate", "most")
    unordered = (
        "json|jsonpath|xml|point|line|lseg|box|path|polygon|circle|xid|cid|aclitem|refcursor|"
        "pg_snapshot|txid_snapshot"
    )
    first_rows = "{query} limit {rows}"
    properties = {"ApplicationName": "tap-spark-source"}
    timeouts: Mapping[str, str] = {
        "connectTimeout": "30",
        "loginTimeout": "60",
        "socketTimeout": "1800",
        "tcpKeepAlive": "true",
    }

    @override
    def identity_query(self) -> str:
        """Ask for the id that initdb gives; copies of a server by its files have the same."""
        return (
            "select 'postgresql:' || system_identifier || '/' || current_database() as id "
            "from pg_catalog.pg_control_system()"
        )

    @override
    def literal(self, column: Column, value: str) -> str:
        """A quoted text takes the type of the column that it is compared with."""
        if column.datatype == "binary":
            return f"decode('{base64.b64decode(value).hex()}', 'hex')"
        return self.text(value)

    @override
    def compared(
        self, names: Sequence[str], columns: Sequence[Column], operator: str, mark: Mark
    ) -> str:
        """Compare rows of values, for which an index of all their columns can be used."""
        if len(mark) == 1:
            return super().compared(names, columns, operator, mark)
        literals = ", ".join(map(self.literal, columns, mark))
        return f"({', '.join(names[: len(mark)])}) {operator} ({literals})"

    @override
    def columns_query(self, wanted: Wanted) -> str:
        # The parts of a partitioned table are read through their parent. What a table that others
        # inherit from holds itself says nothing about the rows that are read from it.
        return f"""
            select n.nspname as s, c.relname as t,
                   case when c.relkind in ('v', 'm') then 'VIEW' else 'TABLE' end as kind,
                   a.attname as c, a.attnum as pos, a.attndims as dims,
                   format_type(a.atttypid, a.atttypmod) as native,
                   case when y.typtype = 'd' then format_type(y.typbasetype, y.typtypmod)
                        else format_type(a.atttypid, a.atttypmod) end as base,
                   cast(a.attnotnull as int) as required,
                   case when c.relkind = 'p' or not c.relhassubclass
                        then cast(c.reltuples as bigint) end as estimate,
                   case when c.relkind in ('r', 'm') and not c.relhassubclass
                        then pg_relation_size(c.oid) / {_ROW_BYTES} end as most
            from pg_catalog.pg_class c
            join pg_catalog.pg_namespace n on n.oid = c.relnamespace
            join pg_catalog.pg_attribute a on a.attrelid = c.oid
            join pg_catalog.pg_type y on y.oid = a.atttypid
            where c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition
              and a.attnum > 0 and not a.attisdropped and n.nspname !~ '^pg_(toast|temp)'
              and has_table_privilege(c.oid, 'select')
              and {self.condition(wanted, "n.nspname", "c.relname")}"""

    @override
    def indexes_query(self, wanted: Wanted) -> str:
        return f"""
            select n.nspname as s, c.relname as t, i.relname as i, k.pos as pos,
                   coalesce(a.attname, pg_get_indexdef(x.indexrelid, k.pos, true)) as c,
                   cast(x.indisprimary as int) as is_primary,
                   cast(x.indisunique as int) as is_unique
            from pg_catalog.pg_index x
            join pg_catalog.pg_class i on i.oid = x.indexrelid
            join pg_catalog.pg_class c on c.oid = x.indrelid
            join pg_catalog.pg_namespace n on n.oid = c.relnamespace
            cross join lateral generate_series(1, x.indnkeyatts) k(pos)
            left join pg_catalog.pg_attribute a
              on a.attrelid = c.oid and a.attnum > 0 and a.attnum = x.indkey[k.pos - 1]
            where x.indisvalid and x.indpred is null
              and {self.condition(wanted, "n.nspname", "c.relname")}"""

    @override
    def reading(self, row: Row) -> Reading:
        match = _NATIVE.fullmatch(str(row["base"]))
        if match is None:
            return Reading("cast({} as text)")
        kind = (match["name"] + match["tail"]).strip()
        if match["array"]:
            return _array(kind, match["args"], int(row["dims"] or 0))
        return _scalar(kind, match["args"])

    @override
    def reading_of(self, datatype: str, kinds: Sequence[str] = ()) -> Reading:
        del kinds
        if datatype in _KINDS:
            return _scalar(_KINDS[datatype], None)
        # Spark would cut a number without bounds.
        if datatype.startswith("decimal"):
            return Reading("cast({} as text)", hint=DECIMAL_HINT)
        return PLAIN


def _scalar(kind: str, args: str | None) -> Reading:
    if kind == _ZONELESS:
        # The driver would take it for a time of Java's own zone, which may have skipped it.
        return Reading(f"cast({_guarded(kind)} as text)", "cast({} as timestamp_ntz)")
    if kind in _RANGES:
        return Reading(_guarded(kind))
    if kind in _EXACT or _is_exact_numeric(kind, args) or (kind, args) == ("bit", "1"):
        return PLAIN
    if kind == "inet":
        return PLAIN  # a text as well, but a cast would add the length of the mask
    if kind == "numeric":
        return Reading("cast({} as text)", hint=DECIMAL_HINT)
    if kind == "time without time zone":
        return Reading("to_char({}, 'HH24:MI:SS.US')")
    if kind == "oid":
        return Reading("cast({} as bigint)")
    return Reading("cast({} as text)")


def _array(kind: str, args: str | None, dimensions: int) -> Reading:
    exact = kind in _EXACT or _is_exact_numeric(kind, args)
    if exact and dimensions:
        return PLAIN
    if kind == _ZONELESS and dimensions == 1:
        return Reading(
            f"cast({_guarded_array(kind)} as text[])", "cast({} as array<timestamp_ntz>)"
        )
    if kind in _RANGES and dimensions == 1:
        return Reading(_guarded_array(kind))
    return Reading("cast({} as text[])" if dimensions == 1 else "cast({} as text)")


def _is_exact_numeric(kind: str, args: str | None) -> bool:
    """Say whether a numeric fits Spark's decimals; without precision it has no bounds."""
    if kind != "numeric" or not args:
        return False
    precision, scale = (int(part) for part in args.split(","))
    return precision <= 38 and 0 <= scale <= precision


def _guarded(kind: str) -> str:
    """Refuse infinity and far years, which the driver turns into other dates."""
    name, first, last = _RANGES[kind]
    return (
        f"case when {{}} is null or {{}} between {first} and {last} then {{}} "
        f"else cast(cast({{}} as text) || ' {OUT_OF_RANGE}' as {name}) end"
    )


def _guarded_array(kind: str) -> str:
    name, first, last = _RANGES[kind]
    return (
        f"case when exists (select 1 from unnest({{}}) e where e not between {first} and {last}) "
        f"then cast(array[cast({{}} as text) || ' {OUT_OF_RANGE}'] as {name}[]) else {{}} end"
    )
