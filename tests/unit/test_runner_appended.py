"""Appended streams after a run that failed: they begin where their table's newest commit ends."""

from __future__ import annotations

import json
import shutil
import textwrap
from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from singer_spark import deltalog
from singer_spark.errors import SettingsError, StateError
from singer_spark.pipeline.endpoints import Plugin
from singer_spark.runner import RunOptions, Window
from singer_spark.runner.preview import StoredState
from singer_spark.runner.start import choose_start
from singer_spark.runner.supervisor import ChildError
from singer_spark.state import PipelineState
from singer_spark.state.change import accept_state, delete_state, replace_state
from singer_spark.state.create import open_objects
from tests.support.bench import TARGET

STORED = {"bookmarks": {"events": {"files": {"modified": 1}}, "orders": {"at": 1}}}
REACHED = {"files": {"modified": 2, "names": ["b"]}}
TAP = """
given = option("--state")
note("tap-state", open(given).read() if given else "{}")
note("run-id", os.environ["SINGER_SPARK_RUN_ID"])
note("run-file", open(os.environ["SINGER_SPARK_RUN_FILE"]).read())
"""
SOURCE = """
fact = {{"kind": "source", "stream": "", **{!r}}}
open(os.environ["SINGER_SPARK_REPORT"], "a").write(json.dumps(fact) + chr(10))
say(type="SCHEMA", stream="events", schema={{}}, key_properties=[])
"""


class Shop:
    """A bench whose tap and target bear the names of ours, and a folder of tables."""

    def __init__(self, bench):
        self.bench = bench
        self.lake = bench.folder / "lake"
        self.locks = True
        self.target = {"path": str(self.lake)}
        self.tap = {"source_url": "delta:x"}
        bench.write("target-spark-delta", TARGET)

    def pipeline(self):
        folder = self.bench.folder
        return {
            "tap": Plugin(str(folder / "tap-spark-source"), self.tap),
            "target": Plugin(str(folder / "target-spark-delta"), self.target),
            "transport": "records",
            "locks": self.locks,
        }

    def fail(self, *, source=None, sends=None, **options):
        """Run and fail; returns the run's id."""
        tell = SOURCE.format(source) if source else ""
        if sends:
            tell += f'say(type="STATE", value={sends!r})\nawait_note("committed")\n'
        self.bench.write("tap-spark-source", TAP + tell + "sys.exit(3)")
        self.bench.fail(ChildError, RunOptions(**options), **self.pipeline())
        return self.bench.note("run-id")

    @property
    def assigned(self):
        return json.loads(self.bench.note("run-file"))

    def run(self, *, sends=None, **options):
        """Run and succeed; returns the state that the tap was given."""
        said = f'say(type="STATE", value={sends!r})\n' if sends else ""
        schema = 'say(type="SCHEMA", stream="events", schema={}, key_properties=[])\n'
        self.bench.write("tap-spark-source", TAP + schema + said)
        changes = options.pop("changes", {})
        self.bench.run(RunOptions(**options), **{**self.pipeline(), **changes})
        return json.loads(self.bench.note("tap-state"))

    def commit(self, run_id, state=REACHED, *, table="events", **said):
        """Append a row in a commit like those of target-spark-delta."""
        told = {"pipeline": "p", "run_id": run_id, "stream": table, "rows": 1, "appends": True}
        text = json.dumps({**told, "state": state, **said})
        properties = CommitProperties(custom_metadata={"userMetadata": text})
        rows = pa.table({"id": [1]})
        path = str(self.lake / table)
        write_deltalake(path, rows, mode="append", commit_properties=properties)


@pytest.fixture
def shop(bench):
    return Shop(bench)


@pytest.fixture
def known(shop):
    shop.bench.store.save(PipelineState("p", STORED, run_count=1))
    return shop


