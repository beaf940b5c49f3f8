"""Appended streams after a run that failed: they begin where their table's newest commit ends."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from deltalake import DeltaTable

from singer_spark import deltalog
from singer_spark.errors import SettingsError, StateError
from singer_spark.pipeline.plugins import Plugin
from singer_spark.runner import RunOptions, Window
from singer_spark.runner.start import choose_start
from singer_spark.runner.state_store import StoredState
from singer_spark.runner.supervisor import ChildError
from singer_spark.state import PipelineState
from singer_spark.state.change import accept_state, delete_state, replace_state
from singer_spark.state.recover import read_logs
from singer_spark.storage.open import open_objects
from tests.support.appended import COPIES, MOVED, NONE, REACHED, STORED, TAP


class TestAfterAFailure:
    def test_a_commit_that_lacks_rows_and_was_not_taken_back_is_refused(self, known, monkeypatch):
        known.commit(known.fail(), rows=3)
        counted = {"numOutputRows": "1"}
        read = deltalog.commit_info
        monkeypatch.setattr(
            deltalog, "commit_info", lambda *a, **k: replace(read(*a, **k), metrics=counted)
        )
        known.bench.fail(StateError, RunOptions(), **known.pipeline())
        assert known.run(refresh=("events",))["bookmarks"] == {
            name: value for name, value in STORED["bookmarks"].items() if name != "events"
        }

    def test_the_stream_begins_after_the_rows_that_are_there_and_says_so(self, known):
        failed = known.fail()
        known.commit(failed)

        assert known.run() == MOVED
        (line,) = [line for line in known.bench.lines if line.startswith("events: ")]
        assert line == f"events: begins after the rows that run {failed}, which failed, left"
        assert (known.assigned["failed"], known.assigned["read"]) == ({failed: NONE}, {"events": 0})
        # Nothing new came, but what is there counts from now on.
        assert known.bench.store.get("p").watermark == MOVED

    @pytest.mark.parametrize("options", [{}, {"full": True}])
    def test_a_first_run_that_failed_leaves_a_start_too(self, shop, options):
        shop.commit(shop.fail(**options))
        assert shop.run() == {"bookmarks": {"events": REACHED}}

    def test_runs_that_fail_one_after_another_go_on_from_each_other(self, known):
        known.commit(known.fail())
        second = known.fail()
        assert json.loads(known.bench.note("tap-state")) == MOVED
        further = {"files": {"modified": 3}}
        known.commit(second, further)
        known.fail()
        assert known.run()["bookmarks"]["events"] == further

    def test_a_run_that_was_killed_counts(self, known):
        known.bench.write("tap-spark-source", TAP + "sys.exit(3)")
        lose = 'os.remove(here + "/state/p/lock")\n'
        known.bench.write("tap-spark-source", TAP + lose + "sys.exit(3)")
        known.bench.fail(ChildError, **known.pipeline())
        known.commit(known.bench.note("run-id"))
        assert known.run() == MOVED

    def test_a_resumed_run_begins_there_too(self, known):
        known.commit(known.fail())
        known.bench.store.save_checkpoint("p", STORED)
        assert known.run(resume=True) == MOVED

    def test_a_commit_that_was_taken_back_does_not_count_but_those_before_it(self, known):
        failed = known.fail()
        known.commit(failed)
        known.commit(failed, {"files": {"modified": 9}})
        known.commit(failed, None, rows=None, undoes=1)
        assert known.run() == MOVED
        (log,) = read_logs(open_objects(str(known.lake)), "p")
        assert (log.commit.state, log.restored_in) == (REACHED, None)

    @pytest.mark.parametrize("options", [{"full": True}, {"refresh": ("events",)}])
    def test_a_swap_of_a_run_that_read_everything_afresh_counts(self, known, options):
        known.commit(known.fail(**options), appends=False, replaces=True)
        assert known.run() == MOVED

    @pytest.mark.parametrize("locks", [True, False])
    def test_it_needs_no_lock(self, known, locks):
        known.locks = locks
        known.commit(known.fail())
        assert known.run() == MOVED
        assert known.run(sends=STORED) == MOVED
        assert known.run() == STORED  # a success ends it

    def test_a_dry_run_says_so_too(self, known):
        known.commit(known.fail())
        state = StoredState(known.bench.store, "p")
        state.read()
        start = choose_start(known.bench.pipeline(**known.pipeline()), state, RunOptions(), print)
        assert start.state == MOVED

    def test_a_bookmark_that_is_moved_by_hand_leaves_the_others(self, known):
        failed = known.fail()
        known.commit(failed)
        known.commit(failed, {"at": 5}, table="orders")
        store, moved = known.bench.store, {"events": REACHED, "orders": {"at": 0}}
        new = {"bookmarks": {**STORED["bookmarks"], "orders": {"at": 0}}}
        replace_state(store, store.get("p"), new, streams=("orders",))
        assert known.run() == {"bookmarks": moved}

    def test_its_source_must_be_found_again(self, known):
        """Rows of another source are in the table, whose bookmark says nothing of this one."""
        known.commit(known.fail(source={"id": "1", "place": "a"}, full=True), replaces=True)
        assert known.run() == MOVED
        assert known.assigned["source"] == {"id": "1", "place": "a"}

    def test_digits_are_kept(self, known):
        text = '{"modified": 9007199254740995.1}'
        failed = known.fail()
        known.commit(failed, {"files": 1})
        log = known.lake / "events/_delta_log/00000000000000000000.json"
        escaped = json.dumps(json.dumps({"files": 1}))[1:-1]
        log.write_text(log.read_text().replace(escaped, json.dumps(text)[1:-1]))
        known.run()
        assert "9007199254740995.1" in known.bench.note("tap-state")


class TestAppendedByName:
    """Everything is appended once more by a full run, and no row of that twice."""

    @pytest.fixture(autouse=True)
    def _append_only(self, shop):
        shop.target["load_method"] = "append-only"

    @pytest.mark.parametrize("again", [{"full": True}, {"resume": True}])
    def test_a_full_run_that_failed_goes_on(self, known, again):
        known.commit(known.fail(full=True))
        assert known.run(**again) == {"bookmarks": {"events": REACHED}}
        assert "events" not in known.assigned["reload"]

    @pytest.mark.parametrize("again", [{"full": True}, {"resume": True}, {}])
    def test_a_first_full_run_that_failed_goes_on(self, shop, again):
        shop.commit(shop.fail(full=True))
        assert shop.run(**again) == {"bookmarks": {"events": REACHED}}

    @pytest.mark.parametrize(
        ("options", "way"), [({"full": True}, "--resume"), ({"refresh": ("events",)}, "--resume")]
    )
    def test_a_run_from_the_state_is_refused_and_the_way_is_open(self, known, options, way):
        """Rows since the state are there, and some from before it twice."""
        known.commit(known.fail(**options))
        said = known.bench.fail(StateError, **known.pipeline()).message
        assert f"singer-spark run p {way}" in said
        assert known.run(resume=True)["bookmarks"]["events"] == REACHED

    @pytest.mark.parametrize(
        ("options", "again"),
        [({"refresh": ("events",)}, {"resume": True}), ({"full": True}, {"full": True})],
    )
    def test_what_goes_on_belongs_to_the_table_that_it_has_made(self, known, options, again):
        """The old one was removed before, as a refusal had said."""
        table = {"location": "x", "id": "old", "version": 0, "run_id": "x"}
        store = known.bench.store
        tables = {"events": table, "copy": {**table, "state_of": "events"}, "orders": table}
        store.save(replace(store.get("p"), metadata={"tables": tables}))
        failed = known.fail(**options)
        known.commit(failed)
        known.commit(failed, table="copy", state_of="events")
        if "refresh" in options:
            # As of a run that was killed, whose target could tell nothing more.
            found = store.read_checkpoint("p")
            store.save_checkpoint("p", replace(found, belongs={}))
        assert known.run(**again)["bookmarks"]["events"] == REACHED
        assert not {"events", "copy"} & {*known.assigned["tables"]}

    def test_so_it_is_where_every_run_read_in_full(self, known):
        known.bench.write("tap-spark-source", TAP + "sys.exit(3)")
        known.bench.fail(ChildError, **{**known.pipeline(), "incremental": False})
        known.commit(known.bench.note("run-id"))
        said = known.bench.fail(StateError, **known.pipeline()).message
        assert "singer-spark run p --refresh events" in said
        assert known.run(refresh=("events",))["bookmarks"]["events"] == REACHED

    def test_rows_that_are_lost_are_not_found_by_appending_all_once_more(self, shop, monkeypatch):
        shop.commit(shop.fail(), rows=3)
        counted, read = {"numOutputRows": "1"}, deltalog.commit_info
        monkeypatch.setattr(
            deltalog, "commit_info", lambda *a, **k: replace(read(*a, **k), metrics=counted)
        )
        for options in ({}, {"full": True}, {"refresh": ("events",)}):
            said = shop.bench.fail(StateError, RunOptions(**options), **shop.pipeline()).message
            assert "remove its table, then load it anew: singer-spark run p --refresh eve" in said
        shutil.rmtree(shop.lake / "events")
        assert shop.run(refresh=("events",)) == {"bookmarks": {}}

    def test_all_tables_of_a_torn_stream_are_named(self, known):
        known.target["stream_maps"] = COPIES
        known.target["load_method"] = None
        known.target["stream_options"] = {"more": {"load_method": "append-only"}}
        known.commit("an-old-run", table="more", state_of="events")
        known.commit(known.fail())
        said = known.bench.fail(StateError, **known.pipeline()).message
        assert "remove its tables events, more, then load it anew" in said


def test_a_topic_that_is_read_afresh_once_more_goes_on(known):
    """Its rows replace none, whatever they are asked for."""
    known.tap["source_url"] = "kafka:there:9092"
    known.commit(known.fail(full=True))
    assert known.run(full=True) == {"bookmarks": {"events": REACHED}}


class TestNotWhere:
    def test_the_last_run_succeeded(self, known, monkeypatch):
        known.commit(known.fail())
        known.run(sends=STORED)
        monkeypatch.setattr(deltalog, "log_versions", None)  # no log is read
        assert known.run() == STORED

    @pytest.mark.parametrize(
        "change",
        [
            lambda store, known: replace_state(store, known, known.watermark),
            lambda store, _: (delete_state(store, "p"), store.save(PipelineState("p", STORED))),
        ],
    )
    def test_someone_set_the_state_since(self, known, change):
        known.commit(known.fail())
        store = known.bench.store
        change(store, store.get("p"))
        assert known.run() == STORED

    def test_what_is_accepted_goes_on_as_it_would_have(self, known):
        known.commit(known.fail())
        store = known.bench.store
        accept_state(store, store.get("p"))
        assert known.run() != STORED

    def test_someone_wrote_another_state(self, known):
        known.commit(known.fail())
        other = {"bookmarks": {"events": {"files": {"modified": 0}}}}
        (known.bench.folder / "state/p/state.json").write_text(json.dumps(other))
        assert known.run() == other

    def test_all_of_it_is_to_be_appended_once_more(self, known):
        """A full run that follows a failed one appends everything, behind what is there."""
        known.target["load_method"] = "append-only"
        known.commit(known.fail())
        assert known.run(full=True) == {}

    def test_the_run_itself_begins_elsewhere(self, known):
        known.commit(known.fail())
        assert known.run(full=True) == {}

    def test_the_stream_is_refreshed_while_others_go_on(self, known):
        failed = known.fail()
        known.commit(failed)
        known.commit(failed, {"at": 5}, table="orders")
        assert known.run(refresh=("events",)) == {"bookmarks": {"orders": {"at": 5}}}

    def test_a_stream_that_the_tap_does_not_read_is_not_refreshed(self, known):
        known.bench.write("tap-spark-source", TAP)
        options = RunOptions(refresh=("events",))
        error = known.bench.fail(SettingsError, options, **known.pipeline())
        assert "the tap has sent no stream events" in error.message
        assert known.bench.store.get("p").watermark == STORED

    def test_a_range_is_read_and_what_failed_before_still_counts_afterwards(self, known):
        known.commit(known.fail())
        assert known.run(window=Window("1", "2")) == {}
        assert known.assigned["failed"] == {}
        assert known.run() == MOVED

    @pytest.mark.parametrize(
        "said",
        [
            {"appends": False},
            {"appends": None},
            {"state": None},
            {"pipeline": "another"},
        ],
    )
    def test_the_newest_commit_is_not_of_that_kind(self, known, said):
        failed = known.fail()
        known.commit(failed, **{"table": "events", **said})
        assert known.run() == STORED

    def test_the_newest_commit_is_of_a_run_that_nobody_knows(self, known):
        known.fail()
        known.commit("another")
        assert known.run() == STORED

    def test_a_newer_commit_has_no_bookmark(self, known):
        failed = known.fail()
        known.commit(failed)
        known.commit(failed, None)
        assert known.run() == STORED

    def test_the_table_was_turned_back_since(self, known):
        failed = known.fail()
        known.commit("another")
        known.commit(failed)
        DeltaTable(str(known.lake / "events")).restore(0)
        assert known.run() == STORED

    def test_changes_of_others_are_no_obstacle(self, known):
        known.commit(known.fail())
        known.commit("x", pipeline="another")
        known.commit("x", rows=None)
        assert known.run() == MOVED

    def test_every_run_reads_in_full(self, known):
        known.commit(known.fail())
        assert known.run(changes={"incremental": False}) == {}

    def test_of_logs_that_cannot_be_read_the_target_is_asked(self, known):
        failed = known.fail()
        known.commit(failed)
        known.lake.rename(known.bench.folder / "away")
        known.lake.write_text("no folder")
        assert known.run() == STORED
        assert (known.assigned["failed"], known.assigned["read"]) == ({failed: NONE}, {})

    def test_what_lies_on_this_disk_is_not_what_a_spark_elsewhere_reads(self, known):
        failed = known.fail()
        known.commit(failed)
        target = known.pipeline()["target"]
        remote = Plugin(target.command, {**target.config, "spark_remote": "sc://there"})
        assert known.run(changes={"target": remote}) == STORED
        assert (known.assigned["failed"], known.assigned["read"]) == ({failed: NONE}, {})
