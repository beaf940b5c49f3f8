"""State and tables in an S3 store: a real endpoint, Spark's own client and boto3."""

from __future__ import annotations

import gzip
import json

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from moto.server import ThreadedMotoServer

from tests.support.commands import WARM, command, run, write_json
from tests.support.singer import Loaded, batch, lines, schema, state

AWS = {
    "AWS_ACCESS_KEY_ID": "the-key",
    "AWS_SECRET_ACCESS_KEY": "the-secret",
    "AWS_REGION": "eu-central-1",
}
PIPELINE = """
name: shop
source:
  tap: tap-spark-source
  config:
    source_url: "csv:{source}"
    spark_conf: {spark_conf}
    batch_config: {{encoding: {{format: parquet}}, storage: {{root: "s3://{bucket}/batches"}}}}
    stream_options:
      orders: {{key_properties: [id], replication_key: updated_at}}
destination: {{bucket: "s3://{bucket}", path: bronze}}
"""


@pytest.fixture
def endpoint():
    server = ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.mark.parametrize("runs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_pipeline_keeps_tables_and_state_in_a_bucket(endpoint, tmp_path, monkeypatch, runs):
    for name, value in {**AWS, "AWS_ENDPOINT_URL": endpoint}.items():
        monkeypatch.setenv(name, value)
    s3, bucket = boto3.client("s3"), f"shop-lake-{runs}"
    s3.create_bucket(
        Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
    )
    orders = tmp_path / "shop" / "orders"
    orders.mkdir(parents=True)
    (orders / "1.csv").write_text("id,updated_at\n1,2024-01-01T00:00:00Z\n2,2024-01-02T00:00:00Z\n")
    path = tmp_path / "shop.yml"
    conf = json.dumps(WARM["spark_conf"])
    path.write_text(PIPELINE.format(source=tmp_path / "shop", spark_conf=conf, bucket=bucket))

    first = run(command("singer-spark"), "run", path)
    assert first.returncode == 0, first.stderr
    sent = s3.list_objects_v2(Bucket=bucket, Prefix="batches/orders-")["Contents"]
    assert all(file["Key"].endswith(".parquet") for file in sent), "rows travel by the bucket"
    assert "Done! 2 records in 1 stream(s)" in first.stdout

    if runs == 2:
        (orders / "2.csv").write_text("id,updated_at\n3,2024-01-03T00:00:00Z\n")
        second = run(command("singer-spark"), "run", path)
        assert second.returncode == 0, second.stderr
        assert "Incremental mode (using previous checkpoint)" in second.stdout
        assert "Done! 2 records in 1 stream(s)" in second.stdout, "one new, one at the bookmark"

    key = "bronze/.singer-spark/state/shop/state.json"
    bookmark = json.load(s3.get_object(Bucket=bucket, Key=key)["Body"])["bookmarks"]["orders"]
    assert bookmark["replication_key_value"] == f"2024-01-0{runs + 1}T00:00:00.000000+00:00"
    options = {"aws_endpoint": endpoint, "aws_allow_http": "true"}
    table = DeltaTable(f"s3://{bucket}/bronze/orders", storage_options=options)
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == [1, 2, 3][: runs + 1]
    assert "the-secret" not in first.stderr + first.stdout


@pytest.mark.slow
def test_batch_files_in_a_bucket_are_read_and_cleaned_up(endpoint, tmp_path, monkeypatch):
    for name, value in {**AWS, "AWS_ENDPOINT_URL": endpoint}.items():
        monkeypatch.setenv(name, value)
    s3 = boto3.client("s3")
    s3.create_bucket(
        Bucket="batches", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
    )
    packed = gzip.compress(b'{"id": 1, "name": "a"}\n{"id": 2, "name": "b"}\n')
    s3.put_object(Bucket="batches", Key="in/1.json.gz", Body=packed)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [2, 3], "name": ["c", "d"]}), sink)
    s3.put_object(Bucket="batches", Key="in/2.parquet", Body=sink.getvalue().to_pybytes())

    roots = {"clean_up_batch_files": True, "batch_roots": ["s3://batches/in"]}
    lake = Loaded(tmp_path / "lake", **WARM, **roots)
    config = write_json(tmp_path / "target.json", lake.config)
    properties = {"id": {"type": "integer"}, "name": {"type": "string"}}
    messages = lines(
        [
            schema("items", properties, ["id"]),
            batch("items", "s3://batches/in/1.json.gz", compression="gzip"),
            batch("items", "s3a://batches/in/2.parquet", kind="parquet"),
            state(1),
        ]
    )
    done = run(command("target-spark-delta"), "--config", config, input=messages)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    assert {row["id"]: row["name"] for row in lake.rows("items")} == {1: "a", 2: "c", 3: "d"}
    assert "Contents" not in s3.list_objects_v2(Bucket="batches")
