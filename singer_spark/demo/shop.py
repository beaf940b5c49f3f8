"""The example: a shop in an SQLite database that can be changed, and what its tables hold."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

PIPELINE = """\
name: shop
source:
  tap: tap-spark-source
  config:
    source_url: {source}
    tables: [main.*]
    emit_activate_version_messages: true   # the target marks products that are gone
    stream_options:
      main-customers: {{replication_key: updated_at}}
      main-orders: {{replication_key: updated_at}}
destination:
  target: target-spark-delta
  config:
    path: {lake}
"""
Row: TypeAlias = Mapping[str, Any]


def make_shop(folder: Path) -> None:
    """Create the database with its first rows."""
    _run_script(folder, "shop.sql")


def change_shop(folder: Path) -> None:
    """Change, add and delete rows."""
    _run_script(folder, "change.sql")


def write_pipeline(folder: Path) -> Path:
    """Write the pipeline file that loads the shop into `lake`."""
    path = folder / "pipelines" / "shop.yml"
    path.parent.mkdir()
    source = json.dumps(f"jdbc:sqlite:{folder / 'shop.db'}")
    lake = json.dumps(str(folder / "lake"))
    path.write_text(PIPELINE.format(source=source, lake=lake), encoding="utf-8")
    return path


def _run_script(folder: Path, name: str) -> None:
    script = Path(__file__).with_name(name).read_text(encoding="utf-8")
    with closing(sqlite3.connect(folder / "shop.db")) as database:
        database.executescript(script)


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
    import pyarrow.parquet  # takes its time, which other commands need not wait for

    rows: list[Row] = pyarrow.parquet.ParquetFile(path).read().to_pylist()
    return rows
