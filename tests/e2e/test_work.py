"""A guard that counts work, not seconds: the jobs of Spark that a run costs, and its JVMs.

Seconds differ between machines; the work is the same everywhere. A limit is what was measured
when it was set: lower it when a change saves work, and do not raise it without a reason.
"""

from __future__ import annotations

import json
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from singer_spark.engine.lease import ENGINE
from singer_spark.engine.registry import dial, shared_engines
from tests.support.commands import command, run, write_json
from tests.support.work import Client, clients, logged

ROWS = 2_000
IDLE = {"SINGER_SPARK_ENGINE_IDLE": "5m"}
# Jobs of the target for a batch, of the tap for a stream, and once for all that it describes.
MERGED, UNCHANGED, APPENDED, MADE = 8, 3, 8, 3
STREAM, DESCRIBED = 2, 1
# Tasks of the target for a batch; bytes that it reads and writes, and that the tap fetches.
TASKS = {"made": 6, "merged": 20, "unchanged": 8, "appended": 18}
READ = {"made": 4_000, "merged": 16_000, "unchanged": 14_000, "appended": 18_000}
WRITTEN = {"made": 20_000, "merged": 26_000, "unchanged": 2_000, "appended": 4_000}
FETCHED = 30_000


@dataclass
class Run:
    """One run of a pipeline: who asked Spark for what."""

    tap: Client
    target: Client | None = None

    def loaded(self) -> Client:
        assert self.target, "the target asked Spark for nothing"
        return self.target


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
        self._pipeline("lines", {}, {"path": str(folder / "other")}, table="orders", by="records")
        self._pipeline("visits", {"stream_options": by_key}, {"load_method": "append-only"})
        self._spans: dict[str, tuple[float, float]] = {}

    def _pipeline(
        self, name: str, tap: dict, target: dict, *, table: str = "", by: str = "batch"
    ) -> None:
        spark, table = {"spark_conf": logged(self.log)}, table or name
        source = f"jdbc:sqlite:{self.folder / 'shop.db'}"
        tap = {"source_url": source, "tables": [f"main.{table}"], **tap, **spark}
        target = {"path": str(self.folder / "lake"), **target, **spark}
        whole = {
            "name": name,
            "transport": by,
            "source": {"tap": "tap-spark-source", "config": tap},
            "destination": {"target": "target-spark-delta", "config": target},
        }
        write_json(self.folder / f"{name}.yml", whole)

    def add(self, table: str, first: int, count: int) -> None:
        rows = [(n, f"name {n}", n) for n in range(first, first + count)]
        with self.database:
            self.database.executemany(f"insert into {table} values (?, ?, ?)", rows)

    def run(self, name: str, pipeline: str, env: dict[str, str]) -> None:
        start = time.time()
        done = run(command("singer-spark"), "run", f"{pipeline}.yml", cwd=self.folder, env=env)
        assert done.returncode == 0, done.stderr
        self._spans[name] = start, time.time()

    def pipe(self, pipeline: str) -> None:
        """Run tap and target of a pipeline in a plain pipe."""
        whole = json.loads((self.folder / f"{pipeline}.yml").read_text())
        tap = write_json(self.folder / "tap.json", whole["source"]["config"])
        target = write_json(self.folder / "target.json", whole["destination"]["config"])
        line = f"{command('tap-spark-source')} --config {tap} "
        line += f"| {command('target-spark-delta')} --config {target}"
        done = run("sh", "-c", line, cwd=self.folder)
        assert done.returncode == 0, done.stderr

    def change(self) -> None:
        """Change five rows, and add one."""
        with self.database:
            self.database.execute("update orders set name = name || '!' where id < 5")
            (last,) = self.database.execute("select max(id) from orders").fetchone()
        self.add("orders", last + 1, 1)

    def starts(self) -> int:
        """Count the JVMs that have started: each has a log of its own."""
        return len(list(self.log.iterdir()))

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
        bench.private_starts = bench.starts()
        bench.change()
        bench.run("merged", "orders", IDLE)
        bench.run("unchanged", "orders", IDLE)
        bench.run("first visits", "visits", IDLE)
        bench.add("visits", ROWS, 5)
        bench.run("appended", "visits", IDLE)
        bench.run("nothing", "visits", IDLE)
        bench.run("made of lines", "lines", IDLE)
        bench.change()
        bench.run("merged of lines", "lines", IDLE)
        for engine in set(shared_engines()) - set(others):
            with dial(engine) as connection:
                connection.sendall(b'{"ask": "end"}\n')
                connection.makefile().read()  # it closes when it has ended
        bench.shared_starts = bench.starts() - bench.private_starts
        bench.pipe("orders")
        bench.pipe_starts = bench.starts() - bench.private_starts - bench.shared_starts
        yield bench


@pytest.fixture(scope="module")
def runs(bench):
    return bench.runs()


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("made", MADE),
        ("merged", MERGED),
        ("unchanged", UNCHANGED),
        ("appended", APPENDED),
        ("made of lines", MADE),
        ("merged of lines", MERGED),
    ],
)
def test_jobs_of_a_batch(runs, name, limit):
    target = runs[name].loaded()
    assert len(target.jobs) <= limit, f"\n{target}"


@pytest.mark.parametrize("name", ["made", "merged", "unchanged", "appended", "made of lines"])
def test_jobs_of_a_stream_of_the_tap(runs, name):
    tap = runs[name].tap
    assert len(tap.jobs) <= STREAM + DESCRIBED, f"\n{tap}"


@pytest.mark.parametrize("name", TASKS)
def test_tasks_and_bytes_of_a_batch(runs, name):
    target = runs[name].loaded()
    assert sum(job.tasks for job in target.jobs) <= TASKS[name], f"\n{target}"
    assert sum(job.read for job in target.jobs) <= READ[name], f"\n{target}"
    assert sum(job.written for job in target.jobs) <= WRITTEN[name], f"\n{target}"


@pytest.mark.parametrize("name", ["made", "merged", "unchanged"])
def test_no_row_of_the_files_lane_passes_python(runs, name):
    tap = runs[name].tap
    assert sum(job.fetched for job in tap.jobs) < FETCHED < sum(job.written for job in tap.jobs)


def test_where_nothing_is_new_the_target_asks_spark_for_nothing(runs):
    assert runs["nothing"].target is None
    assert len(runs["nothing"].tap.jobs) <= STREAM + DESCRIBED, f"\n{runs['nothing'].tap}"


def test_a_run_starts_one_jvm_and_runs_of_a_warm_engine_start_none(bench):
    assert bench.private_starts == 1
    assert bench.pipe_starts == 1, "for both sides"
    assert bench.shared_starts == 1, "for all seven runs"
