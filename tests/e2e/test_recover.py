"""A lost state comes back from the tables' own commits, whatever carried the rows and wherever."""

from __future__ import annotations

import json

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.support.commands import WARM, command, run

AWS = {
    "AWS_ACCESS_KEY_ID": "the-key",
    "AWS_SECRET_ACCESS_KEY": "the-secret",
    "AWS_REGION": "us-east-1",
}
PIPELINE = """
name: shop
source:
  tap: tap-spark-source
  config:
    source_url: "csv:{source}"
    slice_rows: 2
    spark_conf: {tap_conf}
    stream_options:
      orders: {{key_properties: [id], replication_key: updated_at}}
      events: {{key_properties: [id]}}
destination:
  target: target-spark-delta
  config: {destination}
transport: {transport}
state: {state}
"""
DAY = "2024-01-0{}T00:00:00Z"


@pytest.fixture
def endpoint(monkeypatch):
    server = ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {**AWS, "AWS_ENDPOINT_URL": f"http://{host}:{port}"}.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3").create_bucket(Bucket="lake")
    yield
    server.stop()


def write_rows(folder, name, numbers):
    (folder / name).mkdir(parents=True, exist_ok=True)
    rows = "".join(f"{n},{DAY.format(n)}\n" for n in numbers)
    (folder / name / f"{min(numbers)}.csv").write_text("id,updated_at\n" + rows)


def singer_spark(*arguments):
    done = run(command("singer-spark"), *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("place", "transport"),
    [
        ("folder", "auto"),
        pytest.param("folder", "records", marks=pytest.mark.slow),
        pytest.param("s3", "auto", marks=pytest.mark.slow),
        pytest.param("catalog", "auto", marks=pytest.mark.slow),
        pytest.param("catalog", "records", marks=pytest.mark.slow),
    ],
)
def test_recover_gives_back_the_stored_state(place, transport, tmp_path, request, monkeypatch):
    if place == "s3":
        request.getfixturevalue("endpoint")
    source, lake = tmp_path / "shop", tmp_path / "lake"
    write_rows(source, "orders", [1, 2, 3, 4, 5])
    write_rows(source, "events", [1, 2, 3])
    conf = WARM["spark_conf"]
    destination = {
        "folder": {"path": str(lake), "spark_conf": conf},
        "s3": {"path": "s3a://lake/bronze", "spark_conf": conf},
        "catalog": {
            "catalog": "spark_catalog",
            "default_target_schema": "bronze",
            "spark_conf": {**conf, "spark.sql.warehouse.dir": str(lake)},
        },
    }[place]
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "shop.yml"
    path.write_text(
        PIPELINE.format(
            source=source,
            tap_conf=json.dumps(conf),
            destination=json.dumps(destination),
            transport=transport,
            state=tmp_path / "state",
        )
    )
    # A second load is where bookmarks used to be stale; it is tried once.
    for number in range(2 if (place, transport) == ("folder", "auto") else 1):
        if number:
            write_rows(source, "orders", [6, 7])
        singer_spark("run", path)
        stored = json.loads(singer_spark("state", "get", path))
        assert set(stored["bookmarks"]) >= {"orders"}
        singer_spark("state", "delete", path, "--yes")
        singer_spark("state", "recover", path, "--yes")
        assert json.loads(singer_spark("state", "get", path)) == stored
