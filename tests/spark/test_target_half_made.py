"""Whatever a kill leaves of a first load, in a folder, S3 or a catalog: the next run loads it."""

from __future__ import annotations

import boto3
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from moto.server import ThreadedMotoServer
from pyspark.errors import AnalysisException

from singer_spark.engine.session import isolated
from singer_spark.errors import SingerSparkError
from target_spark_delta.table import commit
from target_spark_delta.table.commit import Commit, describe_commits
from target_spark_delta.table.ddl import Layout, create
from target_spark_delta.table.table import Table
from tests.support.singer import Loaded, state
from tests.support.users import USERS, user

LOG = "users/_delta_log"
FIRST = f"{LOG}/{0:020}.json"
# What is there, step by step, while a table is made and first written to.
STEPS = {
    "a folder": {"users/": b""},
    "an empty log": {f"{LOG}/": b""},
    "a commit being written": {f"{LOG}/": b"", f"{LOG}/.{0:020}.json.1.tmp": b'{"commitInfo'},
    "data without a commit": {f"{LOG}/": b"", "users/part-00000.snappy.parquet": b"PAR1"},
}
LAYOUT = Layout(partition_by=["name"], comment="of users")


def leave(root, step):
    for name, body in STEPS[step].items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(exist_ok=True) if name.endswith("/") else path.write_bytes(body)


@pytest.mark.parametrize("step", STEPS)
def test_a_folder(lake, step):
    leave(lake.root, step)
    assert lake.load(USERS, user(1, "a"), state({"at": 1})) == [{"at": 1}]
    assert [row["id"] for row in lake.rows("users")] == [1]


def test_a_table_without_rows_and_files_without_a_commit(lake, spark):
    columns = "id bigint, name string, qty bigint"
    spark.sql(f"create table delta.`{lake.root}/users` ({columns}) using delta")
    (lake.root / "users" / "part-00000.snappy.parquet").write_bytes(b"PAR1")
    lake.load(USERS, user(1, "a"), state({"at": 1}))
    assert [row["id"] for row in lake.rows("users")] == [1]


def test_a_layout_is_not_lost(spark, tmp_path):
    leave(tmp_path, "an empty log")
    table = Table.at_path(str(tmp_path), "users")
    create(spark, table, spark.range(1).selectExpr("id", "'x' as name").schema, LAYOUT)
    assert table.detail(spark)["partitionColumns"] == ["name"]
    assert not table.rows(spark).schema["id"].nullable, "as it was asked"


def test_a_folder_with_the_files_of_someone_else_is_left_alone(lake):
    (lake.root / "users").mkdir(parents=True)
    (lake.root / "users" / "own.parquet").write_bytes(b"PAR1")
    with pytest.raises(SingerSparkError, match="ALREADY_EXISTS"):
        lake.load(USERS, user(1, "a"))
    assert not (lake.root / LOG).exists()


@pytest.fixture
def bucket(spark, monkeypatch):
    """Return a session that reaches a bucket, the bucket's client and its URL."""
    server = ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    keys = {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }
    for name, value in {**keys, "AWS_ENDPOINT_URL": f"http://{host}:{port}"}.items():
        monkeypatch.setenv(name, value)
    session = isolated()
    for name, value in {
        "endpoint": f"http://{host}:{port}",
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "access.key": "key",
        "secret.key": "secret",
    }.items():
        session.conf.set(f"fs.s3a.{name}", value)
    client = boto3.client("s3")
    client.create_bucket(Bucket=f"lake-{port}")
    yield session, client, f"lake-{port}"
    server.stop()


def test_s3(bucket):
    session, client, name = bucket
    describe_commits(session, Commit(pipeline="shop", run_id="run-1", stream="users"))
    rows = session.sql("select 1L as id, 'a' as name")
    for number, step in enumerate(STEPS):
        for key, body in STEPS[step].items():
            client.put_object(Bucket=name, Key=f"{number}/{key}", Body=body)
        table = Table.at_path(f"s3://{name}/{number}", "users")
        assert table.schema(session) is None
        create(session, table, rows.schema, LAYOUT)
        assert commit.append(table, rows, 1).inserted == 1
        assert table.rows(session).count() == 1, step


@pytest.fixture
def catalog(spark, tmp_path):
    spark.sql(f"create schema if not exists halves location '{tmp_path / 'halves.db'}'")
    place = {"path": None, "catalog": "spark_catalog", "default_target_schema": "halves"}
    place["spark_conf"] = {"spark.sql.warehouse.dir": str(tmp_path)}
    yield Loaded(tmp_path / "halves.db", **place)
    spark.sql("drop schema halves cascade")


@pytest.mark.parametrize("step", ["an empty log", "a commit being written", "a commit"])
def test_a_catalog(catalog, step):
    if step == "a commit":
        # Made by another engine, because this one would remember it.
        DeltaTable.create(str(catalog.root / "users"), pa.schema({"id": pa.int64()}))
    else:
        leave(catalog.root, step)
    catalog.load(USERS, user(1, "a"), state({"at": 1}))
    assert [row["id"] for row in catalog.rows("users")] == [1]


def test_a_place_of_a_catalog_with_rows_is_left_alone(catalog, spark):
    rows = spark.range(3)
    rows.write.format("delta").save(f"{catalog.root}/users")
    table = Table.in_catalog("spark_catalog", "halves", "users")
    with pytest.raises(AnalysisException):
        create(spark, table, rows.schema, Layout())
    assert spark.read.format("delta").load(f"{catalog.root}/users").count() == 3
