"""Oracle: NUMBER has bounds only where they are declared, DATE has a time of day."""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import override

from tap_spark_source.dialects.base import Dialect, Row, Wanted
from tap_spark_source.dialects.reading import DECIMAL_HINT, PLAIN, Reading, exact_time
from tap_spark_source.plan.table import Column

_NUMBER = Reading(
    "to_char({}, 'TM9', 'NLS_NUMERIC_CHARACTERS=''.,''')", "trim({})", hint=DECIMAL_HINT
)
_DATE = Reading("to_char({}, 'SYYYY-MM-DD HH24:MI:SS')", "cast(trim({}) as timestamp_ntz)")
_FINE = "'SYYYY-MM-DD HH24:MI:SS.FF9'"
_TIMESTAMP = Reading(f"to_char({{}}, {_FINE})", exact_time("timestamp_ntz", "trim({})"))
_INSTANT = Reading(
    f"to_char(sys_extract_utc({{}}), {_FINE}) || '+00:00'", exact_time("timestamp", "trim({})")
)
# What Spark calls the statement that it runs before it reads.
_SESSION = "sessionInitStatement"
_BINARY = "alter session set nls_sort = binary nls_comp = binary"


class Oracle(Dialect):
    """Oracle, through its ALL_ views."""

    label = "({schema} || '.' || {table})"
    random = "dbms_random.value"
    system_schemas = ("SYS", "SYSTEM")
    unordered = "clob|nclob|blob|bfile|long|xmltype|json"
    expressions = {"timestamp_ntz": _TIMESTAMP, "timestamp": _INSTANT}
    # This driver reads nothing from a URL; its timeouts are properties of Java.
    refuses_properties = "set {names} in spark_conf spark.driver.extraJavaOptions"
    bytes_literal = "hextoraw('{digits}')"

    @override
    def connection(self, given: Mapping[str, str]) -> dict[str, str]:
        """Sort texts as they are compared with a bookmark, whatever the server's language is."""
        statements = filter(None, [given.get(_SESSION, "").strip(), _BINARY])
        run = " ".join(f"execute immediate {self.text(one)};" for one in statements)
        return {**given, _SESSION: f"begin {run} end;"}

    @override
    def literal(self, column: Column, value: str) -> str:
        time = value.replace("+00:00", " +00:00") if column.is_time else value
        return super().literal(column, time)

    @override
    def columns_query(self, wanted: Wanted) -> str:
        return f"""
            select c.owner as s, c.table_name as t, o.object_type as kind, c.column_name as c,
                   c.data_type as native, c.column_id as pos, c.data_precision as p,
                   c.data_scale as sc,
                   case when c.nullable = 'N' then 1 else 0 end as required
            from all_tab_columns c
            join all_objects o on o.owner = c.owner and o.object_name = c.table_name
            where o.object_type in ('TABLE', 'VIEW', 'MATERIALIZED VIEW')
              and c.owner not in (select username from all_users where oracle_maintained = 'Y')
              and {self.condition(wanted, "c.owner", "c.table_name")}"""

    @override
    def indexes_query(self, wanted: Wanted) -> str:
        return f"""
            select x.owner as s, x.table_name as t, x.constraint_name as i, k.column_name as c,
                   k.position as pos, 1 as is_primary, 1 as is_unique
            from all_constraints x
            join all_cons_columns k
              on k.owner = x.owner and k.constraint_name = x.constraint_name
            where x.constraint_type = 'P'
              and {self.condition(wanted, "x.owner", "x.table_name")}"""

    @override
    def reading(self, row: Row) -> Reading:
        native = str(row["native"]).upper()
        if native == "NUMBER":
            digits, scale = row["p"], row["sc"]
            is_bounded = None not in (digits, scale) and 0 <= int(scale) <= int(digits) <= 38
            return PLAIN if is_bounded else _NUMBER
        if native.startswith("TIMESTAMP"):
            return _INSTANT if "TIME ZONE" in native else _TIMESTAMP
        if native.startswith("INTERVAL"):
            return Reading("to_char({})")
        return _READINGS.get(native, PLAIN)


_READINGS = {
    "FLOAT": _NUMBER,
    "DATE": _DATE,
    "ROWID": Reading("rowidtochar({})"),
    "UROWID": Reading("cast({} as varchar2(4000))"),
    "XMLTYPE": Reading("xmlserialize(content {} as clob)"),
    "JSON": Reading("json_serialize({} returning clob)"),
}
