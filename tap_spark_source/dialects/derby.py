"""Apache Derby, the database that Spark brings along."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from typing_extensions import override

from tap_spark_source.dialects.base import Dialect, Row, Wanted
from tap_spark_source.dialects.reading import PLAIN, Reading, exact_time
from tap_spark_source.plan.table import Column, Index

# Derby counts nanoseconds, Spark microseconds.
_TIMESTAMP = Reading("cast({} as varchar(29))", exact_time("timestamp_ntz"))


class Derby(Dialect):
    """Derby, through its SYS tables."""

    label = "({schema} || '.' || {table})"
    random = "random()"
    knows_indexes = True
    unordered = "clob|blob|long varchar|xml"
    expressions = {"timestamp_ntz": _TIMESTAMP}
    row_number = "row_number() over ()"
    system_schemas = ("SYS", "SYSIBM", "SYSCAT", "SYSFUN", "SYSPROC", "SYSSTAT", "SQLJ", "NULLID")

    @override
    def url_with(self, url: str, properties: Mapping[str, str]) -> str:
        return url + "".join(f";{name}={value}" for name, value in properties.items())

    @override
    def literal(self, column: Column, value: str) -> str:
        if not column.is_time:
            return super().literal(column, value)
        kind = "DATE" if column.datatype == "date" else "TIMESTAMP"
        return f"{kind}({self.text(value.replace('T', ' '))})"

    @override
    def columns_query(self, wanted: Wanted) -> str:
        return f"""
            select s.schemaname as s, t.tablename as t,
                   case when t.tabletype = 'V' then 'VIEW' else 'TABLE' end as kind,
                   c.columnname as c, c.columnnumber as pos,
                   cast(c.columndatatype as varchar(200)) as native,
                   case when cast(c.columndatatype as varchar(200)) like '%NOT NULL'
                        then 1 else 0 end as required
            from sys.systables t
            join sys.sysschemas s on s.schemaid = t.schemaid
            join sys.syscolumns c on c.referenceid = t.tableid
            where t.tabletype in ('T', 'V')
              and {self.condition(wanted, "s.schemaname", "t.tablename")}"""

    @override
    def indexes_query(self, wanted: Wanted) -> str:
        # The descriptor of an index says which columns it is of: UNIQUE BTREE (2, 1).
        return f"""
            select s.schemaname as s, t.tablename as t, g.conglomeratename as i,
                   cast(g.descriptor as varchar(200)) as columns,
                   max(case when x.type = 'P' then 1 else 0 end) as is_primary
            from sys.sysconglomerates g
            join sys.systables t on t.tableid = g.tableid
            join sys.sysschemas s on s.schemaid = t.schemaid
            left join sys.syskeys k on k.conglomerateid = g.conglomerateid
            left join sys.sysconstraints x on x.constraintid = k.constraintid
            where g.isindex and {self.condition(wanted, "s.schemaname", "t.tablename")}
            group by s.schemaname, t.tablename, g.conglomeratename,
                     cast(g.descriptor as varchar(200))"""

    @override
    def indexes(self, rows: Sequence[Row], columns: Sequence[Row]) -> tuple[Index, ...]:
        names = {int(row["pos"]): row["c"] for row in columns}
        return tuple(
            Index(
                columns=tuple(
                    names[int(number)]
                    for number in re.findall(r"\d+", row["columns"].rpartition("(")[2])
                ),
                is_unique=row["columns"].startswith("UNIQUE "),
                is_primary=bool(row["is_primary"]),
            )
            for row in rows
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