MOVED = {"bookmarks": {**STORED["bookmarks"], "events": REACHED}}


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
        (log,) = deltalog.read_logs(open_objects(str(known.lake)), "p")
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

    def test_another_source_than_that_of_the_state_is_refused(self, known):
        store = known.bench.store
        store.save(replace(store.get("p"), metadata={"source": {"id": "1", "place": "a"}}))
        known.commit(known.fail(source={"id": "2", "place": "b"}, full=True), replaces=True)
        said = known.bench.fail(StateError, **known.pipeline()).message
        assert "events" in said
        assert "--refresh events" in said
        accept_state(store, store.get("p"))
        assert known.run() == MOVED
        assert known.assigned["source"] is None

    def test_digits_are_kept(self, known):
        text = '{"modified": 9007199254740995.1}'
        failed = known.fail()
        known.commit(failed, {"files": 1})
        log = known.lake / "events/_delta_log/00000000000000000000.json"
        escaped = json.dumps(json.dumps({"files": 1}))[1:-1]
        log.write_text(log.read_text().replace(escaped, json.dumps(text)[1:-1]))
        known.run()
        assert "9007199254740995.1" in known.bench.note("tap-state")


class TestTablesOfOneStream:
    """No start is right for all of them unless they are at one bookmark."""

    COPIES = {"events": {}, "more": {"__source__": "events"}}
    FURTHER = {"files": {"modified": 3}}

    @pytest.fixture
    def copied(self, known):
        known.target["stream_maps"] = self.COPIES
        return known

    def refuse(self, shop, **options):
        return shop.bench.fail(StateError, RunOptions(**options), **shop.pipeline()).message

    def test_they_go_on_together_where_all_are_at_one_bookmark(self, copied):
        failed = copied.fail()
        copied.commit(failed)
        copied.commit(failed, table="more", state_of="events")
        assert copied.run() == MOVED

    @pytest.mark.parametrize("other", ["behind", "untouched", "not made"])
    def test_they_are_refused_where_one_may_lack_rows(self, copied, other):
        if other == "untouched":
            copied.commit("an-old-run", table="more", state_of="events")
        failed = copied.fail()
        if other == "behind":
            copied.commit(failed, table="more", state_of="events")
        copied.commit(failed, self.FURTHER)
        said = self.refuse(copied)
        assert "another table of the stream may lack them" in said
        assert "singer-spark run p --refresh events" in said
        assert self.refuse(copied) == said
        assert "events" not in copied.run(refresh=("events",))["bookmarks"]

    def test_what_failed_first_can_be_refreshed_too(self, shop):
        """No state knows the stream yet, and the way out that is named must be one."""
        shop.target["stream_maps"] = self.COPIES
        shop.commit(shop.fail())
        assert "--refresh events" in self.refuse(shop)
        assert shop.run(refresh=("events",)) == {"bookmarks": {}}
        assert shop.assigned["reload"] == ["events"]

    @pytest.mark.parametrize("options", [{}, {"resume": True}])
    def test_a_table_that_had_no_row_is_no_obstacle(self, copied, options):
        """The target has released that bookmark, so every table has what belongs to it."""
        copied.commit(copied.fail(sends=MOVED))
        assert copied.run(**options) == MOVED

    def test_a_table_that_is_filled_no_more_is_no_obstacle(self, known):
        table = {"location": "x", "id": "x", "version": 0, "run_id": "x"}
        store = known.bench.store
        store.save(replace(store.get("p"), metadata={"tables": {"events": table}}))
        known.commit("an-old-run", table="people", state_of="events")
        known.commit(known.fail())
        assert known.run() == MOVED


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
        known.target["stream_maps"] = TestTablesOfOneStream.COPIES
        known.target["load_method"] = None
        known.target["stream_options"] = {"more": {"load_method": "append-only"}}
        known.commit("an-old-run", table="more", state_of="events")
        known.commit(known.fail())
        said = known.bench.fail(StateError, **known.pipeline()).message
        assert "remove its tables events, more, then load it anew" in said

    def test_rows_of_another_source_are_removed_first(self, known):
        """Or they would go on from a bookmark of the other source, or be there beside all of it."""
        store = known.bench.store
        store.save(replace(store.get("p"), metadata={"source": {"id": "1", "place": "a"}}))
        known.commit(known.fail(source={"id": "2", "place": "b"}))
        said = known.bench.fail(StateError, **known.pipeline()).message
        assert "remove its table, then load it anew: singer-spark run p --refresh events" in said
        assert "accept" not in said

    def test_a_stream_that_is_read_no_more_has_a_way_on(self, known):
        known.commit(known.fail(full=True))
        known.target["stream_maps"] = TestTablesOfOneStream.COPIES
        pipeline = {**known.pipeline(), "streams": ("orders",)}
        assert "singer-spark state set p" in known.bench.fail(StateError, **pipeline).message


