"""Engines of real processes: shared by both sides, gone with them, and what a kill leaves."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time

import pytest
from deltalake import DeltaTable

from tests.support.commands import command, only_line, run, write_json
from tests.support.processes import OWN, are_gone, engines, keeper_of
from tests.support.singer import lines, record, schema, state

ID = {"id": {"type": "integer"}}


@pytest.fixture
def shop(tmp_path):
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("create table orders (id integer primary key, name text)")
        database.executemany("insert into orders values (?, ?)", [(n, f"n{n}") for n in range(9)])
    # Relative to the folder of the command, which is not the engine's.
    tap = {"source_url": "jdbc:sqlite:shop.db", "tables": ["main.orders"], **OWN}
    write_json(tmp_path / "tap.json", tap)
    write_json(tmp_path / "target.json", {"path": str(tmp_path / "lake"), **OWN})
    return tmp_path


def rows(folder) -> list[int]:
    table = DeltaTable(str(folder / "lake" / "main_orders"))
    return sorted(table.to_pyarrow_table()["id"].to_pylist())


def test_both_sides_of_a_pipe_share_one_engine_which_goes_with_them(alone, shop):
    tap = subprocess.Popen(
        [command("tap-spark-source"), "--config", "tap.json"],
        cwd=shop, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with (shop / "seen").open("wb") as seen:
        tee = subprocess.Popen(
            ["tee", "/dev/fd/2"], stdin=tap.stdout, stdout=subprocess.PIPE, stderr=seen
        )
    target = subprocess.Popen(
        [command("target-spark-delta"), "--config", "target.json"],
        cwd=shop, stdin=tee.stdout, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    most = 0
    while target.poll() is None:
        most = max(most, len(engines()))
        time.sleep(0.05)
    assert (tap.wait(), target.returncode) == (0, 0)
    assert rows(shop) == list(range(9))
    assert most == 1
    said = json.loads((shop / "seen").read_text().splitlines()[0])["singer_spark"]
    assert said["engine"].startswith("engine-")
    assert are_gone()


def test_what_goes_to_a_file_names_no_engine(alone, shop):
    with (shop / "out").open("wb") as out:
        subprocess.run(
            [command("tap-spark-source"), "--config", "tap.json"], cwd=shop, stdout=out,
            stderr=subprocess.DEVNULL, check=True,
        )  # fmt: skip
    assert "engine" not in (shop / "out").read_text()


def test_a_shared_engine_serves_run_after_run_until_it_is_stopped(alone, shop):
    document = {
        "name": "shop",
        "source": {
            "tap": "tap-spark-source",
            "config": json.loads((shop / "tap.json").read_text()),
        },
        "destination": {
            "target": "target-spark-delta",
            "config": json.loads((shop / "target.json").read_text()),
        },
        "engine_idle": "10m",
    }
    write_json(shop / "shop.json", document)
    for _ in range(2):
        done = run(command("singer-spark"), "run", "shop.json", cwd=shop)
        assert done.returncode == 0, done.stderr
        assert len(engines()) == 1
    assert rows(shop) == list(range(9))
    (engine,) = engines()
    listed = json.loads(run(command("singer-spark"), "engine", "status", "--json").stdout)
    assert [one["leases"] for one in listed if one["engine"] == engine] == [0]
    assert engine in run(command("singer-spark"), "engine", "stop").stdout
    assert are_gone(10)


def test_a_target_whose_engine_is_killed_says_so_and_ends(alone, shop):
    target = subprocess.Popen(
        [command("target-spark-delta"), "--config", "target.json"],
        cwd=shop, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    first = [schema("s", ID, ["id"]), record("s", {"id": 1}), state({"at": 1})]
    target.stdin.write(lines(first))
    target.stdin.flush()
    deadline = time.monotonic() + 60
    while not engines() and time.monotonic() < deadline:
        time.sleep(0.1)
    (engine,) = engines()
    os.kill(keeper_of(engine), signal.SIGKILL)
    _, error = target.communicate(lines([record("s", {"id": 2}), state({"at": 2})]), timeout=120)
    assert target.returncode == 75, error
    assert "it was killed; run again" in only_line(error)
    done = run(
        command("target-spark-delta"), "--config", "target.json", cwd=shop,
        input=lines([*first, record("s", {"id": 2}), state({"at": 2})]),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {"at": 2}
    assert sorted(DeltaTable(str(shop / "lake" / "s")).to_pyarrow_table()["id"].to_pylist()) == [
        1,
        2,
    ]
    assert are_gone()
