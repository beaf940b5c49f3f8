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


@pytest.mark.parametrize("side", ["driver", "executor"])
@pytest.mark.parametrize("master", ["local[2]", "spark://h:7077"])
def test_java_runs_in_utc_on_every_machine_beside_the_options_of_the_user(master, side):
    name = f"spark.{side}.extraJavaOptions"
    config = {"spark_master": master, "spark_conf": {name: "-Xss4m"}}
    given = session._configuration(SparkSettings.from_config(config), [])
    plain = session._configuration(SparkSettings.from_config({"spark_master": master}), [])
    assert given[name] == f"{plain[name]} -Xss4m"
    assert plain[name].startswith("-Duser.timezone=UTC")
