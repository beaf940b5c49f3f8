"""A server that accepts a connection and never answers ends a run; it does not keep it."""

from __future__ import annotations

import socket
import time

import pytest

from singer_spark.errors import TransientError
from tap_spark_source.dialects.postgres import Postgres
from tests.support.tap import run_tap


@pytest.fixture
def silent():
    """The port of a server that says nothing; the system accepts for it."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)
        yield server.getsockname()[1]


def config(port: int, **options: str) -> dict:
    url = f"jdbc:postgresql://127.0.0.1:{port}/shop"
    return {"source_url": url, "tables": ["public.t"], "source_options": options}


@pytest.mark.parametrize("waits", [{"loginTimeout": "2"}, {"socketTimeout": "2"}])
def test_silence_is_an_error_that_can_be_tried_again(silent, waits):
    start = time.monotonic()
    with pytest.raises(TransientError, match="did not answer in time"):
        run_tap(config(silent, sslmode="disable", **waits))
    assert time.monotonic() - start < 20


def test_the_drivers_own_timeouts_end_it_too(silent, monkeypatch):
    short = {"connectTimeout": "2", "loginTimeout": "2", "socketTimeout": "2"}
    monkeypatch.setattr(Postgres, "timeouts", short)
    with pytest.raises(TransientError, match="did not answer in time"):
        run_tap(config(silent))
