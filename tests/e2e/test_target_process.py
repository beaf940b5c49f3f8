"""target-spark-delta as a process: its standard output, its exit codes, its sudden deaths."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest

from tests.support.commands import WARM, command, only_line, run, write_json
from tests.support.singer import Loaded, lines, record, schema, state

TARGET = command("target-spark-delta")
USERS = schema("users", {"id": {"type": "integer"}, "name": {"type": "string"}}, ["id"])


@pytest.fixture
def lake(tmp_path):
    return Loaded(tmp_path / "lake", **WARM)


@pytest.fixture
def load(lake, tmp_path):
    """Run the target on messages, with settings."""

    def load(*messages, **config):
        path = write_json(tmp_path / "target.json", {**lake.config, **config})
        return run(TARGET, "--config", path, input=lines(messages))

    return load


def start(config):
    """Start the target with its input open."""
    return subprocess.Popen(
        [TARGET, "--config", config],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def users(*ids):
    return [record("users", {"id": number, "name": f"user {number}"}) for number in ids]


def test_what_was_committed_before_a_bad_line_stays_and_its_state_is_out(lake, load):
    done = load(USERS, *users(1, 2), state({"at": 2}), *users(3), "nonsense\n", batch_size_rows=2)
    assert done.returncode == 76
    assert "line 6 is not a Singer message" in only_line(done.stderr)
    assert done.stdout == '{"at": 2}\n'
    assert [row["id"] for row in lake.rows("users")] == [1, 2]


@pytest.mark.parametrize(
    ("messages", "code", "said"),
    [
        (users(1), 76, "came before its SCHEMA"),
        ([USERS, record("users", {"name": "x"})], 65, "key property id is missing"),
        ([USERS, record("users", {"id": "x"})], 65, "line 2: id breaks the rule type"),
    ],
    ids=["record before schema", "no key", "invalid"],
)
def test_bad_input_is_one_line_and_its_exit_code(load, messages, code, said):
    done = load(*messages)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in only_line(done.stderr)


def test_all_that_is_wrong_with_the_settings_is_said_at_once(tmp_path):
    path = write_json(
        tmp_path / "bad.json",
        {
            "load_method": "s3cret",
            "batch_size_rows": "many",
            "spark_remote": "sc://x",
            "spark_master": "yarn",
            "spark_conf": {"spark.sql.ansi.enabled": "false"},
            "stream_options": {"*": {"unknown": 1}},
        },
    )
    done = run(TARGET, "--config", path, input="")
    assert done.returncode == 78
    line = only_line(done.stderr)
    for said in (
        "path is required",
        "load_method must be one of upsert, append-only",
        "batch_size_rows must be of type integer",
        "spark_remote and spark_master exclude each other",
        "spark.sql.ansi.enabled cannot be set",
        "stream_options.*: unknown key",
    ):
        assert said in line
    assert "s3cret" not in done.stderr


def test_a_spool_folder_is_made_or_refused_in_one_line(load, lake, tmp_path):
    (tmp_path / "file").write_text("")
    done = load(USERS, *users(1), temp_dir=str(tmp_path / "file" / "spool"))
    assert done.returncode == 78
    assert only_line(done.stderr) == (
        "Error: temp_dir cannot be written to: Not a directory; set another"
    )


def test_without_java_one_line_tells_what_to_install(lake, tmp_path):
    path = write_json(tmp_path / "target.json", lake.config)
    messages = lines([USERS, *users(1)])
    done = run(TARGET, "--config", path, input=messages, env={"JAVA_HOME": str(tmp_path)})
    assert done.returncode == 78
    assert "install a Java runtime 17 or newer" in only_line(done.stderr)


def test_about_version_and_state_alone_need_no_java(tmp_path, lake):
    path = write_json(tmp_path / "target.json", lake.config)
    without = {"PATH": "/nowhere", "JAVA_HOME": ""}
    about = run(TARGET, "--about", "--format", "json", env=without)
    assert json.loads(about.stdout)["name"] == "target-spark-delta"
    assert run(TARGET, "--version", env=without).stdout.startswith("target-spark-delta v")
    messages = lines([USERS, state({}), state({"a": 1.10})])
    done = run(TARGET, "--config", path, input=messages, env=without)
    assert (done.returncode, done.stdout) == (0, '{}\n{"a": 1.1}\n')
    assert not lake.root.exists()


@pytest.mark.slow
def test_what_the_jvm_prints_never_reaches_standard_output(lake, load):
    talkative = {"spark.driver.extraJavaOptions": "-Xlog:gc:stdout"}
    done = load(USERS, *users(1), state({"done": True}), spark_conf=talkative)
    assert done.returncode == 0
    assert [json.loads(line) for line in done.stdout.splitlines()] == [{"done": True}]


def test_after_a_kill_the_run_from_the_last_state_completes_the_table(lake, tmp_path):
    path = write_json(tmp_path / "target.json", {**lake.config, "batch_size_rows": 10})
    started = start(path)
    for first in (0, 10):
        started.stdin.write(lines([USERS, *users(*range(first, first + 10)), state(first + 10)]))
        started.stdin.flush()
    resume_from = json.loads(started.stdout.readline())
    started.stdin.write(lines([*users(*range(20, 25))]))
    started.stdin.flush()
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    assert resume_from in (10, 20)

    rest = lines([USERS, *users(*range(resume_from, 30)), state(30)])
    done = run(TARGET, "--config", path, input=rest)
    assert done.stdout.splitlines()[-1] == "30"
    assert [row["id"] for row in lake.rows("users")] == list(range(30))


def test_a_signal_ends_it_with_its_own_code_and_no_state(lake, tmp_path):
    path = write_json(tmp_path / "target.json", lake.config)
    started = start(path)
    started.stdin.write(lines([state({"ready": 1}), USERS, *users(1), state({"at": 1})]))
    started.stdin.flush()
    assert started.stdout.readline() == '{"ready": 1}\n'
    started.send_signal(signal.SIGTERM)
    assert started.wait(30) == 143
    assert started.stdout.read() == ""


def test_a_slow_stream_is_committed_while_its_pipe_stays_open(lake, tmp_path):
    path = write_json(tmp_path / "target.json", {**lake.config, "batch_wait_seconds": 0.5})
    started = start(path)
    started.stdin.write(lines([USERS, *users(1), state({"at": 1})]))
    started.stdin.flush()
    assert started.stdout.readline() == '{"at": 1}\n', "released while the input is still open"
    assert [row["id"] for row in lake.rows("users")] == [1]
    started.stdin.close()
    assert started.wait(60) == 0
