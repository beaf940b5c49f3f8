"""A run that sleeps through the end of its lock, as real commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.bench import is_running
from tests.support.shop import TAP, await_pids, make_folder, singer_spark, store, write

FOREVER = """
note(str(os.getpid()))
while not os.path.exists("go-on"): time.sleep(0.05)
open("run-file", "w").write(open(os.environ["SINGER_SPARK_RUN_FILE"]).read())
"""


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    make_folder(tmp_path, monkeypatch)
    monkeypatch.setenv("SINGER_SPARK_LOCK_PACE", "0.02")


def test_the_next_run_takes_over_claims_and_the_first_stops_when_it_wakes():
    write("tap-fake", FOREVER + TAP)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    first = singer_spark("run", "orders", **pipes)
    (tap,) = await_pids("tap-fake")
    os.kill(first.pid, signal.SIGSTOP)
    try:
        assert singer_spark("run", "orders", **pipes).wait(60) == 75  # it looks alive
        time.sleep(6.5)
        Path("go-on").touch()
        second = singer_spark("run", "orders", **pipes)
        out, err = second.communicate(timeout=60)
    finally:
        os.kill(first.pid, signal.SIGCONT)
    assert second.returncode == 0, err
    assert "Watching the lock of process" in out
    assert "Took over the lock of a dead run" in out
    assert json.loads(Path("run-file").read_text())["claims"] is True
    assert store().get("orders").run_count == 1

    _, err = first.communicate(timeout=60)
    assert first.returncode == 75, err
    assert "this run lost its lock" in err
    assert not is_running(tap)
    assert store().get("orders").run_count == 1


def test_a_run_whose_store_is_out_of_reach_ends_itself():
    write("tap-fake", FOREVER + TAP)
    process = singer_spark("run", "orders", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    (tap,) = await_pids("tap-fake")
    root = Path("lake/.singer-spark/state")
    root.rename("away")
    root.write_text("no folder")
    _, err = process.communicate(timeout=60)

    assert process.returncode == 75, err
    assert "no heartbeat for 3.6 s: the state store is out of reach" in err
    assert not is_running(tap)
