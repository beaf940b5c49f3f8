"""What a tap or target is: it says so itself, whatever its command is called."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from singer_spark.pipeline import plugins
from singer_spark.pipeline.plugins import Plugin


@pytest.fixture
def command(tmp_path):
    def write(name, body):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return Plugin(str(path), {})

    return write


def test_commands_of_this_package_are_ours_without_being_started(monkeypatch):
    monkeypatch.setattr(plugins, "_ask_name", None)
    assert Plugin("tap-spark-source", {}).is_ours
    assert Plugin("target-spark-delta", {}).is_ours
    assert not Plugin(str(Path(sys.executable).with_name("pytest")), {}).is_ours


def test_a_script_that_starts_ours_is_ours(command):
    ours = Path(sys.executable).with_name("tap-spark-source")
    assert command("tap-of-the-team", f'exec {ours} "$@"').is_ours


@pytest.mark.parametrize(
    "body",
    ["exit 2", "echo hello", "echo '[]'", "echo '{}'", """echo '{"name": "tap-other"}'""", ""],
)
def test_a_script_that_does_not_say_so_is_not_ours_whatever_it_is_called(command, body):
    assert not command("tap-spark-source", body).is_ours


def test_a_script_that_does_not_answer_in_time_is_ended(command, monkeypatch):
    monkeypatch.setattr(plugins, "ABOUT_SECONDS", 0.2)
    began = time.monotonic()
    assert not command("tap-spark-source", "sleep 60").is_ours
    assert time.monotonic() - began < 30


def test_a_script_is_asked_again_once_it_has_changed(command):
    assert not command("tap-x", "exit 2").is_ours
    changed = command("tap-x", """echo '{"name": "tap-spark-source"}'""")
    os.utime(changed.command, (1, 1))
    assert changed.is_ours


def test_where_there_is_no_command_its_name_decides():
    assert Plugin("/nowhere/target-spark-delta", {}).is_ours
    assert not Plugin("/nowhere/target-jsonl", {}).is_ours


def test_settings_of_a_stream_come_before_those_of_all():
    options = {"a*": {"lookback": 5}, "ab": {"where": "x"}}
    plugin = Plugin("t", {"lookback": 1, "stream_options": options})
    assert plugin.options_of("ab") == {"lookback": 5, "where": "x"}
    assert [plugin.setting("lookback", one) for one in ("ab", "c")] == [5, 1]
