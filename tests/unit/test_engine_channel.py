"""The way to an engine: to the loopback address itself, whatever proxy is set."""

from __future__ import annotations

import select
import socket

import grpc
import pytest

from singer_spark.engine.connect import EngineChannel


class Lease:
    user, token, ended = "someone", "0" * 64, None

    def __init__(self, port):
        self.port = port


@pytest.fixture
def listening():
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
            each.listen()
        yield one, other


@pytest.mark.parametrize("name", ["http_proxy", "https_proxy", "grpc_proxy"])
def test_no_proxy_hears_of_it(listening, monkeypatch, name):
    engine, proxy = listening
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.getsockname()[1]}")
    channel = EngineChannel(Lease(engine.getsockname()[1])).toChannel()
    ready = grpc.channel_ready_future(channel)
    heard = select.select([engine, proxy], [], [], 20)[0]
    ready.cancel()
    assert heard == [engine]
