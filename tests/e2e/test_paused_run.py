"""A run that sleeps through the end of its lock must not write over its successor."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.support.commands import WARM, command, run

TAP = f"""\
#!{sys.executable}
import json, os, pathlib, time
folder, version = pathlib.Path(__file__).parent, os.environ["VERSION"]
def say(**message):
    print(json.dumps(message), flush=True)
say(type="SCHEMA", stream="t", key_properties=["id"], schema={{"properties": {{
    "id": {{"type": "integer"}}, "v": {{"type": "string"}}}}}})
def rows(value):
    for number in range(5):
        say(type="RECORD", stream="t", record={{"id": number, "v": value}})
def wait_for(name):
    while not (folder / name).exists():
        time.sleep(0.05)
rows(version)
if version == "old":
    # Spark is warm when these come, so that they would be committed in a moment.
    wait_for("warm")
    rows("older than new")
    (folder / "sent").touch()
    wait_for("go")
say(type="STATE", value={{"bookmarks": {{"t": {{"version": version}}}}}})
"""


def family(pid: int) -> list[int]:
    """List a process and all that it has started."""
    listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [pid, *(one for child in listed.stdout.split() for one in family(int(child)))]


def send(signum: int, pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signum)


def values(folder: Path) -> list[str]:
    rows = DeltaTable(folder / "lake" / "t").to_pyarrow_table().to_pylist()
    return [row["v"] for row in rows]


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.slow
def test_a_run_that_wakes_up_after_its_successor_ended_changes_nothing(tmp_path):
    tap = tmp_path / "tap-fake"
    tap.write_text(textwrap.dedent(TAP))
    tap.chmod(0o755)
    config = {"path": str(tmp_path / "lake"), "batch_wait_seconds": 1, **WARM}
    document = {
        "name": "paused",
        "source": {"tap": str(tap), "config": {}},
        "destination": {"target": command("target-spark-delta"), "config": config},
        "transport": "records",
    }
    pipeline = tmp_path / "paused.yml"
    pipeline.write_text(json.dumps(document))

    def load(version: str) -> dict[str, str]:
        return {"VERSION": version}

    first = run(command("singer-spark"), "run", pipeline, env=load("first"))
    assert first.returncode == 0, first.stderr
    sleeper = subprocess.Popen(
        [command("singer-spark"), "run", pipeline],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **load("old")},
    )
    wait_until(lambda: values(tmp_path) == ["old"] * 5)
    (tmp_path / "warm").touch()
    wait_until((tmp_path / "sent").exists)
    asleep = family(sleeper.pid)
    send(signal.SIGSTOP, asleep)
    ended = run(command("singer-spark"), "unlock", pipeline, "--yes")
    assert ended.returncode == 0, ended.stderr
    successor = run(command("singer-spark"), "run", pipeline, env=load("new"))
    assert successor.returncode == 0, successor.stderr

    # The target first, alone: its runner would only end it.
    others = [pid for pid in asleep if pid != sleeper.pid]
    send(signal.SIGCONT, others)
    time.sleep(20)
    assert values(tmp_path) == ["new"] * 5
    send(signal.SIGCONT, [sleeper.pid])
    (tmp_path / "go").touch()
    output, _ = sleeper.communicate(timeout=120)
    assert sleeper.returncode == 75, output[-3000:]
    assert values(tmp_path) == ["new"] * 5
    stored = run(command("singer-spark"), "state", "get", pipeline)
    assert json.loads(stored.stdout)["bookmarks"]["t"] == {"version": "new"}
