"""A guard that counts work, not seconds: the jobs of Spark that a run costs, and its JVMs.

Seconds differ between machines; the work is the same everywhere. A limit is what was measured
when it was set: lower it when a change saves work, and do not raise it without a reason.
"""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from singer_spark.engine.lease import ENGINE
from singer_spark.engine.place import dial, shared_engines
from tests.support.commands import command, run, write_json
from tests.support.work import Client, clients, logged

ROWS = 2_000
IDLE = {"SINGER_SPARK_ENGINE_IDLE": "5m"}
# Jobs of the target for a batch, and of the tap for a stream.
MERGED, UNCHANGED, APPENDED, MADE = 14, 4, 12, 5
STREAM = 3
TASKS_OF_MERGED, TASKS_OF_UNCHANGED = 20, 8


@dataclass
class Run:
    """One run of a pipeline: who asked Spark for what."""

    tap: Client
    target: Client


class Bench:
    """Two pipelines of one database, whose engines log what they do."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "log"
        self.database = sqlite3.connect(folder / "shop.db")
        for table in ("orders", "visits"):
            self.database.execute(
                f"create table {table} (id integer primary key, name text, seen integer not null)"
            )
            self.add(table, 0, ROWS)
        by_key = {"main-visits": {"replication_key": "seen", "lookback": 10}}
        self._pipeline("orders", {}, {})
        self._pipeline("visits", {"stream_options": by_key}, {"load_method": "append-only"})
        self._spans: dict[str, tuple[float, float]] = {}

    def _pipeline(self, table: str, tap: dict, target: dict) -> None:
        spark = {"spark_conf": logged(self.log)}
        source = f"jdbc:sqlite:{self.folder / 'shop.db'}"
        tap = {"source_url": source, "tables": [f"main.{table}"], **tap, **spark}
        target = {"path": str(self.folder / "lake"), **target, **spark}
        whole = {
            "name": table,
            "transport": "batch",
            "source": {"tap": "tap-spark-source", "config": tap},
            "destination": {"target": "target-spark-delta", "config": target},
        }
        write_json(self.folder / f"{table}.yml", whole)

    def add(self, table: str, first: int, count: int) -> None:
        rows = [(n, f"name {n}", n) for n in range(first, first + count)]
        with self.database:
            self.database.executemany(f"insert into {table} values (?, ?, ?)", rows)

    def run(self, name: str, table: str, env: dict[str, str]) -> None:
        start = time.time()
        done = run(command("singer-spark"), "run", f"{table}.yml", cwd=self.folder, env=env)
        assert done.returncode == 0, done.stderr
        self._spans[name] = start, time.time()

    def runs(self) -> dict[str, Run]:
        """Find the clients of each run: the tap is the first that asks for something."""
        known = [client for log in self.log.iterdir() for client in clients(log)]
        return {
            name: Run(*(c for c in known if start <= c.jobs[0].submitted <= end))
            for name, (start, end) in self._spans.items()
        }


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """Run each kind of batch once: all but the first on one warm engine."""
    others = shared_engines()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(ENGINE, raising=False)
        bench = Bench(tmp_path_factory.mktemp("work"))
        bench.run("made", "orders", {})
        bench.private_starts = len(list(bench.log.iterdir()))
        with bench.database:
            bench.database.execute("update orders set name = 'changed' where id < 5")
        bench.add("orders", ROWS, 1)
        bench.run("merged", "orders", IDLE)
        bench.run("unchanged", "orders", IDLE)
        bench.run("first visits", "visits", IDLE)
        bench.add("visits", ROWS, 5)
        bench.run("appended", "visits", IDLE)
        for engine in set(shared_engines()) - set(others):
            with dial(engine) as connection:
                connection.sendall(b'{"ask": "end"}\n')
                connection.makefile().read()  # it closes when it has ended
        bench.shared_starts = len(list(bench.log.iterdir())) - bench.private_starts
        yield bench


@pytest.fixture(scope="module")
def runs(bench):
    return bench.runs()


@pytest.mark.parametrize(
    ("name", "limit"),
    [("made", MADE), ("merged", MERGED), ("unchanged", UNCHANGED), ("appended", APPENDED)],
)
def test_jobs_of_a_batch(runs, name, limit):
    target = runs[name].target
    assert len(target.jobs) <= limit, f"\n{target}"


@pytest.mark.parametrize("name", ["made", "merged", "unchanged", "appended"])
def test_jobs_of_a_stream_of_the_tap(runs, name):
    tap = runs[name].tap
    assert len(tap.jobs) <= STREAM, f"\n{tap}"


@pytest.mark.parametrize(
    ("name", "limit"), [("merged", TASKS_OF_MERGED), ("unchanged", TASKS_OF_UNCHANGED)]
)
def test_tasks_of_a_batch(runs, name, limit):
    target = runs[name].target
    assert sum(job.tasks for job in target.jobs) <= limit, f"\n{target}"


def test_an_unchanged_batch_writes_no_row(runs):
    written = sum(job.written for job in runs["unchanged"].target.jobs)
    assert written < 2_000, "an empty file that says so"


def test_a_run_starts_one_jvm_and_runs_of_a_warm_engine_start_none(bench):
    assert bench.private_starts == 1
    assert bench.shared_starts == 1, "for all four runs"
