"""The state commands that change: what they store, what they leave alone."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from singer_spark.state import PipelineState, create_state_store
from singer_spark.state.generation import (
    Attempt,
    Generation,
    digest,
    has_attempts,
    write_generation,
)
from singer_spark.state.holder import Holder
from singer_spark.state.lock import locked
from singer_spark.state.store import Checkpoint
from singer_spark.storage.objects import Expect
from tests.support.locks import ago
from tests.support.states import NEW, OLD, current, open_store, prepare, state


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    prepare(tmp_path, monkeypatch)


class TestSet:
    def test_a_file_becomes_the_state_and_the_rest_stays(self):
        open_store().save_checkpoint("orders", {"later": 1})
        assert state("set", "orders", "new.json").exit_code == 0

        after = open_store().get("orders")
        assert after == PipelineState("orders", NEW, "r", "2026-02-01T10:00:00+00:00", 7)
        assert open_store().read_checkpoint("orders") is None
        assert not Path("store/orders/lock").exists()

    def test_the_same_state_once_more_settles_what_failed_runs_left(self):
        store = open_store()
        left = Generation(number=1, attempts={"r1": Attempt()}, base=digest(OLD))
        write_generation(store, "orders", left, Expect.ABSENT)
        assert has_attempts(store, "orders")
        assert state("set", "orders", "-", input=json.dumps(OLD)).exit_code == 0
        assert not has_attempts(store, "orders")

    def test_standard_input_and_a_first_state_are_taken(self):
        assert state("set", "users", "-", input=json.dumps(NEW)).exit_code == 0
        assert open_store().get("users").watermark == NEW

    @pytest.mark.parametrize("text", ["", "{", "[]", "5", "null", '{"a": NaN}', "\xff"])
    def test_what_is_no_json_object_is_refused_in_one_line(self, text):
        result = state("set", "orders", "-", input=text.encode("latin-1"))

        assert result.exit_code == 74
        assert "is no Singer state: it must be a JSON object" in result.stderr
        assert result.stderr.count("\n") == 1
        assert current() == OLD

    @pytest.mark.parametrize("file", ["state.json", "meta.json"])
    def test_a_damaged_state_can_be_replaced(self, file):
        Path("store/orders", file).write_text("{")
        refused = state("set", "orders", "--stream", "orders", "5")
        assert refused.exit_code == 74
        assert "singer-spark state delete orders" in refused.stderr
        result = state("set", "orders", "new.json")

        assert result.exit_code == 0, result.output
        assert f"{file} is damaged" in result.stderr
        assert current() == NEW

    def test_the_state_of_a_run_in_progress_is_left_alone(self):
        with locked(open_store(), "orders"):
            results = [state("set", "orders", "new.json"), state("delete", "orders", "--yes")]

        assert [result.exit_code for result in results] == [75, 75]
        assert "is being run already" in results[0].stderr
        assert current() == OLD


class TestMove:
    def test_one_bookmark_is_moved_and_the_rest_stays(self):
        before = {
            "bookmarks": {
                "orders": {"replication_key": "at", "replication_key_value": "2026-01-31"},
                "items": {"replication_key_value": 500, "progress_markers": {"x": 1}},
                "pairs": {"replication_key_value": ["2026", 7]},
                "full": {},
            },
            "other": 1,
        }
        open_store().save(PipelineState("users", before))
        moves = [("orders", "2025-01-01"), ("items", "20"), ("pairs", '["2025", 1]')]
        result = state("set", "users", *(part for move in moves for part in ("--stream", *move)))

        assert result.exit_code == 0, result.output
        after = open_store().get("users").watermark
        assert after == {
            "bookmarks": {
                "orders": {"replication_key": "at", "replication_key_value": "2025-01-01"},
                "items": {"replication_key_value": 20},
                "pairs": {"replication_key_value": ["2025", 1]},
                "full": {},
            },
            "other": 1,
        }
        for stream, value in (("items", "soon"), ("items", "true"), ("pairs", "2025")):
            refused = state("set", "users", "--stream", stream, value)
            assert refused.exit_code == 74
            assert f"{stream}: {value} is not of the kind of its bookmark" in refused.stderr
        assert open_store().get("users").watermark == after

    def test_an_unknown_stream_names_the_known_ones(self):
        result = state("set", "orders", "--stream", "nix", "5")
        assert result.exit_code == 74
        assert "nix has no bookmark that can be moved; there are orders." in result.stderr
        assert current() == OLD

    def test_bookmarks_of_another_kind_are_no_traceback(self):
        open_store().save(PipelineState("users", {"bookmarks": {"a": 5, "b": None}}))
        result = state("set", "users", "--stream", "c", "1")
        assert (result.exit_code, result.stderr.count("\n")) == (74, 1)
        assert "c has no bookmark that can be moved; there are none" in result.stderr

    @pytest.mark.parametrize("arguments", [[], ["new.json", "--stream", "orders", "5"]])
    def test_a_file_or_streams_are_given_and_not_both(self, arguments):
        assert state("set", "orders", *arguments).exit_code == 78


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
        assert open_store().get("orders") is None

    def test_yes_may_be_given_before(self):
        assert state("delete", "orders", "--yes").exit_code == 0
        assert open_store().get("orders") is None
        assert state("delete", "orders", "--yes").exit_code == 74

    def test_a_damaged_state_can_be_deleted(self):
        Path("store/orders/state.json").write_text("{")
        result = state("get", "orders")
        assert result.exit_code == 74
        assert "orders/state.json is damaged" in result.stderr
        assert state("delete", "orders", "--yes").exit_code == 0
        assert state("set", "orders", "new.json").exit_code == 0


class TestReadOnly:
    def test_a_store_that_is_read_only_is_one_line_and_74(self, tmp_path):
        url = f"sqlite:///{tmp_path}/state.db"
        create_state_store(url).save(PipelineState("orders", OLD))
        shut = ["--state", f"{url}?mode=ro"]

        assert json.loads(state("get", "orders", *shut).output) == OLD
        changes = [["set", "orders", "new.json"], ["delete", "orders", "--yes"]]
        for change in changes:
            result = state(*change, *shut)
            assert result.exit_code == 74
            assert result.stderr.count("\n") == 1
            assert "readonly database" in result.stderr


class TestAccept:
    IDENTITY = {"source": {"place": "x"}, "tables": {"orders": {"id": "t"}}}

    @pytest.fixture(autouse=True)
    def known(self):
        before = open_store().get("orders")
        open_store().save(replace(before, metadata={**self.IDENTITY, "note": 1}))
        open_store().save_checkpoint("orders", {"later": 1})

    def test_the_next_run_takes_what_it_finds_and_the_state_stays(self):
        written = Path("store/orders/state.json").read_bytes()
        result = state("accept", "orders")

        assert result.exit_code == 0, result.output
        assert "orders: accepted; the next run takes source and tables as" in result.output
        after = open_store().get("orders")
        assert (after.watermark, after.run_count, after.metadata) == (OLD, 7, {"note": 1})
        assert open_store().read_checkpoint("orders").state == {"later": 1}
        assert Path("store/orders/state.json").read_bytes() == written

    @pytest.mark.parametrize("given", ["new.json", "-"])
    def test_a_state_that_is_set_belongs_to_what_the_next_run_finds(self, given):
        assert state("set", "orders", given, input=json.dumps(OLD)).exit_code == 0
        assert open_store().get("orders").metadata == {"note": 1}

    @pytest.mark.parametrize("value", ["2026-01-31 ü", "2025-01-01"])
    def test_a_bookmark_that_is_set_accepts_the_table_of_its_stream(self, value):
        assert state("set", "orders", "--stream", "orders", value).exit_code == 0
        assert open_store().get("orders").metadata == {"note": 1, "source": {"place": "x"}}

    def test_what_a_failed_first_run_left_can_be_accepted(self):
        open_store().save_checkpoint("users", Checkpoint(state={}, belongs=self.IDENTITY))
        assert state("accept", "users").exit_code == 0
        assert open_store().read_checkpoint("users").belongs == {}

    def test_get_and_list_show_the_state_as_ever(self):
        assert json.loads(state("get", "orders").output) == OLD
        assert "orders" in state("list").output

    def test_what_has_no_state_is_74_and_a_run_in_progress_75(self):
        assert state("accept", "users").exit_code == 74
        with locked(open_store(), "orders"):
            assert state("accept", "orders").exit_code == 75
        assert open_store().get("orders").metadata == {**self.IDENTITY, "note": 1}

    def test_a_lock_that_looks_dead_is_watched_and_said_so(self):
        store = open_store()
        holder = replace(Holder.here("r"), machine="another", heartbeat_at=ago(1000))
        store.documents.write("orders/lock", holder.to_dict(), Expect.ANYTHING)
        result = state("accept", "orders")
        assert result.exit_code == 0
        assert "Watching the lock of process" in result.stderr
