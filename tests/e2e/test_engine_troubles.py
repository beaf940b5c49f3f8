"""What can be wrong with a machine: one line with the way out, or nothing worth a word."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from singer_spark.engine import registry
from singer_spark.engine.jars import cache_folder
from tests.support.commands import command, only_line, write_json
from tests.support.processes import (
    OWN,
    are_gone,
    engines,
    ids,
    java_of,
    keeper_of,
    load_one,
    needs_mounts,
    until,
    with_mounts,
)
from tests.support.singer import lines, record, schema, state

pytestmark = pytest.mark.usefixtures("alone")

FIRST = [schema("s", {"id": {"type": "integer"}}, ["id"]), record("s", {"id": 1}), state({"at": 1})]


def java_that_says(folder: Path, said: str) -> dict[str, str]:
    """Make a Java that only tells its version."""
    script = folder / "jdk" / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    script.chmod(0o755)
    return {"JAVA_HOME": str(folder / "jdk")}


def refused(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert done.returncode == code, done.stderr
    line = only_line(done.stderr)
    for word in words:
        assert word in line
    assert are_gone(20)


def test_no_java(tmp_path):
    done = load_one(tmp_path, env={"JAVA_HOME": str(tmp_path / "none")})
    refused(done, 78, "Java is missing", "install a Java runtime 17")


@pytest.mark.parametrize("said", ['java version "1.8.0_402"', "Segmentation fault"])
def test_a_java_that_is_too_old_or_broken(tmp_path, said):
    refused(load_one(tmp_path, env=java_that_says(tmp_path, said)), 78, "Java is too old")


def test_a_java_that_cannot_start(tmp_path):
    env = java_that_says(tmp_path, "Error: nothing works")
    script = tmp_path / "jdk" / "bin" / "java"
    script.write_text(script.read_text() + "exit 1\n")
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="17.0.1"\n')
    refused(load_one(tmp_path, env=env), 78, "nothing works", "install another Java")


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ({"spark.driver.memory": "100m"}, "must be at least"),
        ({"spark.driver.memory": "a lot"}, "Invalid maximum heap size"),
        pytest.param(
            {"spark.sql.shuffle.partitions": "abc"},
            "spark.sql.shuffle.partitions",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"spark.serializer": "org.example.Missing"},
            "org.example.Missing",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["too little memory", "no memory", "no number", "no class"],
)
def test_settings_that_spark_cannot_start_with(tmp_path, conf, words):
    refused(load_one(tmp_path, spark_conf=conf), 78, words, "correct spark")


def test_a_jar_that_is_missing(tmp_path):
    refused(load_one(tmp_path, spark_jars=["/none.jar"]), 78, "no such file: /none.jar")


def test_a_cluster_that_is_not_there(tmp_path):
    done = load_one(tmp_path, spark_master="spark://127.0.0.1:1")
    refused(done, 75, "no Spark master answers at 127.0.0.1:1")


@pytest.mark.slow
@needs_mounts
@pytest.mark.parametrize("options", ["ro", "size=64k"], ids=["read-only", "full"])
def test_a_folder_of_engines_that_cannot_be_used_is_passed_over(tmp_path, options):
    (usual, other) = registry._candidates()
    usual.mkdir(mode=0o700, exist_ok=True)
    mount = f"-t tmpfs -o {options},mode=0700 tmpfs {usual}"
    done = load_one(tmp_path, through=lambda *own: with_mounts([mount], *own))
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert ids(tmp_path / "lake" / "s") == [1]
    assert until(lambda: not list(other.glob("engine-*")))


@needs_mounts
@pytest.mark.parametrize("options", ["ro", "size=64k"], ids=["read-only", "full"])
def test_no_folder_that_can_be_used_is_one_line(tmp_path, options):
    for folder in registry._candidates():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    mounts = [
        f"-t tmpfs -o {options},mode=0700 tmpfs {folder}" for folder in registry._candidates()
    ]
    done = load_one(tmp_path, through=lambda *own: with_mounts(mounts, *own))
    refused(done, 75, "no room for Spark's engine")


@pytest.mark.slow
def test_a_socket_whose_keeper_is_dead_is_passed_over(tmp_path):
    folder = registry._roots()[0] / "engine-stale"
    folder.mkdir(mode=0o700)
    try:
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(folder / registry.SOCKET))
        (folder / registry.SHARED).touch()
        done = load_one(tmp_path, env={"SINGER_SPARK_ENGINE": folder.name})
    finally:
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
    assert done.returncode == 0, done.stderr
    assert ids(tmp_path / "lake" / "s") == [1]


@pytest.mark.slow
def test_an_archive_of_another_java_or_a_damaged_one_is_made_anew(tmp_path):
    # A cache of its own, so that no other test uses or makes its archive.
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    (cache / "jars").symlink_to(cache_folder() / "jars")
    env = {"SINGER_SPARK_CACHE": str(cache)}

    def made() -> list[Path]:
        return list((cache / "classes").glob("*.jsa"))

    assert load_one(tmp_path, env=env).returncode == 0
    assert until(made)
    (archive,) = made()
    whole = archive.read_bytes()
    for damage in (b"of another Java" * 9000, whole[: len(whole) // 2]):
        archive.write_bytes(damage)
        done = load_one(tmp_path, env=env)
        assert done.returncode == 0, done.stderr
        assert "archive" not in done.stderr.lower()
        assert until(lambda: [one for one in made() if one.stat().st_size > len(whole) // 2])
        (archive,) = made()


@pytest.fixture
def target(tmp_path):
    """A target that has loaded something and waits for more."""
    config = write_json(tmp_path / "target.json", {"path": str(tmp_path / "lake"), **OWN})
    process = subprocess.Popen(
        [command("target-spark-delta"), "--config", config],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    process.stdin.write(lines(FIRST))
    process.stdin.flush()
    assert until(lambda: (tmp_path / "lake" / "s" / "_delta_log").is_dir())
    return process


MORE = [record("s", {"id": 2}), state({"at": 2})]


@pytest.mark.slow
def test_a_spark_that_hangs_in_the_middle_is_given_up_within_a_minute(target, tmp_path):
    (engine,) = engines()
    os.kill(java_of(engine), signal.SIGSTOP)
    before = time.monotonic()
    _, error = target.communicate(lines(MORE), timeout=150)
    assert time.monotonic() - before < 75
    assert target.returncode == 75, error
    assert "Spark does not answer" in only_line(error)
    assert only_line(error).endswith("run again")
    assert are_gone()
    done = load_one(tmp_path)
    assert done.returncode == 0, done.stderr
    assert ids(tmp_path / "lake" / "s")[0] == 1


@pytest.mark.slow
def test_a_spark_that_hangs_when_its_keeper_is_dead_is_given_up(target):
    (engine,) = engines()
    java, keeper = java_of(engine), keeper_of(engine)
    os.kill(java, signal.SIGSTOP)
    os.kill(keeper, signal.SIGKILL)
    _, error = target.communicate(lines(MORE), timeout=150)
    assert target.returncode == 75, error
    assert "it was killed; run again" in only_line(error)
    assert are_gone()
