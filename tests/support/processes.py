"""Engines as processes: what a test has started, what is left of it, and as whom it runs."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from singer_spark.assignment import RUN_ID
from singer_spark.engine.place import dial, engine_folder, engines_of
from tests.support.commands import command, run, write_json
from tests.support.singer import lines, record, schema, state

NOBODY = 65534
IS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not IS_ROOT, reason="needs root, to be another user")
needs_mounts = pytest.mark.skipif(
    not IS_ROOT
    or not shutil.which("unshare")
    or subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode != 0,
    reason="needs the right to mount",
)
# A setting of its own keeps a test from the engine that others share.
OWN = {"spark_conf": {"spark.sql.shuffle.partitions": "1"}}


def engines() -> set[str]:
    """List the engines that this test has started; others run beside it."""
    found = engines_of(os.environ[RUN_ID])
    return {engine for engine in found if (engine_folder(engine) / "socket").exists()}


def until(condition: Callable[[], Any], seconds: float = 90.0) -> bool:
    """Wait until something is so; say whether it came to be."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.1)
    return bool(condition())


def are_gone(seconds: float = 90.0) -> bool:
    """Wait until no engine of this test is left."""
    return until(lambda: not engines(), seconds)


def ask(engine: str, question: str = "status") -> dict[str, Any]:
    """Ask the keeper of an engine."""
    with dial(engine) as connection, connection.makefile("r") as answers:
        connection.sendall(json.dumps({"ask": question}).encode() + b"\n")
        answer: dict[str, Any] = json.loads(answers.readline())
        return answer


def keeper_of(engine: str) -> int:
    """Find the process that keeps an engine."""
    return int(ask(engine)["pid"])


def java_of(engine: str) -> int:
    """Find the Java of an engine."""
    path = engine_folder(engine) / "jvm"
    assert until(lambda: path.exists() and path.read_text(), 30)
    return int(path.read_text())


def as_nobody(imports: str, code: str, *arguments: object) -> Any:
    """Run Python code as another user of this machine; return what it says in JSON.

    The code finds `say`, and the arguments in `sys.argv`. What it imports may lie where the other
    user cannot read, so that comes first.
    """
    become = f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})"
    # Names of hosts are read by a module that is loaded late.
    modules = "import encodings.idna, json, os, sys"
    start = f"{modules}\n{imports}\ndef say(it): print(json.dumps(it))\n{become}\n"
    done = subprocess.run(
        [sys.executable, "-c", start + textwrap.dedent(code), *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=120, cwd="/",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def listening(processes: Sequence[int]) -> set[tuple[str, int]]:
    """List the addresses and ports that processes listen on."""
    inodes = _sockets_of(processes)
    found = set()
    for family, file in ((socket.AF_INET, "tcp"), (socket.AF_INET6, "tcp6")):
        for line in Path(f"/proc/net/{file}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                address, port = fields[1].split(":")
                words = [bytes.fromhex(address[n : n + 8])[::-1] for n in range(0, len(address), 8)]
                found.add((socket.inet_ntop(family, b"".join(words)), int(port, 16)))
    return found


def unix_sockets(processes: Sequence[int]) -> set[str]:
    """List the names of the sockets that processes listen on, those without a file by an @."""
    inodes = _sockets_of(processes)
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return {one[7] for one in lines if len(one) > 7 and one[6] in inodes}


def _sockets_of(processes: Sequence[int]) -> set[str]:
    inodes = set()
    for process in processes:
        for path in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):
                if (place := str(path.readlink())).startswith("socket:["):
                    inodes.add(place[8:-1])
    return inodes


def with_mounts(mounts: Sequence[str], *arguments: str) -> list[str]:
    """Let a command see other file systems than the rest of the machine does.

    Args:
        mounts: What is given to `mount`, once for each.
        arguments: The command.
    """
    steps = [f"mount {mount}" for mount in mounts]
    return ["unshare", "-m", "sh", "-ec", "; ".join([*steps, f"exec {shlex.join(arguments)}"])]


def load_one(folder: Path, *, through: Callable[..., list[str]] = lambda *own: [*own], env=None,
             **config: Any) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Load one row into a folder; `through` may wrap the command."""
    path = write_json(folder / "target.json", {"path": str(folder / "lake"), **OWN, **config})
    messages = [schema("s", {"id": {"type": "integer"}}, ["id"]), record("s", {"id": 1})]
    return run(
        *through(command("target-spark-delta"), "--config", path), cwd=folder, env=env,
        input=lines([*messages, state({"at": 1})]),
    )  # fmt: skip


def make_shop(folder: Path, name: str = "shop", rows: int = 9, **settings: Any) -> Path:
    """Make a database and a pipeline that loads it; returns the pipeline's file."""
    with sqlite3.connect(folder / f"{name}.db") as database:
        database.execute("create table orders (id integer primary key, name text)")
        database.executemany(
            "insert into orders values (?, ?)", [(n, f"n{n}") for n in range(rows)]
        )
    spark = {key: settings.pop(key) for key in [*settings] if key.startswith("spark_")}
    tap = {"source_url": f"jdbc:sqlite:{folder}/{name}.db", "tables": ["main.orders"]}
    document = {
        "name": name,
        "source": {"tap": "tap-spark-source", "config": {**tap, **OWN, **spark}},
        "destination": {
            "target": "target-spark-delta",
            "config": {"path": str(folder / name), **OWN, **spark},
        },
        **settings,
    }
    return Path(write_json(folder / f"{name}.json", document))


def ids(location: Path | str, **options: Any) -> list[int]:
    """Return the keys of a table, as another engine reads it."""
    return sorted(DeltaTable(str(location), **options).to_pyarrow_table()["id"].to_pylist())