def test_a_topic_that_is_read_afresh_once_more_goes_on(known):
    """Its rows replace none, whatever they are asked for."""
    known.tap["source_url"] = "kafka:there:9092"
    known.commit(known.fail(full=True))
    assert known.run(full=True) == {"bookmarks": {"events": REACHED}}


class TestWhereOnlyTheTargetReadsLogs:
    """The target refuses, says how far the failed run got, and `--resume` goes on from there."""

    TARGET = """
    given = json.load(open(os.environ["SINGER_SPARK_RUN_FILE"]))
    unread = [run for run, settled in given["unread"].items() if "events" not in settled]
    if unread and given["begins"].get("events") != {canonical!r}:
        fact = {{"kind": "reached", "stream": "events", "bookmark": {text!r}}}
        open(os.environ["SINGER_SPARK_REPORT"], "a").write(json.dumps(fact) + chr(10))
        sys.stdin.read()
        sys.exit(74)
    """
    DIGITS = '{"files": 9007199254740995.1}'

    @pytest.fixture
    def remote(self, known):
        known.target["spark_remote"] = "sc://there"
        body = self.TARGET.format(canonical=self.DIGITS, text=self.DIGITS)
        known.bench.write("target-spark-delta", textwrap.dedent(body) + TARGET)
        return known

    def refuse(self, shop, **options):
        schema = 'say(type="SCHEMA", stream="events", schema={}, key_properties=[])\n'
        shop.bench.write("tap-spark-source", TAP + schema)
        shop.bench.fail(ChildError, RunOptions(**options), **shop.pipeline())

    @pytest.mark.parametrize("options", [{}, {"resume": True}])
    def test_resume_leads_on(self, remote, options):
        remote.fail()
        self.refuse(remote, **options)
        state = remote.run(resume=True)
        assert "9007199254740995.1" in remote.bench.note("tap-state")
        assert state["bookmarks"]["orders"] == {"at": 1}

    def test_what_a_full_run_had_begun_goes_on(self, remote):
        remote.fail(full=True)
        self.refuse(remote)
        assert set(remote.run(resume=True)["bookmarks"]) == {"events"}
        assert "Resuming --full" in " ".join(remote.bench.lines)

    def test_what_someone_settled_counts_no_more(self, remote):
        failed, store = remote.fail(), remote.bench.store
        new = {"bookmarks": {**STORED["bookmarks"], "events": {"files": {"modified": 0}}}}
        replace_state(store, store.get("p"), new, streams=("events",))
        assert remote.run() == new
        assert remote.assigned["unread"] == {failed: ["events"]}


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
        assert known.assigned["unread"] == {failed: []}

    def test_what_lies_on_this_disk_is_not_what_a_spark_elsewhere_reads(self, known):
        failed = known.fail()
        known.commit(failed)
        target = known.pipeline()["target"]
        remote = Plugin(target.command, {**target.config, "spark_remote": "sc://there"})
        assert known.run(changes={"target": remote}) == STORED
        assert known.assigned["unread"] == {failed: []}
