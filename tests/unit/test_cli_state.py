"""The state commands that look: what they print, what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from singer_spark.state import PipelineState
from tests.support.states import OLD, open_store, prepare, state


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    prepare(tmp_path, monkeypatch)


class TestList:
    def test_all_pipelines_are_listed_with_their_last_run(self):
        result = state("list")

        assert result.exit_code == 0
        head, orders, users = result.output.splitlines()
        assert head.split()[0] == "PIPELINE"
        assert orders.split() == ["orders", "2026-02-01", "10:00:00", "7", "1"]
        assert users.split() == ["users", "never", "0", "0"]

    def test_json_gives_the_states_themselves(self):
        orders, users = json.loads(state("list", "--json").output)

        assert orders["pipeline_name"] == "orders"
        assert orders["watermark"] == OLD
        assert users["run_count"] == 0

    def test_a_store_is_listed_by_itself(self):
        Path("store/past/runs").mkdir(parents=True)
        Path("store/past/runs/r.json").write_text("{}")
        (orders,) = json.loads(state("list", "--json", "--state", "store").output)
        assert orders["run_count"] == 7

    def test_without_pipelines_the_list_is_empty(self, tmp_path, monkeypatch):
        (tmp_path / "bare").mkdir()
        monkeypatch.chdir(tmp_path / "bare")

        assert (state("list").exit_code, state("list").output) == (0, "")
        assert json.loads(state("list", "--json").output) == []
        assert json.loads(state("list", "--json", "--state", "nothing").output) == []

    def test_one_broken_file_does_not_hide_the_others(self):
        Path("pipelines/a.yml").write_text("name: 5")
        Path("store/users").mkdir()
        Path("store/users/state.json").write_text("?")
        result = state("list", "--json")

        assert result.exit_code == 78
        assert [one["pipeline_name"] for one in json.loads(result.stdout)] == ["orders"]
        assert "users/state.json is damaged" in result.stderr
        assert "pipelines/a.yml" in result.stderr

    def test_a_pipeline_of_a_newer_version_does_not_hide_the_others(self):
        Path("store/users").mkdir()
        Path("store/users/meta.json").write_text('{"schema": 99}')
        result = state("list")

        assert result.exit_code == 74
        assert "users/meta.json was written by a newer singer-spark" in result.stderr
        assert result.stdout.splitlines()[1].startswith("orders")

    def test_a_long_name_still_fits_the_terminal(self):
        open_store().save(PipelineState("x" * 128, OLD))
        result = state("list", "--state", "store")
        assert all(len(line) <= 80 for line in result.output.splitlines())


class TestGet:
    @pytest.mark.parametrize(
        "arguments", [["orders"], ["pipelines/orders.yml"], ["orders", "--state", "store"]]
    )
    def test_the_plain_singer_state_is_printed(self, arguments):
        result = state("get", *arguments)

        assert result.exit_code == 0
        assert json.loads(result.output) == OLD
        assert "ü" in result.output

    def test_what_has_no_state_is_74_and_what_is_no_pipeline_78(self):
        assert state("get", "users").exit_code == 74
        assert "users has no state in store" in state("get", "users").output
        assert state("get", "nix").exit_code == 78
        assert state("get", "../x", "--state", "store").exit_code == 78


class TestDiff:
    def test_a_unified_diff_of_pretty_json(self):
        lines = state("diff", "orders", "new.json").output.splitlines()

        assert lines[:2] == ["--- orders", "+++ new.json"]
        assert '-      "replication_key_value": "2026-01-31 ü"' in lines
        assert '+      "replication_key_value": "2025-12-01"' in lines

    def test_the_order_of_keys_is_no_difference(self):
        result = state("diff", "orders", "-", input=json.dumps(OLD))
        assert (result.exit_code, result.output) == (0, "")

    def test_what_is_no_state_is_refused(self):
        assert state("diff", "orders", "-", input="x").exit_code == 74


class TestHelp:
    COMMANDS = ("list", "get", "set", "edit", "delete", "diff", "recover", "accept")

    def test_every_command_is_told_in_80_columns(self):
        shown = state("--help").output
        for command in self.COMMANDS:
            assert f"  {command} " in shown
            lines = state(command, "--help").output.splitlines()
            assert all(len(line) <= 80 for line in lines)
            assert any("--state URL" in line for line in lines)
