"""The command line: exit codes and one line that explains them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

from tap_spark_source.tap import TapSparkSource


def tap(*arguments: str) -> Result:
    return CliRunner().invoke(TapSparkSource.cli, arguments)


def tap_without_java(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the tap as a process that finds no command at all."""
    environment = {**os.environ, "PATH": "/nowhere"}
    environment.pop("JAVA_HOME", None)
    return subprocess.run(
        [sys.executable, "-m", "tap_spark_source", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )


@pytest.fixture
def config(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"source_url": "parquet:/nowhere"}))
    return str(file)


def test_about_and_version_need_no_java():
    about = tap_without_java("--about", "--format", "json")
    assert about.returncode == 0
    assert json.loads(about.stdout)["name"] == "tap-spark-source"
    assert tap("--version").stdout.startswith("tap-spark-source v")


def test_a_catalog_without_streams_needs_no_java(config, tmp_path):
    catalog = tmp_path / "catalog.json"
    catalog.write_text('{"streams": []}')
    done = tap_without_java("--config", config, "--catalog", str(catalog))
    assert (done.returncode, done.stdout) == (0, "")


def test_a_plan_is_a_json_document(config, tmp_path):
    catalog = tmp_path / "catalog.json"
    catalog.write_text('{"streams": []}')
    done = tap("--config", config, "--catalog", str(catalog), "--plan")
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"streams": []})


@pytest.mark.parametrize(
    "content",
    [
        *(None, "{", "[]", '{"bookmarks": 5}', '{"bookmarks": {"a": 1}}'),
        *(f'{{"bookmarks": {{"a": {"[" * depth}{"]" * depth}}}}}' for depth in (4_000, 200_000)),
    ],
    ids=["none", "torn", "list", "number", "numbers", "deep", "very deep"],
)
def test_an_unreadable_state_exits_with_74(config, tmp_path, content):
    catalog, state = tmp_path / "catalog.json", tmp_path / "state.json"
    catalog.write_text('{"streams": []}')
    if content is not None:
        state.write_text(content)
    done = tap("--config", config, "--catalog", str(catalog), "--state", str(state))
    assert done.exit_code == 74
    assert "Error: " in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("option", ["--config", "--catalog"])
def test_a_file_that_is_nested_too_deeply_exits_with_78(config, tmp_path, option):
    file = tmp_path / "deep.json"
    file.write_text('{"a":' * 200_000 + "1" + "}" * 200_000)
    done = tap("--config", config, option, str(file))
    assert done.exit_code == 78
    assert done.stderr.splitlines()[-1].endswith(
        "deep.json is nested too deeply to be read; give one of fewer levels"
    )


def test_a_given_state_comes_back_digit_by_digit(config, tmp_path):
    catalog, state = tmp_path / "catalog.json", tmp_path / "state.json"
    catalog.write_text('{"streams": []}')
    bookmark = (
        '{"a":9007199254740995.1,"b":[1.0,1e400,-0.0],"c":1234567890123456789012345678901234567890,'
        '"d":null,"progress_markers":{"e":0.1000},"partitions":null}'
    )
    text = f'{{"bookmarks":{{"unknown":{bookmark}}},"more":12345678901234567890.10}}'
    state.write_text(text)
    done = tap("--config", config, "--catalog", str(catalog), "--state", str(state))
    assert (done.exit_code, done.stdout) == (0, f'{{"type":"STATE","value":{text}}}\n')


@pytest.mark.parametrize("content", [None, "{", "[]", '{"streams": [5]}'])
def test_an_unreadable_catalog_exits_with_78(config, tmp_path, content):
    catalog = tmp_path / "catalog.json"
    if content is not None:
        catalog.write_text(content)
    assert tap("--config", config, "--catalog", str(catalog)).exit_code == 78


@pytest.mark.parametrize("arguments", [[], ["--discover"], ["--test"]])
def test_wrong_settings_exit_with_78(tmp_path, arguments):
    file = tmp_path / "config.json"
    file.write_text('{"source_url": "ftp:x", "lookback": "long"}')
    done = tap("--config", str(file), *arguments)
    assert done.exit_code == 78
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert "source_url" in last
    assert "lookback" in last
    assert "Traceback" not in done.stderr


def test_missing_java_is_a_settings_error(config):
    done = tap_without_java("--config", config)
    assert done.returncode == 78
    assert "Java is missing" in done.stderr.splitlines()[-1]
