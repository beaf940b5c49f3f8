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

from singer_spark.engine.jars import DELTA, resolve
from tests.support.commands import command, only_line, run, write_json
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
