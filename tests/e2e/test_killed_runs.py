"""Runs that are killed at any moment: the next one that succeeds makes the tables the source.

A database is changed, a run is started and killed, and so on; then one run is left to its end. What
the tables hold is compared with the source by another engine, for every way of loading that cannot
fall back on a key.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from deltalake import DeltaTable

from singer_spark.engine.lease import ENGINE
from tests.support.commands import WARM, command, left_in

KILLS = 3
INCREMENTAL = {"default_replication_method": "INCREMENTAL", "default_replication_key": "at"}
PIPELINES = {
    "merged by a key": ("primary key", INCREMENTAL, {}),
    "appended by a replication key": ("", INCREMENTAL, {}),
    "appended with a lookback": ("", {**INCREMENTAL, "lookback": 5}, {}),
    "replaced by each full read": ("", {}, {}),
    "replaced in ranges": (
        "primary key",
        INCREMENTAL,
        {"load_method": "delete-insert", "stream_options": {"*": {"range_column": "at"}}},
    ),
}
# How long a run may take in which somebody is to be killed.
DURATION = {"shared": 7.0, "private": 22.0}
CASES = [
    *((kind, transport, "shared") for kind in PIPELINES for transport in ("records", "batch")),
    ("merged by a key", "batch", "private"),
    ("appended by a replication key", "records", "private"),
]


class Database:
    """A table whose rows are only ever added, with times that never go back."""

    def __init__(self, path: Path, key: str) -> None:
        self.path = path
        self._at = 0
        self.execute(f"create table t (id integer {key}, v text, at integer)")

    def execute(self, *statements: str) -> None:
        connection = sqlite3.connect(self.path)
        with connection:
            for statement in statements:
                connection.execute(statement)
        connection.close()

    def grow(self, chance: random.Random) -> None:
        for _ in range(chance.randrange(1, 40)):
            self._at += chance.randrange(2)
            self.execute(f"insert into t select count(*), 'v{self._at}', {self._at} from t")

    def rows(self) -> Counter:
        connection = sqlite3.connect(self.path)
        rows = Counter(connection.execute("select id, v, at from t").fetchall())
        connection.close()
        return rows


def start(pipeline: Path, engine: str) -> subprocess.Popen:
    env = {**os.environ, "TMPDIR": str(pipeline.parent / "tmp")}
    if engine == "private":
        del env[ENGINE]
    return subprocess.Popen(
        [command("singer-spark"), "run", pipeline],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=env,
    )


def children_of(pid: int) -> list[int]:
    listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in listed.stdout.split()]


def family(pid: int) -> list[int]:
    """List a runner and those it has started: tap and target, keeper and Java if they are its."""
    return [pid, *(one for child in children_of(pid) for one in family(child))]


def kill_someone(process: subprocess.Popen, seconds: float, chance: random.Random) -> None:
    """Kill the runner, or one of those that it has started, without a warning."""
    time.sleep(chance.uniform(0.3, seconds))
    for victim in chance.sample(family(process.pid), 1):
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
    process.communicate(timeout=120)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("kind", "transport", "engine"), CASES)
def test_after_kills_a_run_that_succeeds_makes_the_table_the_source(
    tmp_path, kind, transport, engine, record_property
):
    seed = int(os.environ.get("KILL_SEED", "0")) or random.SystemRandom().randrange(10**6)
    record_property("KILL_SEED", seed)
    chance = random.Random(seed)  # noqa: S311 - nothing secret
    key, tap, target = PIPELINES[kind]
    database = Database(tmp_path / "source.db", key)
    (tmp_path / "tmp").mkdir()
    document = {
        "name": "killed",
        "source": {
            "tap": command("tap-spark-source"),
            "config": {"source_url": f"jdbc:sqlite:{database.path}", "slice_rows": 7,
                       **tap, **WARM},
        },
        "destination": {
            "target": command("target-spark-delta"),
            "config": {"path": str(tmp_path / "lake"), "batch_size_rows": 5, **target, **WARM},
        },
        "transport": transport,
    }  # fmt: skip
    pipeline = tmp_path / "killed.yml"
    pipeline.write_text(json.dumps(document))
    for _ in range(KILLS):
        database.grow(chance)
        kill_someone(start(pipeline, engine), DURATION[engine], chance)
    for _ in range(2):
        database.grow(chance)
        process = start(pipeline, engine)
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, f"KILL_SEED={seed}\n{output[-3000:]}"
        table = DeltaTable(tmp_path / "lake" / "main_t").to_pyarrow_table().to_pylist()
        assert Counter((row["id"], row["v"], row["at"]) for row in table) == database.rows(), seed
    assert left_in(tmp_path / "tmp") == [], "the last run leaves nothing behind"
