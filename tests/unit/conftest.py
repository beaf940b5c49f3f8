"""What the unit tests share: a bench for the runner, a server that state stores are tested on."""

from __future__ import annotations

import os

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.support.bench import Bench


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


@pytest.fixture(scope="session")
def s3_endpoint():
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(s3_endpoint, monkeypatch):
    """A new bucket; endpoint and credentials are given by the usual means."""
    for name, value in {
        "AWS_ENDPOINT_URL_S3": s3_endpoint,
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "do-not-tell",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    bucket = f"lake-{os.urandom(4).hex()}"
    boto3.client("s3").create_bucket(Bucket=bucket)
    return bucket
