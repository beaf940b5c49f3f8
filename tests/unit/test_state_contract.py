"""One contract for all state stores."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest

from singer_spark.errors import SettingsError, StateError
from singer_spark.runner.record import RunRecord
from singer_spark.runner.state_store import StateInStore
from singer_spark.state import PipelineState
from singer_spark.state.holder import LostLockError
from singer_spark.state.lock import RunLock
from singer_spark.state.runs import list_runs, look_at, save_run
from singer_spark.storage.objects import Expect
from tests.support.locks import write_lock
from tests.support.stores import STATE


class TestEveryStore:
    def test_an_unknown_pipeline_has_no_state(self, store):
        assert store.get("nobody") is None
        assert store.list_pipelines() == []

    def test_what_was_saved_is_read_back_by_another_process(self, store, place):
        store.save(STATE)

        assert place.open().get("shop-orders") == STATE

    def test_state_json_is_the_plain_singer_state(self, store):
        store.save(STATE)

        stored = store.objects.read("shop-orders/state.json")
        assert json.loads(stored.body) == STATE.watermark

    def test_a_state_json_put_there_by_hand_is_a_known_pipeline(self, store):
        store.objects.write("by-hand/state.json", b'{"bookmarks": {}, "x": 1}', Expect.ABSENT)

        state = store.get("by-hand")
        assert state == PipelineState("by-hand", {"bookmarks": {}, "x": 1})
        assert store.list_pipelines() == ["by-hand"]

    def test_a_run_without_state_is_remembered_without_inventing_one(self, store):
        store.save(PipelineState("empty", run_count=1))

        assert store.objects.read("empty/state.json") is None
        assert store.get("empty") == PipelineState("empty", run_count=1)

    def test_one_store_saves_again_and_again(self, store):
        store.save(STATE)
        store.save(replace(STATE, run_count=2))
        third = store.save(replace(store.get("shop-orders"), run_count=3))
        store.save(replace(third, run_count=4))

        assert store.get("shop-orders").run_count == 4

    def test_of_two_first_saves_the_second_is_refused(self, store, place):
        other = place.open()
        assert store.get("shop-orders") is None
        assert other.get("shop-orders") is None
        store.save(STATE)

        with pytest.raises(StateError, match="someone else"):
            other.save(replace(STATE, run_count=9))
        assert store.get("shop-orders") == STATE

    def test_a_save_over_a_newer_state_is_refused(self, store):
        store.save(STATE)
        mine, theirs = store.get("shop-orders"), store.get("shop-orders")
        store.save(replace(theirs, watermark={"newer": True}))

        with pytest.raises(StateError, match=r"shop-orders/state\.json.*someone else"):
            store.save(replace(mine, watermark={"older": True}))
        assert store.get("shop-orders").watermark == {"newer": True}

    def test_a_save_over_a_state_that_nobody_read_is_refused(self, store, place):
        store.save(STATE)

        with pytest.raises(StateError, match="someone else"):
            place.open().save(replace(STATE, run_count=2))

    def test_a_save_over_a_deleted_state_is_refused(self, store, place):
        read = store.save(STATE)
        place.open().delete("shop-orders")

        with pytest.raises(StateError, match="someone else"):
            store.save(replace(read, run_count=2))
        assert place.open().get("shop-orders") is None

    def test_delete_forgets_one_pipeline_only(self, store):
        store.save(STATE)
        store.save(replace(STATE, pipeline_name="other"))
        store.save_checkpoint("shop-orders", {"a": 1})
        store.delete("shop-orders")
        store.delete("nobody")

        assert store.get("shop-orders") is None
        assert store.read_checkpoint("shop-orders") is None
        assert store.list_pipelines() == ["other"]
        store.save(STATE)

    def test_the_list_is_sorted_and_knows_state_from_other_folders(self, store):
        for name in ("b", "a.1", "c_2"):
            store.save(PipelineState(name, {"x": 1}))
        store.objects.write("d/runs/1.json", b"{}", Expect.ABSENT)
        store.objects.write("a.1/runs/1.json", b"{}", Expect.ABSENT)

        assert store.list_pipelines() == ["a.1", "b", "c_2"]
        assert store.list_names() == ["a.1", "b", "c_2", "d"]

    def test_a_checkpoint_is_overwritten_and_removed(self, store):
        assert store.read_checkpoint("p") is None
        store.save_checkpoint("p", {"n": 1})
        store.save_checkpoint("p", {"n": 2})
        assert store.read_checkpoint("p").state == {"n": 2}

        store.delete_checkpoint("p")
        assert store.read_checkpoint("p") is None

    @pytest.mark.parametrize("file", ["state.json", "meta.json"])
    def test_a_damaged_file_is_named_in_one_line(self, store, place, file):
        for body in (b"", b"{", b"[1]", b"null", b"\xff\xfe\x00"):
            if place.kind in ("sqlite", "postgres", "mysql") and not body.isascii():
                continue  # a column of text takes no such bytes
            place.damage(f"p/{file}", body)

            with pytest.raises(StateError) as caught:
                store.get("p")
            assert caught.value.exit_code == 74
            assert store.objects.locate(f"p/{file}") in caught.value.message
            assert "singer-spark state delete p" in caught.value.message

    def test_meta_of_the_wrong_kind_is_damage_too(self, store):
        store.objects.write("p/meta.json", b'{"run_count": "many"}', Expect.ABSENT)

        with pytest.raises(StateError, match=r"meta\.json is damaged"):
            store.get("p")

    def test_an_unsafe_name_reaches_no_file(self, store):
        for name in ("", "..", "../x", "a/b", ".hidden", "a b", "a\n", "x" * 200):
            for call in (store.get, store.delete, store.read_checkpoint):
                with pytest.raises(SettingsError, match="name"):
                    call(name)
            with pytest.raises(SettingsError, match="name"):
                store.save(PipelineState(name, {"x": 1}))

    def test_what_json_cannot_carry_is_refused_before_anything_is_written(self, store):
        for value in (float("nan"), float("inf"), object()):
            with pytest.raises(StateError, match="JSON cannot carry"):
                store.save(PipelineState("p", {"x": value}))
        assert store.get("p") is None

    def test_names_that_differ_by_case_are_two_pipelines(self, store):
        store.save(PipelineState("orders", {"x": 1}))
        store.save(PipelineState("Orders", {"x": 2}))
        save_run(store, "Orders", {"run_id": "r"})

        assert store.get("orders").watermark == {"x": 1}
        assert store.list_pipelines() == ["Orders", "orders"]
        assert list_runs(store, "orders") == []

    def test_a_state_id_of_meltano_is_a_name_too(self, store):
        store.save(PipelineState("dev:tap-a-to-target-b", {"x": 1}))
        assert store.list_pipelines() == ["dev:tap-a-to-target-b"]

    def test_history_and_summary_live_beside_the_state(self, store, place):
        for number in range(3):
            save_run(store, "p", {"run_id": f"r{number}", "streams": {}})

        other = place.open()
        assert [run["run_id"] for run in list_runs(other, "p")] == ["r2", "r1", "r0"]
        assert len(look_at(other, "p")[0].runs) == 3
        assert other.list_pipelines() == []
        assert other.list_names() == ["p"]
        store.save(PipelineState("p", {"x": 1}))
        store.delete("p")
        assert len(list_runs(store, "p")) == 3

    def test_a_large_state_is_kept_whole(self, store):
        large = {"bookmarks": {f"stream-{number}": {"é": "x" * 100} for number in range(3000)}}
        store.save(PipelineState("p", large))
        assert store.get("p").watermark == large

    def test_a_run_that_lost_its_lock_stores_no_state(self, store):
        store.save(PipelineState("p", {"old": 1}))
        lock, record = RunLock(store, "p", "run-1"), RunRecord(pipeline="p", run_id="run-1")
        lock.acquire()
        book = StateInStore(store, lock, record)
        book.read()
        write_lock(store)

        with pytest.raises(LostLockError) as caught:
            book.finish({"new": 1})
        assert caught.value.exit_code == 75
        book.fail({"new": 1})
        assert store.get("p").watermark == {"old": 1}
        assert store.read_checkpoint("p") is None


class TestPipelineState:
    def test_to_dict_and_from_dict_are_inverse(self):
        values = STATE.to_dict()

        assert PipelineState.from_dict(json.loads(json.dumps(values))) == STATE
        assert list(values) == [f.name for f in fields(PipelineState) if f.compare]

    def test_missing_keys_have_their_defaults(self):
        assert PipelineState.from_dict({"pipeline_name": "p"}) == PipelineState("p", {}, None, None)

    def test_it_cannot_be_changed(self):
        with pytest.raises(AttributeError):
            STATE.run_count = 2
