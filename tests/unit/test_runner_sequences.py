"""What one run leaves to the next: rows of another source, and the ways on that errors name."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

from singer_spark.errors import StateError
from singer_spark.runner import RunOptions, Window
from singer_spark.runner.supervisor import ChildError
from singer_spark.state.change import accept_state, delete_state
from singer_spark.state.generation import read_generation
from tests.support.appended import MOVED, REACHED
from tests.support.bench import TAP, TARGET
from tests.support.locks import ago, write_lock

ONE, OTHER = {"id": "1", "place": "a"}, {"id": "2", "place": "b"}


def refuse(shop, **options):
    return shop.bench.fail(StateError, RunOptions(**options), **shop.pipeline()).message


class TestOneSource:
    """The state, and what failed runs have left, are of one source; the next run must find it."""

    @pytest.fixture
    def loaded(self, known):
        store = known.bench.store
        store.save(replace(store.get("p"), metadata={"source": ONE}))
        return known

    def test_a_first_run_that_failed_binds_the_next_one_to_its_source(self, shop):
        shop.fail(source=ONE)
        shop.run()
        assert shop.assigned["source"] == ONE

    def test_what_replaces_all_rows_may_be_of_any(self, shop):
        shop.fail(source=ONE)
        shop.run(full=True)
        assert (shop.assigned["source"], shop.assigned["reload"]) == (None, ["*"])

    def test_rows_of_another_than_the_state_are_refused(self, loaded):
        loaded.fail(source=OTHER, full=True)
        for options in ({}, {"refresh": ("events",)}):
            said = refuse(loaded, **options)
            assert "loaded rows of b, but the state belongs to a" in said
            assert "singer-spark run p --full" in said
        loaded.run(full=True)
        assert loaded.assigned["source"] is None

    def test_rows_of_two_that_failed_are_refused(self, shop):
        shop.fail(source=ONE)
        shop.fail(source=OTHER)
        assert "loaded rows of b, but another one loaded rows of a" in refuse(shop)

    def test_what_is_accepted_is_not_asked_for(self, loaded):
        loaded.commit(loaded.fail(source=OTHER, full=True), replaces=True)
        store = loaded.bench.store
        accept_state(store, store.get("p"))
        assert loaded.run() == MOVED
        assert loaded.assigned["source"] is None

    def test_a_window_leaves_it_as_it_is(self, loaded):
        loaded.fail(source=OTHER, full=True)
        loaded.run(window=Window("1", "2"))
        assert loaded.assigned["source"] == ONE
        refuse(loaded)

    def test_rows_of_a_stream_that_is_not_read_do_not_matter(self, loaded):
        loaded.commit(loaded.fail(source=OTHER, full=True))
        only = {"streams": ("orders",)}
        loaded.run(full=True, changes=only)
        loaded.run(changes=only)
        assert loaded.assigned["source"] == ONE
        assert "loaded rows of b" in refuse(loaded)

    @pytest.mark.parametrize("locks", [True, False])
    @pytest.mark.parametrize("source", [ONE, OTHER])
    def test_a_full_run_that_is_resumed_behind_its_rows_needs_its_source(
        self, loaded, source, locks
    ):
        loaded.locks = locks
        loaded.target["load_method"] = "append-only"
        loaded.commit(loaded.fail(source=source, full=True))
        assert loaded.run(resume=True) == {"bookmarks": {"events": REACHED}}
        assert loaded.assigned["source"] == source

    def test_the_way_on_is_not_refused_itself(self, loaded):
        """The other streams have bookmarks of the first source, so that one alone is not enough."""
        loaded.target["load_method"] = "append-only"
        loaded.commit(loaded.fail(source=OTHER, full=True))
        for options in ({}, {"refresh": ("events",)}):
            assert "remove the tables that are appended to, then load everything anew: " \
                "singer-spark run p --full" in refuse(loaded, **options)  # fmt: skip
        shutil.rmtree(loaded.lake / "events")
        assert loaded.run(full=True) == {}
        assert loaded.assigned["source"] is None

    def test_a_run_without_a_source_of_its_own_binds_nobody(self, known):
        known.commit(known.fail())
        assert known.run() == MOVED
        (attempts,) = [read_generation(known.bench.store, "p")[0].attempts]
        assert not attempts


class TestReadAfresh:
    """What an error names as the way on is open, whatever is remembered."""

    @pytest.fixture
    def forgotten(self, known):
        delete_state(known.bench.store, "p")
        return known

    def test_full_retires_also_where_the_state_was_lost(self, forgotten):
        forgotten.run(full=True)
        assert forgotten.assigned["reload"] == ["*"]

    def test_a_stream_is_refreshed_also_where_the_state_was_lost(self, forgotten):
        forgotten.run(refresh=("events",))
        assert forgotten.assigned["reload"] == ["events"]

    def test_a_stream_is_refreshed_also_where_the_state_knows_others_only(self, known):
        store = known.bench.store
        store.save(replace(store.get("p"), watermark={"bookmarks": {"orders": {"at": 1}}}))
        known.run(refresh=("events",))
        assert known.assigned["reload"] == ["events"]

    def test_where_each_run_reads_in_full_the_other_streams_are_too(self, known):
        assert known.run(refresh=("events",), changes={"incremental": False}) == {}
        assert known.assigned["reload"] == ["events"]


TABLE = {"location": "lake/x", "id": "t", "version": 7, "run_id": "r"}
TELL = """
def tell(stream, **fact):
    told = {"kind": "table", "stream": stream, **fact}
    open(os.environ["SINGER_SPARK_REPORT"], "a").write(json.dumps(told) + chr(10))
