"""What the tap's ways of reading cost, each as a ratio: `python -m benchmarks.parts.reading`."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.parts import measure
from benchmarks.source import CREATE_ORDERS
from tests.support.tap import Postgres, run_tap

FOUND = 1_000
ROUNDS = 7
# The whole of Spark runs in it: what does not fit goes to disk.
_LITTLE_MEMORY = {"spark.driver.memory": "1g"}


def incremental(server: Postgres, _folder: Path, rows: int) -> None:
    """A run that finds 1,000 rows, in a table and in one of ten times the size; start-up aside."""
    sizes = {"small": rows, "large": rows * 10}
    for name, size in sizes.items():
        _make(server, name, size)
    seconds = {name: [] for name in sizes}
    for _ in range(ROUNDS):
        for name, size in sizes.items():
            seconds[name].append(_seconds_of_new_rows(server, name, size))
    small, large = (statistics.median(found[1:]) for found in seconds.values())
    print(f"incremental: {FOUND:,} new rows of {rows:,} in {small:.2f} s, of {rows * 10:,} in")
    print(f"  {large:.2f} s; ratio {large / small:.2f} (median of {ROUNDS - 1})")


def connections(server: Postgres, folder: Path, rows: int) -> None:
    """A full read by one connection and by two, from the first record on."""
    _make(server, "orders", rows)
    rates = {1: [], 2: []}
    for _ in range(3):
        for count, found in rates.items():
            settings = {"tables": ["public.orders"], "num_partitions": count}
            command = measure.tap(folder, "tap", **server.config, **settings)
            found.append(measure.run(command).steady_rate)
    one, two = (statistics.median(found) for found in rates.values())
    print(f"connections: {rows:,} rows, {one:,.0f} rows/s by one, {two:,.0f} by two;")
    print(f"  ratio {two / one:.2f} (median of 3)")


def snapshot(server: Postgres, folder: Path, rows: int) -> None:
    """Five times the rows compared with a snapshot, against one plain read of the same table."""
    rows *= 5
    _make(server, "versions", rows)
    common = {**server.config, "tables": ["public.versions"], "spark_conf": _LITTLE_MEMORY}
    plain = measure.run(measure.tap(folder, "plain", **common))
    print(f"snapshot: {plain.records:,} rows read once in {plain.seconds:.1f} s")
    ways = {"keys": {"snapshot": "keys", "replication_key": "id"}, "rows": {"snapshot": "rows"}}
    for number, (mode, way) in enumerate(ways.items()):
        config = {**common, "snapshot_path": str(folder / mode), "stream_options": {"*": way}}
        state = _state_after(folder, mode, config)
        server.run(f"delete from versions where id % {rows // 1000} = {number}")
        again = measure.run([*measure.tap(folder, mode, **config), "--state", state])
        print(
            f"  {mode}: {again.records:,} records in {again.seconds:.1f} s, ratio "
            f"{again.seconds / plain.seconds:.2f}, Python process {again.peak_mb:.0f} MB"
        )


def _make(server: Postgres, name: str, rows: int) -> None:
    server.run(CREATE_ORDERS.format(name=name, rows=rows))
    server.run(f"alter table {name} add primary key (id)")
    server.run(f"create index on {name} (created_at)")
    server.run(f"vacuum analyze {name}", autocommit=True)


def _seconds_of_new_rows(server: Postgres, name: str, rows: int) -> float:
    first = server.rows(f"select created_at from {name} where id = {rows - FOUND + 1}")[0][0]
    bookmark = {"replication_key": "created_at", "replication_key_value": first.isoformat()}
    config = server.reads(name, replication_key="created_at")
    start = time.monotonic()
    output = run_tap(config, state={"bookmarks": {f"public-{name}": bookmark}})
    assert len(output.records()) == FOUND
    return time.monotonic() - start


def _state_after(folder: Path, name: str, config: dict[str, object]) -> str:
    """Run the tap and keep its last state."""
    done = subprocess.run(
        ["sh", "-c", '"$@" 2>/dev/null | tail -n 1', "sh", *measure.tap(folder, name, **config)],
        check=True,
        capture_output=True,
    )
    state = folder / f"{name}-state.json"
    state.write_text(json.dumps(json.loads(done.stdout)["value"]))
    return str(state)


WAYS = {"incremental": incremental, "connections": connections, "snapshot": snapshot}


def main() -> None:
    """Measure the ways that are asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ways", nargs="*", choices=[*WAYS], default=[*WAYS])
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args()
    server = Postgres()
    try:
        for name in options.ways:
            with tempfile.TemporaryDirectory() as folder:
                WAYS[name](server, Path(folder), options.rows)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
