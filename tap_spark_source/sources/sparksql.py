"""Spark's own SQL, as a dialect beside those of the databases."""

from __future__ import annotations

from typing_extensions import override

from singer_spark.names import literal, quote
from tap_spark_source.sources.dialect import Dialect
from tap_spark_source.table import Column


class SparkSQL(Dialect):
    """What files and tables of a lake are filtered by."""

    @override
    def quote(self, name: str) -> str:
        return quote(name)

    @override
    def text(self, value: str) -> str:
        return literal(value)

    @override
    def literal(self, column: Column, value: str) -> str:
        if column.datatype == "binary":
            return super().literal(column, value)
        return f"cast({literal(value)} as {column.datatype})"