"""
SPY = 'note("run-file", open(os.environ["SINGER_SPARK_RUN_FILE"]).read())\n'


class TestTables:
    """The tables that a run is given must be found again; those that lack rows are not given."""

    @pytest.fixture
    def loads(self, bench):
        def load(*names, state='{"bookmarks": {"orders": 3}}', fails=False):
            """Run with a target that has these tables of the stream orders; give those told."""
            bench.write("tap-fake", SPY + TAP.replace('{"bookmarks": {"orders": 3}}', state))
            facts = [TABLE | ({"state_of": "orders"} if one == "copy" else {}) for one in names]
            tells = [f"tell({one!r}, **{fact!r})\n" for one, fact in zip(names, facts, strict=True)]
            end = "sys.exit(3)" if fails else ""
            bench.write("target-fake", TELL + "".join(tells) + TARGET + end)
            bench.fail(ChildError) if fails else bench.run()
            return {*json.loads(bench.note("run-file"))["tables"]}

        return load

    def test_a_table_that_was_left_out_of_a_run_lacks_its_rows(self, loads):
        loads("orders", "copy")
        assert loads("orders") == {"orders", "copy"}
        assert loads("orders", "copy") == {"orders"}

    def test_a_run_that_failed_before_all_were_told_does_not_count(self, loads, bench):
        loads("orders", "copy")
        loads("orders", fails=True)
        assert {*bench.store.read_checkpoint("p").belongs["tables"]} == {"orders", "copy"}
        assert loads() == {"orders", "copy"}
        assert loads("orders", "copy") == {"orders", "copy"}

    def test_tables_of_late_rows_are_told_only_when_there_are_some(self, loads):
        loads("orders", "orders__late")
        assert loads("orders") == {"orders", "orders__late"}
        assert loads("orders") == {"orders", "orders__late"}

    @pytest.mark.parametrize("state", ['{"cursor": 3}', '{"bookmarks": {"shop-orders": 3}}'])
    def test_other_taps_may_name_bookmarks_otherwise_than_streams(self, loads, state):
        loads("orders", state=state)
        for told in ((), ("orders",)):
            assert loads(*told, state=state) == {"orders"}

    def test_a_stream_of_theirs_with_an_empty_bookmark_is_read_whole(self, loads):
        state = '{"bookmarks": {"users": 3, "orders": {}}}'
        loads("orders", state=state)
        assert loads(state=state) == set()

    def test_one_that_was_never_made_is_owed_no_claim(self, loads, bench):
        """Or each run would start Spark to claim what is not there."""
        write_lock(bench.store, heartbeat_at=ago(1000))
        absent = {**TABLE, "id": "", "version": -1}
        bench.write("target-fake", TELL + f'tell("orders", **{absent!r})\n' + TARGET)
        bench.run()
        loads("orders")
        assert json.loads(bench.note("run-file"))["claims"] is False
