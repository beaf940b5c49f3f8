"""SQL Server: times count to 100 nanoseconds or by 300ths, and some types exist nowhere else."""

from __future__ import annotations

import re
from collections.abc import Mapping

from typing_extensions import override

from tap_spark_source.dialects.base import Dialect
from tap_spark_source.dialects.reading import Reading, exact_time
from tap_spark_source.plan.table import Column

_ISO = "convert(varchar(34), {}, 126)"
_ZONELESS = Reading(_ISO, exact_time("timestamp_ntz"))
_TEXT = Reading("cast({} as nvarchar(max))")
_READINGS = {
    "datetime": _ZONELESS,
    "datetime2": _ZONELESS,
    "smalldatetime": _ZONELESS,
    "datetimeoffset": Reading(_ISO, exact_time("timestamp")),
    "time": Reading("cast({} as varchar(16))"),
    "sql_variant": _TEXT,
    "xml": _TEXT,
    "json": _TEXT,
    "geography": Reading("{}.ToString()"),
    "geometry": Reading("{}.ToString()"),
    "hierarchyid": Reading("{}.ToString()"),
}


class SQLServer(Dialect):
    """SQL Server, through its INFORMATION_SCHEMA."""

    quotes = ("[", "]")
    # One number for each row, not one for the query.
    random = "rand(checksum(newid()))"
    system_schemas = ("sys", "INFORMATION_SCHEMA")
    # In seconds and in milliseconds; the driver keeps connections alive by itself.
    timeouts: Mapping[str, str] = {"loginTimeout": "60", "socketTimeout": "1800000"}
    unordered = "sql_variant|xml|json|geography|geometry|text|ntext|image"
    readings = _READINGS
    expressions = {"timestamp_ntz": _ZONELESS, "timestamp": _READINGS["datetimeoffset"]}
    bytes_literal = "0x{digits}"
    every_nth = "n % {step} = 0"
    # An order inside a query needs an end.
    first_rows = "{query} offset 0 rows fetch next {rows} rows only"

    @override
    def url_with(self, url: str, properties: Mapping[str, str]) -> str:
        parts = (f";{name}={{{value.replace('}', '}}')}}}" for name, value in properties.items())
        return url.rstrip(";") + "".join(parts)

    @override
    def text(self, value: str) -> str:
        return "N" + super().text(value)

    @override
    def literal(self, column: Column, value: str) -> str:
        if column.native.lower().startswith(("char", "varchar")):
            # With N'…' it would be compared by Unicode's rules, though sorted by its own.
            return super().text(value)
        if not column.is_time:
            return super().literal(column, value)
        if column.native.lower() == "datetime":
            # It counts by 1/300 s, which no other type compares equal to, and reads three digits.
            milliseconds = re.sub(r"([.][0-9]{3})[0-9]+$", r"\1", value)
            return f"cast({self.text(milliseconds)} as datetime)"
        kinds = {"date": "date", "timestamp": "datetimeoffset(6)", "timestamp_ntz": "datetime2(6)"}
        return f"cast({self.text(value)} as {kinds[column.datatype]})"
