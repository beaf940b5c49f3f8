"""MySQL and MariaDB: what their drivers bend, zero dates and floats above all, is read as text."""

from __future__ import annotations

import re
from collections.abc import Mapping

from typing_extensions import override

from tap_spark_source.dialects.base import Dialect, Row, Wanted
from tap_spark_source.dialects.reading import DECIMAL_HINT, PLAIN, Reading, exact_time
from tap_spark_source.plan.table import Column

_TEXT = Reading("cast({} as char)")
# By way of texts: one driver makes NULL of the date 0000-00-00, the other fails without a name.
_READINGS = {
    "date": Reading("cast({} as char)", "cast({} as date)"),
    "datetime": Reading("cast({} as char)", exact_time("timestamp_ntz")),
    # The session's zone is UTC.
    "timestamp": Reading("concat(cast({} as char), '+00:00')", exact_time("timestamp")),
    "time": _TEXT,
    "year": Reading("cast({} as signed)"),
    # Sent as a text of six digits, unless it is a double.
    "float": Reading("({} + 0e0)"),
    "json": _TEXT,
    "uuid": _TEXT,
    "inet4": _TEXT,
    "inet6": _TEXT,
}
_SHAPES = (
    *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"),
    *("multipolygon", "geometrycollection", "geomcollection"),
)


class MySQL(Dialect):
    """MySQL and MariaDB."""

    quotes = ("`", "`")
    knows_indexes = True
    native = "c.data_type as base, c.column_type as native"
    # The first two are sorted by number and compared by text.
    unordered = "|".join(("enum", "set", "json", *_SHAPES))
    expressions = {
        "date": _READINGS["date"],
        "timestamp_ntz": _READINGS["datetime"],
        "timestamp": _READINGS["timestamp"],
    }
    first_rows = "{query} limit {rows}"
    # In milliseconds; a login counts as answers of the server.
    timeouts = {"connectTimeout": "30000", "socketTimeout": "1800000", "tcpKeepAlive": "true"}

    @override
    def url(self, url: str) -> str:
        """Spark knows one scheme for both; under another it would quote names as texts."""
        rest = re.sub(r"^jdbc:mariadb:", "jdbc:mysql:", url, flags=re.IGNORECASE)
        if rest == url:
            return url
        return f"{rest}{'&' if '?' in rest else '?'}permitMysqlScheme"

    @override
    def connection(self, given: Mapping[str, str]) -> dict[str, str]:
        name = next((key for key in given if key.lower() == "sessionvariables"), "sessionVariables")
        variables = [*filter(None, [given.get(name)]), "time_zone='+00:00'"]
        return {
            # Without it MySQL's driver keeps the whole result in memory.
            "useCursorFetch": "true",
            **{key: value for key, value in given.items() if key != name},
            "sessionVariables": ",".join(variables),
        }

    @override
    def text(self, value: str) -> str:
        """Quote a text; a backslash escapes here."""
        return super().text(value.replace("\\", "\\\\"))

    @override
    def literal(self, column: Column, value: str) -> str:
        return super().literal(column, value.removesuffix("+00:00") if column.is_time else value)

    @override
    def indexes_query(self, wanted: Wanted) -> str:
        return f"""
            select x.table_schema as s, x.table_name as t, x.index_name as i,
                   x.column_name as c, x.seq_in_index as pos,
                   case when x.index_name = 'PRIMARY' then 1 else 0 end as is_primary,
                   1 - x.non_unique as is_unique
            from information_schema.statistics x
            where x.column_name is not null
              and {self.condition(wanted, "x.table_schema", "x.table_name")}"""

    @override
    def reading(self, row: Row) -> Reading:
        base, native = str(row["base"]).lower(), str(row["native"]).lower()
        if base == "decimal" and int(row["p"]) > 38:
            return Reading("cast({} as char)", hint=DECIMAL_HINT)
        if base == "bit" and native != "bit(1)":
            return Reading("cast({} as unsigned)")
        if native.startswith("tinyint(1)"):
            return Reading("cast({} as signed)")  # or 2 would become true
        if base in _SHAPES:
            return Reading("st_asbinary({})")
        return _READINGS.get(base, PLAIN)


class MariaDB(MySQL):
    """MariaDB through its own driver."""

    reads_any_case = True  # and takes values in its URL as they stand there

    @override
    def connection(self, given: Mapping[str, str]) -> dict[str, str]:
        return {"driver": "org.mariadb.jdbc.Driver", **super().connection(given)}
