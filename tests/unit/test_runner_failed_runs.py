"""What is remembered of failed runs, and which of it counts for a run that follows."""

from __future__ import annotations

import textwrap
from dataclasses import replace

import pytest
from click.testing import CliRunner

from singer_spark.cli import main
from singer_spark.errors import StateError
from singer_spark.pipeline.plugins import Plugin
from singer_spark.runner import RunOptions, failed_runs
from singer_spark.runner.start import choose_start
from singer_spark.runner.state_store import StoredState
from singer_spark.runner.supervisor import ChildError
from singer_spark.state.change import replace_state
from singer_spark.state.generation import read_generation
from tests.support.appended import COPIES, IDLE, MOVED, NONE, REACHED, STORED, TAP
from tests.support.bench import TARGET


class TestWhatIsRemembered:
    def attempts(self, shop):
        return [*read_generation(shop.bench.store, "p")[0].attempts]

    @pytest.mark.parametrize("locks", [True, False])
    def test_a_run_that_has_committed_nothing_is_not(self, known, locks):
        """Or an hourly start against a source that is down would crowd out those that have."""
        known.locks = locks
        failed = known.fail()
        known.commit(failed)
        known.bench.write("tap-spark-source", IDLE + "sys.exit(3)")
        known.bench.fail(ChildError, **known.pipeline())
        assert self.attempts(known) == [failed]
        assert known.run() == MOVED

    def test_more_than_can_be_is_refused_with_the_way_on(self, known, monkeypatch):
        monkeypatch.setattr(failed_runs, "ATTEMPTS_KEPT", 2)
        for _ in range(2):
            known.commit(known.fail())
        said = known.bench.fail(StateError, **known.pipeline()).message
        assert "singer-spark state recover p" in said
        assert len(self.attempts(known)) == 2
        assert self.recover(known) == 0
        assert known.run() == MOVED

    def test_as_many_as_there_are_stop_no_stream_with_a_key(self, known, monkeypatch):
        monkeypatch.setattr(failed_runs, "ATTEMPTS_KEPT", 2)
        for _ in range(3):
            known.commit(known.fail(), STORED["bookmarks"]["orders"], table="orders", appends=False)
        assert known.run() == STORED

    def test_recover_settles_them_where_the_tables_say_what_is_stored(self, known, monkeypatch):
        monkeypatch.setattr(failed_runs, "ATTEMPTS_KEPT", 2)
        for _ in range(2):
            known.commit(known.fail(), STORED["bookmarks"]["events"])
        known.bench.fail(StateError, **known.pipeline())
        assert self.recover(known) == 0
        assert self.attempts(known) == []
        assert known.run() == STORED

    def test_where_no_log_can_be_read_they_are_too_many(self, known, monkeypatch):
        monkeypatch.setattr(failed_runs, "ATTEMPTS_KEPT", 2)
        known.target["spark_remote"] = "sc://there"
        for _ in range(2):
            known.fail()
        assert "state set" in known.bench.fail(StateError, **known.pipeline()).message

    def recover(self, shop):
        where = ["--state", shop.bench.state, "--tables", str(shop.lake)]
        return CliRunner().invoke(main, ["state", "recover", "p", *where, "--yes"]).exit_code


class TestAStreamThatIsNotRead:
    """Its rows stop no other, and stay remembered until it is read again."""

    LATER = {"bookmarks": {**STORED["bookmarks"], "orders": {"at": 2}}}

    @pytest.mark.parametrize("locks", [True, False])
    @pytest.mark.parametrize("left_out", ["streams", "tables"])
    def test_it_goes_on_where_it_stopped_once_it_is_read(self, known, left_out, locks):
        known.locks = locks
        known.commit(known.fail())
        only = {"streams": ("orders",)}
        if left_out == "tables":
            only = {"tap": Plugin(known.pipeline()["tap"].command, {"tables": ["o*"]})}
        for _ in range(2):
            assert known.run(changes=only, sends=self.LATER)["bookmarks"] != MOVED["bookmarks"]
        assert known.run()["bookmarks"] == {**self.LATER["bookmarks"], "events": REACHED}
        known.run(sends=STORED)
        assert known.run() == STORED, "once it was read nothing is left of that"

    def test_what_has_no_right_start_stops_only_those_who_read_it(self, known):
        known.target["load_method"] = "append-only"
        known.commit(known.fail(full=True))
        refused = known.bench.fail(StateError, **known.pipeline()).message
        known.run(changes={"streams": ("orders",)}, sends=self.LATER)
        said = known.bench.fail(StateError, **known.pipeline()).message
        assert said == refused.replace("--resume", "--refresh events")
        assert known.run(refresh=("events",))["bookmarks"]["events"] == REACHED

    def test_a_table_of_a_schema_is_read_by_its_label(self, known):
        known.commit(known.fail(), table="shop_events", state_of="shop-events")
        command = known.pipeline()["tap"].command
        for pattern, is_read in (("shop.events", True), ("shop.*", True), ("shop_events", False)):
            tap = Plugin(command, {"tables": [pattern]})
            state = StoredState(known.bench.store, "p")
            state.read()
            pipeline = known.bench.pipeline(**{**known.pipeline(), "tap": tap})
            start = choose_start(pipeline, state, RunOptions(), print)
            assert ("shop-events" in start.state["bookmarks"]) is is_read


class TestTablesOfOneStream:
    """No start is right for all of them unless they are at one bookmark."""

    FURTHER = {"files": {"modified": 3}}

    @pytest.fixture
    def copied(self, known):
        known.target["stream_maps"] = COPIES
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
        shop.target["stream_maps"] = COPIES
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


class TestWhereOnlyTheTargetReadsLogs:
    """The target refuses, says how far the failed run got, and `--resume` goes on from there."""

    TARGET = """
    given = json.load(open(os.environ["SINGER_SPARK_RUN_FILE"]))
    failed = [one for one in given["failed"].values() if "events" not in one["settled"]]
    if failed and not given["read"] and given["begins"].get("events") != {canonical!r}:
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

    def test_what_a_success_of_other_streams_did_not_read_stays_remembered(self, remote):
        failed, only = remote.fail(), {"streams": ("orders",)}
        remote.bench.write("target-spark-delta", TARGET)
        for _ in range(2):
            remote.run(changes=only, sends=STORED)
        remote.run()
        assert remote.assigned["failed"] == {failed: {**NONE, "owes": ["events"]}}
        remote.run()
        assert remote.assigned["failed"] == {}

    def test_what_someone_settled_counts_no_more(self, remote):
        failed, store = remote.fail(), remote.bench.store
        new = {"bookmarks": {**STORED["bookmarks"], "events": {"files": {"modified": 0}}}}
        replace_state(store, store.get("p"), new, streams=("events",))
        assert remote.run() == new
        assert remote.assigned["failed"] == {failed: {**NONE, "settled": ["events"]}}
