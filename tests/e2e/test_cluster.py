"""A standalone cluster of processes: its workers are another user, and one of them is lost."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import boto3
import pyspark
import pytest
from moto.server import ThreadedMotoServer

from singer_spark.engine.java import find_java
from tests.support.commands import command, write_json
from tests.support.processes import IS_ROOT, NOBODY, are_gone, ids, until

pytestmark = pytest.mark.slow

ROWS = 6000
LOGIN = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
}


class Cluster:
    """A master and its workers, which share nothing with this process but the network."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"spark://127.0.0.1:{port}"
        ports = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        self._processes = [self._start("master.Master", *ports)]
        assert until(lambda: _listens(port), 60)
        self.workers = [self._start_worker(number) for number in range(2)]

    def _start_worker(self, number: int) -> subprocess.Popen[bytes]:
        work = self._folder / f"worker-{number}"
        work.mkdir()
        if IS_ROOT:
            os.chown(work, NOBODY, NOBODY)
        worker = self._start(
            "worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1",
            "--memory", "1g", "--work-dir", str(work), self.url,
            cwd=work, **({"user": NOBODY, "group": NOBODY, "extra_groups": []} if IS_ROOT else {}),
        )  # fmt: skip
        self._processes.append(worker)
        return worker

    def _start(self, name: str, *arguments: str, **options) -> subprocess.Popen[bytes]:
        home = Path(pyspark.__file__).parent
        java = [find_java().command, "-Xmx256m", "-cp", f"{home}/jars/*"]
        with (self._folder / f"{name}-{len([*self._folder.iterdir()])}.log").open("wb") as log:
            return subprocess.Popen(
                [*java, f"org.apache.spark.deploy.{name}", *arguments],
                env={**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"},
                stdout=log, stderr=log, start_new_session=True, **options,
            )  # fmt: skip

    def executors(self) -> list[Path]:
        """List what the workers have started."""
        return list(self._folder.glob("worker-*/app-*/*/stderr"))

    def stop(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def open_folder():
    """A folder that everybody can enter, as those of pytest are not."""
    folder = Path(tempfile.mkdtemp(prefix="cluster-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def bucket(monkeypatch):
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    endpoint = "http://{}:{}".format(*server.get_host_and_port())
    for name, value in {**LOGIN, "AWS_ENDPOINT_URL": endpoint}.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3").create_bucket(Bucket="lake")
    yield "lake"
    server.stop()


@pytest.fixture
def cluster(bucket, open_folder):
    known = Cluster(open_folder)
    yield known
    known.stop()


def test_a_run_that_loses_a_worker_ends_with_the_table_equal_to_the_source(
    alone, cluster, bucket, open_folder, tmp_path
):
    with sqlite3.connect(open_folder / "shop.db") as database:
        database.execute("create table orders (id integer primary key, name text)")
        rows = [(number, f"n{number}") for number in range(ROWS)]
        database.executemany("insert into orders values (?, ?)", rows)
    (open_folder / "shop.db").chmod(0o644)
    spark = {
        "spark_master": cluster.url,
        "spark_conf": {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "1g",
            "spark.executor.memory": "768m",
            "spark.sql.shuffle.partitions": "2",
            "spark.databricks.delta.snapshotPartitions": "2",
        },
    }
    document = {
        "name": "shop",
        "source": {
            "tap": "tap-spark-source",
            "config": {
                "source_url": f"jdbc:sqlite:{open_folder}/shop.db",
                "tables": ["main.orders"],
                "slice_rows": ROWS // 3,
                **spark,
            },
        },
        "destination": {
            "target": "target-spark-delta",
            "config": {"path": f"s3://{bucket}/bronze", "batch_size_rows": ROWS // 4, **spark},
        },
        "state": str(tmp_path / "state"),
    }
    pipeline = write_json(tmp_path / "shop.json", document)
    with (tmp_path / "log").open("wb") as log:
        run = subprocess.Popen(
            [command("singer-spark"), "run", pipeline], stdout=log, stderr=subprocess.STDOUT
        )

    def commits() -> list[str]:
        listed = boto3.client("s3").list_objects_v2(Bucket=bucket, Prefix="bronze/main_orders/")
        return [one["Key"] for one in listed.get("Contents", []) if one["Key"].endswith(".json")]

    assert until(lambda: run.poll() is not None or commits(), 400), (tmp_path / "log").read_text()
    assert len({path.parents[2] for path in cluster.executors()}) == 2, "both were at work"
    os.killpg(cluster.workers[0].pid, signal.SIGKILL)
    run.wait(400)
    assert run.returncode == 0, (tmp_path / "log").read_text()[-3000:]
    options = {
        "AWS_ENDPOINT_URL": os.environ["AWS_ENDPOINT_URL"],
        "AWS_ALLOW_HTTP": "true",
        "AWS_S3_ALLOW_UNSAFE_RENAME": "true",
    }
    assert ids(f"s3://{bucket}/bronze/main_orders", storage_options=options) == list(range(ROWS))
    assert are_gone()
