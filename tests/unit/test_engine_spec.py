"""What an engine is made of, and whom it serves."""

from __future__ import annotations

import os
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from singer_spark.engine import spec as module
from singer_spark.engine.java import Java, argument_file, find_java, options_of_environment
from singer_spark.engine.keeper import Jvm
from singer_spark.engine.spec import Spec
from singer_spark.errors import SettingsError
from singer_spark.settings import SparkSettings
from singer_spark.spark_conf import GUARDS, START_GUARDS


@pytest.fixture(autouse=True)
def jars(monkeypatch, tmp_path):
    """Jars that nobody needs to fetch."""
    monkeypatch.setattr(
        module.jars,
        "resolve",
        lambda groups, **_: [tmp_path / f"{one.split(':')[1]}.jar" for g in groups for one in g],
    )


def spec_of(*urls, **config):
    return Spec.of(SparkSettings.from_config(config), urls)


def test_every_guard_is_set_in_an_engine():
    conf = spec_of().conf
    for key, guard in {**GUARDS, **START_GUARDS}.items():
        assert conf[key] == guard.value


def test_an_engine_serves_who_needs_no_more_than_it_has():
    wide, narrow = spec_of("jdbc:postgresql://h/d"), spec_of()
    assert wide.misfit(narrow) is None
    assert wide.misfit(wide) is None
    assert narrow.misfit(wide) == "no postgresql.jar"


def test_delta_and_s3_are_always_in():
    assert spec_of("s3a://bucket", "/lake").jars == spec_of().jars


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"spark_conf": {"spark.driver.memory": "1g"}}, "another conf"),
        ({"spark_conf": {"spark.driver.extraJavaOptions": "-Xss4m"}}, "another options"),
        ({"spark_master": "local[1]"}, "another conf"),
    ],
)
def test_other_settings_need_another_engine(change, reason):
    assert spec_of().misfit(spec_of(**change)) == reason


def test_another_login_needs_another_engine(monkeypatch):
    before = spec_of()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    assert before.misfit(spec_of()) == "another environment"


def test_where_things_lie_makes_no_difference(monkeypatch, tmp_path):
    here = spec_of()
    moved = replace(here, jars={f"/venv{path}": name for path, name in here.jars.items()})
    monkeypatch.setenv("PYSPARK_PYTHON", "/venv/bin/python")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert here.misfit(moved) is None
    assert here.misfit(spec_of()) is None


def test_jars_of_the_user_are_known_by_their_content(tmp_path):
    one, same, other = (tmp_path / name for name in ("a.jar", "b.jar", "c.jar"))
    one.write_bytes(b"x")
    same.write_bytes(b"x")
    other.write_bytes(b"y")
    has = spec_of(spark_jars=[str(one)])
    assert has.misfit(spec_of(spark_jars=[str(same)])) is None
    assert has.misfit(spec_of(spark_jars=[str(other)]))
    with pytest.raises(SettingsError, match="spark_jars: no such file"):
        spec_of(spark_jars=["nowhere.jar"])


@pytest.mark.parametrize("master", ["yarn", "k8s://https://host"])
def test_masters_that_need_a_launcher_are_refused_with_the_way_out(master):
    with pytest.raises(SettingsError, match="name it in spark_remote"):
        spec_of(spark_master=master)


def test_a_spec_reaches_its_keeper_unchanged():
    spec = spec_of(
        "jdbc:sqlite:x", spark_conf={"spark.driver.extraJavaOptions": "-Xss4m -Da='b c'"}
    )
    assert Spec.from_json(spec.to_json()) == spec
    assert spec.options == ("-Xss4m", "-Da=b c")


