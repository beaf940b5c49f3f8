from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

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
def test_java_runs_in_utc_on_every_machine_beside_the_options_of_the_user(master, side, tmp_path):
    name = f"spark.{side}.extraJavaOptions"
    config = {"spark_master": master, "spark_conf": {name: "-Xss4m"}}
    given = session._configuration(SparkSettings.from_config(config), [], tmp_path)
    plain = session._configuration(
        SparkSettings.from_config({"spark_master": master}), [], tmp_path
    )
    assert given[name] == f"{plain[name]} -Xss4m"
    assert plain[name].startswith("-Duser.timezone=UTC")


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_the_configuration_stands_in_a_file_without_a_name_that_is_read_twice(tmp_path):
    conf = {"spark.hadoop.fs.s3a.secret.key": "do-not-tell"}
    with session._properties_file(conf, tmp_path) as (name, descriptors):
        script = f"cat {name}; exec cat {name}"
        done = subprocess.run(
            ["bash", "-c", script], pass_fds=descriptors, capture_output=True, text=True, check=True
        )
        assert list(tmp_path.iterdir()) == []
    assert done.stdout == "spark.hadoop.fs.s3a.secret.key do-not-tell\n" * 2


@pytest.mark.parametrize(
    ("folder", "option"),
    [
        ("/scratch/ours", '"-Djava.io.tmpdir=/scratch/ours"'),
        ("/scratch/with blank", '"-Djava.io.tmpdir=/scratch/with blank"'),
        ('/scratch/"', r'"-Djava.io.tmpdir=/scratch/\""'),
        ("/scratch/ü", ""),
    ],
)
def test_java_gets_a_temporary_folder_of_any_name_that_it_can_read(folder, option):
    conf = session._configuration(SparkSettings.from_config({}), [], Path(folder))
    assert f"{option} -XX:" in conf["spark.driver.extraJavaOptions"]
