"""The example's source: a shop in an SQLite database, which can be changed while Spark is warm."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

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
