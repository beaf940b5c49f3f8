"""A whole pipeline whose rows travel as messages, against one whose rows travel as files."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from pathlib import Path

from benchmarks import data, measure
from tests.support.tap import Postgres

ROUNDS = 3


def transport(folder: Path, rows: int, sdk_rows: int) -> None:
    """Load a table out of PostgreSQL both ways, in turns, start-up included."""
    del sdk_rows
    server = Postgres()
    try:
        server.run(data.TABLE.format(rows=rows))
        server.run("alter table orders add primary key (id)")
        seconds = {"records": [], "batch": []}
        for number in range(ROUNDS):
            for kind, found in seconds.items():
                found.append(_seconds(folder / f"{kind}-{number}", server, kind))
    finally:
        server.stop()
    records, batch = (statistics.median(found) for found in seconds.values())
    print(f"transport: {rows:,} rows as records in {records:.1f} s, as files in {batch:.1f} s;")
    print(f"  ratio {records / batch:.2f} (median of {ROUNDS})")


def _seconds(folder: Path, server: Postgres, kind: str) -> float:
    folder.mkdir()
    tap = {**server.config, "tables": ["public.orders"]}
    document = {
        "name": "orders",
        "source": {"tap": "tap-spark-source", "config": tap},
        "destination": {"target": "target-spark-delta", "config": {"path": f"{folder}/lake"}},
        "transport": kind,
    }
    pipeline = folder / "orders.yml"
    pipeline.write_text(json.dumps(document))  # JSON is YAML
    start = time.monotonic()
    command = [*measure.command("singer-spark"), "run", str(pipeline)]
    subprocess.run(command, check=True, capture_output=True)
    return time.monotonic() - start
