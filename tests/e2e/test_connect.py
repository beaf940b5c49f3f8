"""Tap and target on a real Spark Connect server, one setting apart from a session of their own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from pathlib import Path

import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect.client import SparkConnectClient
from pyspark.sql.connect.proto import base_pb2

from singer_spark.engine.connect import _channel, _prefix, _user_of
from singer_spark.engine.jars import DELTA, resolve
from singer_spark.engine.registry import private_folder
from tests.support.commands import command, only_line, run, write_json
from tests.support.processes import until
from tests.support.singer import Loaded, lines, record, schema, state

pytestmark = pytest.mark.slow

PROPERTIES = {
    "id": {"type": "integer"},
    "at": {"type": ["string", "null"], "format": "date-time"},
    "tags": {"type": "array", "items": {"type": "string"}},
}


@pytest.fixture(scope="module")
def remote():
    """A Connect server with Delta, as an operator would start one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = Path(pyspark.__file__).parent
    conf = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.connect.grpc.binding.port": port,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": 2,
        "spark.databricks.delta.snapshotPartitions": 2,
        "spark.driver.extraClassPath": os.pathsep.join(map(str, resolve([DELTA]))),
    }
    server = subprocess.Popen(
        [
            home / "bin" / "spark-submit",
            "--class",
            "org.apache.spark.sql.connect.service.SparkConnectServer",
            *(part for key, value in conf.items() for part in ("--conf", f"{key}={value}")),
            "spark-internal",
        ],
        env={**os.environ, "SPARK_HOME": str(home)},
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(120):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(1)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(60)


def test_a_connect_server_merges_and_reads(remote, tmp_path):
    lake = Loaded(tmp_path / "lake")
    config = write_json(tmp_path / "target.json", {**lake.config, "spark_remote": remote})

    def load(*messages):
        text = lines([schema("orders", PROPERTIES, ["id"]), *messages])
        return run(command("target-spark-delta"), "--config", config, input=text)

    moment = "2024-01-01T00:00:00.123456+00:00"
    first = [record("orders", {"id": n, "at": moment, "tags": ["a"]}) for n in (1, 2)]
    done = load(*first, state({"bookmarks": {"orders": {"n": 2}}}))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"bookmarks": {"orders": {"n": 2}}}
    done = load(record("orders", {"id": 2, "at": None, "tags": []}), *first[:1])
    assert done.returncode == 0, done.stderr
    rows = lake.rows("orders")
    assert [(row["id"], row["at"] is None, row["tags"]) for row in rows] == [
        (1, False, ["a"]),
        (2, True, []),
    ]

    late = moment.replace(".123456", ".1234567")
    done = load(record("orders", {"id": 3, "at": late, "tags": []}))
    assert done.returncode == 65
    assert "line 2: at: " in only_line(done.stderr)

    source = {"source_url": f"delta:{lake.root}", "spark_remote": remote, "tables": ["orders"]}
    done = run(command("tap-spark-source"), "--config", write_json(tmp_path / "tap.json", source))
    assert done.returncode == 0, done.stderr
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    found = sorted(
        (m["record"]["id"], m["record"]["at"]) for m in messages if m["type"] == "RECORD"
    )
    assert found == [(1, moment), (2, None)]


CLIENT = """
import os, sys
from singer_spark.engine.session import open_session
from singer_spark.settings import SparkSettings
spark = open_session(SparkSettings.from_config({"spark_remote": sys.argv[1]}))
print(spark.session_id, flush=True)
if sys.argv[2] == "fail":
    raise SystemExit("failed")
if sys.argv[2] == "work":
    spark.sql("select sum(hash(id)) from range(0, 400000000000, 1, 20000)").collect()
"""


def client(remote: str, doing: str) -> tuple[subprocess.Popen[str], str]:
    """Start a client of a server; return it with the id of its session."""
    process = subprocess.Popen(
        [command("python"), "-c", CLIENT, remote, doing],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    return process, process.stdout.readline().strip()


def states(remote: str, session: str) -> list[int] | None:
    """Ask what a session is doing, None if there is none."""
    asking = SparkConnectClient(_channel(remote, session, _user_of(remote)))
    try:
        return [one.state for one in asking._get_operation_statuses().operation_statuses]
    except PySparkException:
        return None
    finally:
        asking.close()


@pytest.mark.parametrize("doing", ["end", "fail"])
def test_a_session_is_released_at_the_end_however_it_comes(remote, doing):
    process, session = client(remote, doing)
    assert session
    process.wait(60)
    assert states(remote, session) is None
    assert not list(private_folder().glob(f"{_prefix(remote)}*"))


def test_what_a_killed_client_left_running_ends_before_its_successor_begins(remote):
    process, session = client(remote, "work")
    running = base_pb2.GetStatusResponse.OperationStatus.OPERATION_STATE_RUNNING
    assert until(lambda: running in (states(remote, session) or []))
    process.kill()
    process.wait()
    time.sleep(1)
    assert running in states(remote, session), "the server does not notice"
    successor, _ = client(remote, "end")
    assert states(remote, session) is None
    successor.wait(60)
    assert not list(private_folder().glob(f"{_prefix(remote)}*"))
