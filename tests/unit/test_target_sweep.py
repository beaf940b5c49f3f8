"""What killed runs leave on disk and beside the tables goes with the next run, and nothing else."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import time

import boto3
import pytest
from moto import mock_aws

from singer_spark.assignment import RUN_FILE, Assignment
from target_spark_delta.target import TargetSparkDelta
from tests.support.singer import lines, schema, state

USERS = schema("users", {"id": {"type": "integer"}}, ["id"])
LEFT = ("_singer_spark/staging/shop/users_0/a", "_singer_spark/spool/shop/run_1/b")
KEPT = ("_singer_spark/staging/other/users_0/a", "_singer_spark/spool/run_1/b", "users/c")
SPOOLS = """
import sys, time
from target_spark_delta.intake.segments import make_folder
folder = make_folder(sys.argv[1], prefix="target-spark-delta-")
(folder / "1.jsonl").write_text("rows")
print(folder, flush=True)
time.sleep(60)
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Let a run find nothing new."""

    def run(path, **told):
        assignment = Assignment(run_id="run-2", pipeline="shop", **told)
        (tmp_path / "run.json").write_text(assignment.to_json())
        monkeypatch.setenv(RUN_FILE, str(tmp_path / "run.json"))
        monkeypatch.setenv("SINGER_SPARK_PIPELINE", "shop")
        monkeypatch.setattr(TargetSparkDelta, "_engine", None)
        target = TargetSparkDelta(config={"path": path})
        target.listen(io.StringIO(lines([USERS, state(1)])))

    return run


def test_beside_tables_in_a_folder(run, tmp_path):
    lake = tmp_path / "lake"
    for name in (*LEFT, *KEPT):
        (lake / name).parent.mkdir(parents=True, exist_ok=True)
        (lake / name).write_text("rows")
    run(str(lake))
    assert all((lake / name).exists() for name in (*LEFT, *KEPT)), "nobody holds a lock"
    run(str(lake), generation=3)
    assert not any((lake / name).exists() for name in LEFT)
    assert all((lake / name).exists() for name in KEPT)


@mock_aws
def test_beside_tables_in_s3(run, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    client = boto3.client("s3")
    client.create_bucket(Bucket="lake")
    for name in (*LEFT, *KEPT):
        client.put_object(Bucket="lake", Key=f"bronze/{name}", Body=b"rows")
    run("s3a://lake/bronze", generation=3)
    found = client.list_objects_v2(Bucket="lake")["Contents"]
    assert sorted(one["Key"] for one in found) == sorted(f"bronze/{name}" for name in KEPT)


def test_spools_of_processes_that_were_killed(tmp_path):
    def start():
        command = [sys.executable, "-c", SPOOLS, str(tmp_path)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        return process, process.stdout.readline().strip()

    killed, left = start()
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    time.sleep(0.1)
    living, kept = start()
    another, _ = start()
    found = {str(path) for path in tmp_path.glob("target-spark-delta-*")}
    for process in (living, another):
        process.kill()
        process.wait()
    assert left not in found
    assert kept in found
