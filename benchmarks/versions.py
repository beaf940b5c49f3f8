"""What a change costs a healthy run: two installations do the same work in turns.

python -m benchmarks.versions /path/to/other/.venv/bin [--rows 1000000] [--rounds 4]

Each loads a table of PostgreSQL in full, then a tenth of its rows changed, by `singer-spark run`.
Every round begins with the other side, because who comes first finds colder files.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.source import CREATE_ORDERS
from tests.support.tap import Postgres

CHANGE = (
    "update orders set qty = qty + 1, created_at = created_at + interval '10 years' "
    "where id % 10 = {number}"
)


def measure(commands: Path, pipeline: Path) -> float:
    """Run a pipeline once with the commands of a folder; return the seconds it took."""
    start = time.monotonic()
    env = {**os.environ, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(
        [commands / "singer-spark", "run", pipeline], check=True, capture_output=True, env=env
    )
    return time.monotonic() - start


def write_pipeline(folder: Path, server: Postgres, transport: str) -> Path:
    folder.mkdir(parents=True)
    tap = {**server.config, "tables": ["public.orders"],
           "default_replication_method": "INCREMENTAL",
           "default_replication_key": "created_at"}  # fmt: skip
    document = {
        "name": "orders",
        "source": {"tap": "tap-spark-source", "config": tap},
        "destination": {"target": "target-spark-delta", "config": {"path": f"{folder}/lake"}},
        "transport": transport,
    }
    (folder / "orders.yml").write_text(json.dumps(document))  # JSON is YAML
    return folder / "orders.yml"


def compare(sides: dict[str, Path], rows: int, rounds: int, transport: str) -> None:
    server = Postgres()
    costs: dict[tuple[str, str], list[float]] = {}
    try:
        with tempfile.TemporaryDirectory() as scratch:
            for number in range(rounds):
                server.run("drop table if exists orders")
                server.run(CREATE_ORDERS.format(name="orders", rows=rows))
                server.run("alter table orders add primary key (id)")
                server.run("create index on orders (created_at)")
                server.run("analyze orders")
                pipelines = {
                    side: write_pipeline(Path(scratch) / f"{side}-{number}", server, transport)
                    for side in sides
                }
                for work in ("full", "incremental"):
                    for side in sorted(sides, reverse=number % 2 == 1):
                        seconds = measure(sides[side], pipelines[side])
                        costs.setdefault((work, side), []).append(seconds)
                        print(f"{transport} {work} {side}: {seconds:.1f} s", flush=True)
                    server.run(CHANGE.format(number=number))
                    server.run("analyze orders")
    finally:
        server.stop()
    for work in ("full", "incremental"):
        here, there = (statistics.median(costs[work, side]) for side in sides)
        print(f"{transport} {work}: {here / there:.3f} of the other's time")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, help="the folder of the other installation's commands")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--transport", default="auto")
    options = parser.parse_args()
    sides = {"here": Path(sys.executable).parent, "other": options.other}
    compare(sides, options.rows, options.rounds, options.transport)


if __name__ == "__main__":
    main()
