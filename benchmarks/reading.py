"""What the tap's ways of reading cost, start-up aside: the runs share one Spark session."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from benchmarks import data, measure
from tests.support.tap import Postgres, run_tap

FOUND = 1_000
ROUNDS = 7


def incremental(folder: Path, rows: int, sdk_rows: int) -> None:
    """A run that finds 1,000 rows, in a table and in one of ten times the size."""
    del folder, sdk_rows
    server = Postgres()
    try:
        sizes = {"small": rows, "large": rows * 10}
        for name, size in sizes.items():
            _make(server, name, size)
        seconds = {name: [] for name in sizes}
        for _ in range(ROUNDS):
            for name, size in sizes.items():
                seconds[name].append(_seconds_of_new_rows(server, name, size))
    finally:
        server.stop()
    small, large = (statistics.median(found[1:]) for found in seconds.values())
    print(f"incremental: {FOUND:,} new rows of {rows:,} in {small:.2f} s, of {rows * 10:,} in")
    print(f"  {large:.2f} s; ratio {large / small:.2f} (median of {ROUNDS - 1})")


def connections(folder: Path, rows: int, sdk_rows: int) -> None:
    """A full read by one connection and by two, from the first record on."""
    del sdk_rows
    server = Postgres()
    try:
        _make(server, "orders", rows)
        rates = {1: [], 2: []}
        for _ in range(3):
            for count, found in rates.items():
                settings = {"tables": ["public.orders"], "num_partitions": count}
                command = measure.tap(folder, "tap", **server.config, **settings)
                found.append(measure.run(command).steady_rate)
    finally:
        server.stop()
    one, two = (statistics.median(found) for found in rates.values())
    print(f"connections: {rows:,} rows, {one:,.0f} rows/s by one, {two:,.0f} by two;")
    print(f"  ratio {two / one:.2f} (median of 3)")


def _make(server: Postgres, name: str, rows: int) -> None:
    server.run(data.TABLE.format(rows=rows).replace("table orders", f"table {name}"))
    server.run(f"alter table {name} add primary key (id)")
    server.run(f"create index on {name} (created_at)")
    server.run(f"vacuum analyze {name}", autocommit=True)


def _seconds_of_new_rows(server: Postgres, name: str, rows: int) -> float:
    first = server.rows(f"select created_at from {name} where id = {rows - FOUND + 1}")[0][0]
    bookmark = {"replication_key": "created_at", "replication_key_value": first.isoformat()}
    start = time.monotonic()
    output = _read(server, name, {"bookmarks": {f"public-{name}": bookmark}})
    assert len(output.records()) == FOUND
    return time.monotonic() - start


def _read(server: Postgres, name: str, state: dict | None = None, **settings):
    options = {"*": {"replication_key": "created_at"}} if state else {}
    config = {**server.config, "tables": [f"public.{name}"], "stream_options": options, **settings}
    return run_tap(config, state=state)
