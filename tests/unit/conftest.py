"""What the unit tests share: a bench for the runner, a server that state stores are tested on."""

from __future__ import annotations

import logging
import os
import shutil

import boto3
import pytest
from moto.server import ThreadedMotoServer
from obstore.store import MemoryStore

from singer_spark.engine.lease import ENGINE
from singer_spark.state import PipelineState, StateStore, lock
from singer_spark.storage.cloud import CloudObjects
from tests.support.appended import STORED, Shop
from tests.support.bench import Bench
from tests.support.engine import fake_engine
from tests.support.hammer import Hammer
from tests.support.lake import Lake
from tests.support.stores import MariaDB, Place
from tests.support.tap import Postgres

AWS = {
    "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "do-not-tell",
    "AWS_DEFAULT_REGION": "us-east-1",
}
HERE = ["folder", "s3", "sqlite", "postgres", "meltano-folder", "meltano-s3", "memory"]
# These need a server that is not everywhere: skipped, with the reason, by make test-all.
ELSEWHERE = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("mysql", "gs", "az")]


@pytest.fixture(autouse=True)
def _short_watch(monkeypatch):
    """A lock that looks dead is watched for a moment only."""
    monkeypatch.setattr(lock, "WATCH_SECONDS", 0.1)
    monkeypatch.setattr(lock, "POLL_SECONDS", 0.02)


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


@pytest.fixture
def shop(bench):
    return Shop(bench)


@pytest.fixture
def known(shop):
    shop.bench.store.save(PipelineState("p", STORED, run_count=1))
    return shop


@pytest.fixture
def lake(tmp_path, monkeypatch):
    return Lake(tmp_path, monkeypatch)


@pytest.fixture(scope="session")
def s3_endpoint():
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it would log every request
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="session")
def s3_client(s3_endpoint):
    return boto3.client(
        "s3",
        endpoint_url=s3_endpoint,
        region_name="us-east-1",
        aws_access_key_id=AWS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=AWS["AWS_SECRET_ACCESS_KEY"],
    )


@pytest.fixture
def s3(s3_endpoint, s3_client, monkeypatch):
    """A new bucket; endpoint and credentials are given by the usual means."""
    for name, value in {"AWS_ENDPOINT_URL_S3": s3_endpoint, **AWS}.items():
        monkeypatch.setenv(name, value)
    bucket = f"lake-{os.urandom(4).hex()}"
    s3_client.create_bucket(Bucket=bucket)
    return bucket


@pytest.fixture(scope="session")
def postgres_url():
    server = Postgres()
    yield f"postgresql://{server.user}:{server.password}@127.0.0.1:{server.port}/postgres"
    server.stop()


@pytest.fixture(scope="session")
def mysql_url():
    if not shutil.which("mariadbd"):
        pytest.skip("needs mariadbd on the PATH")
    server = MariaDB()
    yield server.url
    server.stop()


@pytest.fixture(scope="session")
def hammer():
    server = Hammer()
    yield server
    server.stop()


@pytest.fixture(params=[*HERE, *ELSEWHERE])
def place(request, tmp_path):
    """An empty place of every kind of store that runs here."""
    kind = request.param
    unique = os.urandom(4).hex()
    if kind in ("folder", "meltano-folder"):
        folder = tmp_path / "deep" / "state"
        return Place.of(kind, str(folder) if kind == "folder" else f"meltano+file://{folder}")
    if kind in ("s3", "meltano-s3"):
        url = f"s3://{request.getfixturevalue('s3')}/.singer-spark/state"
        return Place.of(kind, url if kind == "s3" else f"meltano+{url}")
    if kind == "sqlite":
        return Place.of(kind, f"sqlite:///{tmp_path}/deep/state.db")
    if kind in ("postgres", "mysql"):
        url = request.getfixturevalue(f"{kind}_url")
        return Place.of(kind, {"url": url, "table": f"state_{unique}"})
    if kind == "memory":
        memory = MemoryStore()
        return Place(kind, None, lambda: StateStore(CloudObjects(memory, "memory://")))
    variable = f"SINGER_SPARK_TEST_{kind.upper()}"
    if variable not in os.environ:
        pytest.skip(f"needs a server: {variable}=URL of a bucket")
    return Place.of(kind, f"{os.environ[variable].rstrip('/')}/{unique}")


@pytest.fixture
def store(place):
    return place.open()


@pytest.fixture(autouse=True, scope="module")
def _no_spark():
    """Let the runs of fake taps and targets find an engine, so that none is started for them."""
    with pytest.MonkeyPatch.context() as patch, fake_engine(patch) as engine:
        patch.setenv(ENGINE, engine)
        yield
