"""Apache Derby, the database that Spark brings along."""

from __future__ import annotations

import re
from collections.abc import Sequence

from typing_extensions import override

from tap_spark_source.sources.base import TOO_FINE
from tap_spark_source.sources.dialect import PLAIN, Dialect, Reading, Row
from tap_spark_source.table import Column

# Derby counts nanoseconds, Spark microseconds: the rest must be nothing.
_TIMESTAMP = Reading(
    "cast({} as varchar(29))",
    "if(length(rtrim('0', substr({}, 27))) > 0, "
    f"raise_error(concat({{}}, ' {TOO_FINE}')), cast({{}} as timestamp_ntz))",
)


class Derby(Dialect):
    """Derby, through its SYS tables."""

    label = "({schema} || '.' || {table})"
    system_schemas = ("SYS", "SYSIBM", "SYSCAT", "SYSFUN", "SYSPROC", "SYSSTAT", "SQLJ", "NULLID")

    @override
    def literal(self, column: Column, value: str) -> str:
        if not column.is_time:
            return super().literal(column, value)
        kind = "DATE" if column.datatype == "date" else "TIMESTAMP"
        return f"{kind}({self.text(value.replace('T', ' '))})"

    @override
    def columns_query(self, wanted: str) -> str:
        return f"""
            select s.schemaname as s, t.tablename as t,
                   case when t.tabletype = 'V' then 'VIEW' else 'TABLE' end as kind,
                   c.columnname as c, c.columnnumber as pos,
                   cast(c.columndatatype as varchar(200)) as native
            from sys.systables t
            join sys.sysschemas s on s.schemaid = t.schemaid
            join sys.syscolumns c on c.referenceid = t.tableid
            where t.tabletype in ('T', 'V')
              and {self.condition(wanted, "s.schemaname", "t.tablename")}"""

    @override
    def keys_query(self, wanted: str) -> str:
        # The index behind a key says which columns it is of: UNIQUE BTREE (2, 1).
        return f"""
            select s.schemaname as s, t.tablename as t,
                   cast(g.descriptor as varchar(200)) as columns
            from sys.sysconstraints x
            join sys.systables t on t.tableid = x.tableid
            join sys.sysschemas s on s.schemaid = t.schemaid
            join sys.syskeys k on k.constraintid = x.constraintid
            join sys.sysconglomerates g on g.conglomerateid = k.conglomerateid
            where x.type = 'P'
              and {self.condition(wanted, "s.schemaname", "t.tablename")}"""

    @override
    def key_columns(self, rows: Sequence[Row], columns: Sequence[Row]) -> tuple[str, ...]:
        names = {int(row["pos"]): row["c"] for row in columns}
        return tuple(
            names[int(number)]
            for row in rows
            for number in re.findall(r"\d+", row["columns"].rpartition("(")[2])
        )

    @override
    def reading(self, row: Row) -> Reading:
        native = str(row["native"])
        if native.startswith("TIMESTAMP"):
            return _TIMESTAMP
        if native.startswith("TIME"):
            return Reading("cast({} as varchar(8)) || '.000000'")
        if native.startswith("XML"):
            return Reading("xmlserialize({} as clob)")
        return PLAIN
