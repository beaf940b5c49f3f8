"""The state commands: what they print, what they refuse, what they leave alone."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from singer_spark.cli import main
from singer_spark.state import PipelineState, create_state_store
from singer_spark.state.lock import locked

OLD = {"bookmarks": {"orders": {"replication_key_value": "2026-01-31 ü"}}}
NEW = {"bookmarks": {"orders": {"replication_key_value": "2025-12-01"}}}
PIPELINE = "name: {}\nsource: {{tap: t}}\ndestination: {{target: x}}\nstate: {}\n"


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    """Two pipelines in pipelines/, of which `orders` has a state."""
    monkeypatch.chdir(tmp_path)
    Path("pipelines").mkdir()
    Path("pipelines/orders.yml").write_text(PIPELINE.format("orders", "store"))
    Path("pipelines/users.yaml").write_text(PIPELINE.format("users", "store"))
    store().save(PipelineState("orders", OLD, "r", "2026-02-01T10:00:00+00:00", 7))
    Path("new.json").write_text(json.dumps(NEW))


def store():
    return create_state_store("store")


def state(*arguments, **options):
    return CliRunner().invoke(main, ["state", *arguments], **options)


def current():
    return store().get("orders").watermark


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


class TestSet:
    def test_a_file_becomes_the_state_and_the_rest_stays(self):
        store().save_checkpoint("orders", {"later": 1})
        assert state("set", "orders", "new.json").exit_code == 0

        after = store().get("orders")
        assert after == PipelineState("orders", NEW, "r", "2026-02-01T10:00:00+00:00", 7)
        assert store().get_checkpoint("orders") is None
        assert not Path("store/orders/lock").exists()

    def test_standard_input_and_a_first_state_are_taken(self):
        assert state("set", "users", "-", input=json.dumps(NEW)).exit_code == 0
        assert store().get("users").watermark == NEW

    @pytest.mark.parametrize("text", ["", "{", "[]", "5", "null", '{"a": NaN}', "\xff"])
    def test_what_is_no_json_object_is_refused_in_one_line(self, text):
        result = state("set", "orders", "-", input=text.encode("latin-1"))

        assert result.exit_code == 74
        assert "is no Singer state: it must be a JSON object" in result.stderr
        assert result.stderr.count("\n") == 1
        assert current() == OLD

    def test_the_state_of_a_run_in_progress_is_left_alone(self):
        with locked(store(), "orders"):
            results = [state("set", "orders", "new.json"), state("delete", "orders", "--yes")]

        assert [result.exit_code for result in results] == [75, 75]
        assert "is being run already" in results[0].stderr
        assert current() == OLD


class TestEdit:
    @pytest.fixture
    def editor(self, monkeypatch):
        def use(code):
            Path("editor.py").write_text(f"import sys, json\npath = sys.argv[1]\n{code}\n")
            monkeypatch.delenv("VISUAL", raising=False)
            command = f"{shlex.quote(sys.executable)} {Path('editor.py').absolute()}"
            monkeypatch.setenv("EDITOR", command)

        return use

    def test_the_edited_state_is_stored(self, editor):
        editor(
            "text = open(path).read()\nassert 'ü' in text\n"
            "open(path, 'w').write(text.replace('2026', '2020') + '    ')"
        )
        result = state("edit", "orders")

        assert result.exit_code == 0, result.output
        assert current()["bookmarks"]["orders"]["replication_key_value"] == "2020-01-31 ü"

    def test_an_edit_into_no_json_object_is_refused(self, editor):
        editor("open(path, 'w').write('[1, 2')")
        result = state("edit", "orders")

        assert result.exit_code == 74
        assert "the edited text is no Singer state" in result.stderr
        assert current() == OLD

    def test_nothing_edited_is_nothing_stored(self, editor):
        editor("")
        before = Path("store/orders/state.json").stat().st_mtime_ns

        assert state("edit", "orders").output == "orders: state unchanged\n"
        assert Path("store/orders/state.json").stat().st_mtime_ns == before

    def test_a_state_that_changed_under_the_editor_is_not_overwritten(self, editor):
        editor(
            "open('store/orders/state.json', 'w').write('{\"run\": 1}')\n"
            "open(path, 'w').write('{\"mine\": 12345}')"
        )
        result = state("edit", "orders")

        assert result.exit_code == 74
        assert "changed by someone else" in result.stderr
        assert current() == {"run": 1}


class TestDelete:
    def test_a_yes_is_needed(self):
        assert state("delete", "orders", input="n\n").exit_code == 1
        assert current() == OLD
        assert state("delete", "orders", input="y\n").exit_code == 0
        assert store().get("orders") is None

    def test_yes_may_be_given_before(self):
        assert state("delete", "orders", "--yes").exit_code == 0
        assert store().get("orders") is None
        assert state("delete", "orders", "--yes").exit_code == 74


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
