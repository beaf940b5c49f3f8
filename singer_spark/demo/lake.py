"""Reads a Delta table without Spark, as far as the example's tables need it, and shows rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

import pyarrow.parquet

Row: TypeAlias = Mapping[str, Any]


def read_rows(table: Path) -> list[Row]:
    """Return the rows of the table's newest version, ordered by their first column."""
    rows = [row for name in _files(table) for row in _file_rows(table / name)]
    columns = max(rows, key=len, default={})
    key = next(iter(columns), "")
    filled = ({column: row.get(column) for column in columns} for row in rows)
    return sorted(filled, key=lambda row: row[key])


def _files(table: Path) -> set[str]:
    """Replay the table's log: each commit adds files and removes some."""
    files: set[str] = set()
    for commit in sorted((table / "_delta_log").glob("*.json")):
        for line in commit.read_text(encoding="utf-8").splitlines():
            action = json.loads(line)
            if "add" in action:
                files.add(unquote(action["add"]["path"]))
            elif "remove" in action:
                files.discard(unquote(action["remove"]["path"]))
    return files


def _file_rows(path: Path) -> list[Row]:
    rows: list[Row] = pyarrow.parquet.ParquetFile(path).read().to_pylist()
    return rows


def format_table(rows: Sequence[Row]) -> list[str]:
    """Lay rows out as lines of text; numbers to the right."""
    columns = list(rows[0])
    cells = [[_text(row[column]) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    right = [any(_is_number(row[column]) for row in rows) for column in columns]
    return [
        "  ".join(
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in [columns, ["-" * width for width in widths], *cells]
    ]


def _text(value: object) -> str:
    return "-" if value is None else str(value)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
