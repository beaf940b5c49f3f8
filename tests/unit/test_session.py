from __future__ import annotations

import socket

import pytest

from singer_spark import session
from singer_spark.errors import TransientError
from singer_spark.settings import SparkSettings


def test_a_connect_server_that_does_not_answer_is_one_line_at_once(monkeypatch):
    monkeypatch.setattr(session, "_session", None)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        remote = f"sc://127.0.0.1:{probe.getsockname()[1]}/;token=s3cret"
    with pytest.raises(TransientError, match="spark_remote: no Spark Connect server") as raised:
        session.open_session(SparkSettings.from_config({"spark_remote": remote}))
    assert "s3cret" not in str(raised.value)