def test_a_warehouse_of_the_user_is_left_alone(tmp_path):
    given = Jvm(spec_of(spark_conf={"spark.sql.warehouse.dir": "/x"}), tmp_path)._conf()
    assert given["spark.sql.warehouse.dir"] == "/x"
    hive = "spark.hadoop.hive.metastore.warehouse.dir"
    assert "spark.sql.warehouse.dir" not in Jvm(spec_of(spark_conf={hive: "/x"}), tmp_path)._conf()
    plain = Jvm(spec_of(), tmp_path)._conf()
    assert plain["spark.sql.warehouse.dir"].endswith("/spark-warehouse")


@pytest.mark.parametrize("master", ["local[2]", "spark://h:7077"])
def test_executors_run_in_utc_beside_the_options_of_the_user(master):
    name = "spark.executor.extraJavaOptions"
    conf = spec_of(spark_master=master, spark_conf={name: "-Xss4m"}).conf
    assert conf[name] == "-Duser.timezone=UTC -Xss4m"


def test_java_reads_its_arguments_as_they_were_meant(tmp_path):
    values = ["plain", "with blank", 'quo"te', "back\\slash", "#hash", "'"]
    options = [f"-Done.{place}={value}" for place, value in enumerate(values)]
    file = tmp_path / "arguments"
    file.write_text(argument_file(["-XshowSettings:properties", *options, "-version"]))
    done = subprocess.run(
        [find_java().command, f"@{file}"], capture_output=True, text=True, check=True
    )
    for place, value in enumerate(values):
        assert f"one.{place} = {value}\n" in done.stderr


@pytest.mark.parametrize(
    ("version", "major"), [("17.0.15", 17), ("1.8.0_402", 8), ("21", 21), ("25-ea", 25), ("", 0)]
)
def test_versions_of_java_are_understood(version, major):
    assert Java("java", version).major == major


@pytest.mark.parametrize("name", ["SPARK_LOCAL_DIRS", "LOCAL_DIRS", "SPARK_WORKER_DIR"])
def test_folders_of_the_starter_make_no_difference_and_are_not_used(monkeypatch, tmp_path, name):
    here = spec_of()
    monkeypatch.setenv(name, "/elsewhere")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert here.misfit(spec_of()) is None
    jvm = Jvm(here, tmp_path)
    assert name not in jvm._environment(tmp_path / "answer")
    assert jvm._conf()["spark.local.dir"] == str(jvm._scratch)


def test_another_umask_needs_another_engine():
    here = spec_of()
    before = os.umask(0o077)
    try:
        assert here.misfit(spec_of()) == "another environment"
    finally:
        os.umask(before)


def test_options_in_variables_become_arguments_of_which_nothing_is_logged():
    environ = {
        "JAVA_TOOL_OPTIONS": "-Da=1 '-Db=two words'",
        "JDK_JAVA_OPTIONS": '"-Dc=C:\\x" -Dd=#1',
        "_JAVA_OPTIONS": "-De=5",
    }
    first, last = options_of_environment(environ)
    assert first == ["-Da=1", "-Db=two words", "-Dc=C:\\x", "-Dd=#1"]
    assert last == ["-De=5"]
    with pytest.raises(SettingsError, match="JAVA_TOOL_OPTIONS: a quotation mark"):
        options_of_environment({"JAVA_TOOL_OPTIONS": "'-Da"})


def test_each_start_has_a_token_and_folders_that_nobody_else_has(tmp_path):
    one, other = Jvm(spec_of(), tmp_path), Jvm(spec_of(), tmp_path)
    assert len(bytes.fromhex(one.token)) == 32
    assert one.token != other.token
    conf = one._conf()
    assert conf["spark.authenticate"] == "true"
    assert conf["spark.connect.grpc.binding.address"] == "127.0.0.1"
    assert conf["spark.driver.bindAddress"] == "127.0.0.1"
    assert one.token not in f"{conf} {one._paths()}", "it would stand in the list of processes"
    scratch = Path(conf["spark.local.dir"])
    assert stat.S_IMODE(scratch.stat().st_mode) == 0o700
    assert f"-Djava.io.tmpdir={scratch}" in one._paths()
    assert conf["spark.sql.warehouse.dir"].startswith(scratch.as_uri())
