"""Compares a table that was loaded with its source, by a reader that is not Spark."""

from __future__ import annotations

from pathlib import Path

import duckdb
from deltalake import DeltaTable

from benchmarks.source import Source, Table


def differs(source: Source, table: Table, place: Path) -> str | None:
    """Say how a Delta table differs from its source, None if it does not."""
    if not place.exists():
        return f"{table.name} is missing"
    found = checksum(table, place)
    wanted = source.checksum(table)
    if found == wanted:
        return None
    if found[0] != wanted[0]:
        return f"{table.name} has {found[0]:,} rows instead of {wanted[0]:,}"
    return f"{table.name} has other values than its source"


def checksum(table: Table, place: Path) -> tuple[int, int]:
    """Return the number of rows of a table, and the sum that `Source.checksum` makes.

    Args:
        table: Which table.
        place: The folder of a Delta table, or a file of DuckDB.
    """
    row = f"concat_ws('|', {', '.join(table.row_in_duckdb)})"
    digest = f"('0x' || substr(md5({row}), 1, 15))::bigint"
    with duckdb.connect(place) if place.is_file() else duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        if not place.is_file():
            connection.register(table.name, DeltaTable(place).to_pyarrow_dataset())
        query = f"select count(*), sum({digest}) from {table.name}"
        count, total = connection.execute(query).fetchone()
    return int(count), int(total or 0)
