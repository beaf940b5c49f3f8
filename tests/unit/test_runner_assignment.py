"""What a run tells tap and target: its number, what it reloads, what its state belongs to."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from singer_spark.assignment import Assignment, Loaded
from singer_spark.errors import StateError
from singer_spark.pipeline.plugins import Plugin
from singer_spark.report import read_report
from singer_spark.runner import RunOptions, StateFiles, Window
from singer_spark.runner.identity import Identities, known_identities, with_identities
from singer_spark.runner.loading import copied_by, has_maps, loads_of
from singer_spark.runner.supervisor import ChildError
from singer_spark.state import PipelineState
from singer_spark.state.change import accept_state, delete_state, replace_state
from singer_spark.state.generation import Generation, read_generation, write_generation
from singer_spark.state.holder import LostLockError, confirm_lock, end_lock, read_lock
from singer_spark.storage.objects import Expect
from target_spark_delta.table.races import overtaken
from tests.support.bench import TAP, TARGET
from tests.support.locks import ago, write_lock

SPY = """
path = os.environ["SINGER_SPARK_RUN_FILE"]
note("mode", oct(os.stat(path).st_mode & 0o777))
note("run-file", open(path).read())
note("state-url", os.environ["SINGER_SPARK_STATE_URL"])
note("lock", open(here + "/state/p/lock").read() if os.path.exists(here + "/state/p/lock") else "")
"""
APPENDED = {"load_method": "append-only"}
REPLACED = {"load_method": "delete-insert", "range_column": "at"}
TABLE = {"location": "lake/orders", "id": "t-1", "version": 7, "run_id": "r", "key": ["id"]}
SOURCE = {"id": "postgresql:1/shop", "place": "jdbc:postgresql://db:5432/shop"}
STATE = {"bookmarks": {"orders": {"replication_key_value": 3}}}
REPORT = """
def report(**fact):
    open(os.environ["SINGER_SPARK_REPORT"], "a").write(json.dumps(fact) + chr(10))
"""


@pytest.fixture
def spied(bench):
    bench.write("tap-fake", SPY + TAP)
    return bench


def told(bench):
    return json.loads(bench.note("run-file"))


class TestReload:
    @pytest.fixture
    def known(self, spied):
        spied.store.save(PipelineState("p", STATE, run_count=1))
        return spied

    def test_it_is_a_private_file_and_the_store_an_environment_variable(self, spied):
        spied.run()

        assert spied.note("mode") == "0o600"
        assert json.loads(spied.note("state-url")) == spied.state
        assert told(spied) | {"generation": 0} == {
            "generation": 0, "claims": False, "claimed": [], "reload": [], "resumes": False,
            "loads": None, "renames": False, "rereads": False, "copied": [],
            "source": None, "tables": {}, "failed": {}, "read": {}, "begins": {},
            "cleans": False, "remembers": True,
        }  # fmt: skip

    @pytest.mark.parametrize("locks", [True, False])
    def test_it_says_whether_a_run_before_it_may_have_left_things(self, spied, locks):
        spied.run(locks=locks)
        assert told(spied)["cleans"] is False
        spied.write("target-fake", "sys.exit(3)")
        spied.fail(ChildError, locks=locks)
        spied.write("target-fake", TARGET)
        spied.run(locks=locks)
        assert told(spied)["cleans"] is True
        spied.run(locks=locks)
        assert told(spied)["cleans"] is False

    def test_a_plain_run_reloads_nothing(self, known):
        known.run()
        assert told(known)["reload"] == []

    def test_full_reloads_everything_and_refresh_a_stream(self, known):
        known.run(full=True)
        assert told(known)["reload"] == ["*"]
        known.run(RunOptions(refresh=("orders",)))
        assert told(known)["reload"] == ["orders"]

    def test_a_first_run_and_one_that_always_reads_in_full_reload_nothing(self, spied):
        spied.run()
        assert told(spied)["reload"] == []
        spied.run(incremental=False)
        assert told(spied)["reload"] == []

    @pytest.mark.parametrize(
        ("config", "expected"),
        [
            ({}, Loaded(by_key=True)),
            ({"load_method": "append-only"}, Loaded()),
            ({"stream_options": {"o*": {"key_properties": []}}}, Loaded()),
            ({"stream_options": {"x": APPENDED}}, Loaded(by_key=True)),
            ({"stream_options": {"x": REPLACED, "orders": APPENDED}}, Loaded()),
            ({"stream_options": {"*": REPLACED}}, Loaded(by_key=True, replaces=True)),
            ({"load_method": "delete-insert"}, Loaded(by_key=True)),
            ({"stream_maps": {"x": {}}}, Loaded(by_key=True)),
            ({"stream_maps": {"x": {}}, "stream_options": {"x": APPENDED}}, Loaded(is_sure=False)),
            ({"stream_maps": {"x": {"__key_properties__": []}}}, Loaded(is_sure=False)),
        ],
    )
    def test_it_says_of_each_stream_how_its_rows_are_loaded(self, config, expected):
        target = Plugin("target-spark-delta", config)
        pipeline = SimpleNamespace(tap=Plugin("tap", {}), target=target)
        run = Assignment(run_id="r", loads=loads_of(pipeline), renames=has_maps(pipeline))
        assert run.loaded("orders", ["id"]) == expected
        pipeline.target = Plugin("target-jsonl", config)
        assert Assignment(run_id="r", loads=loads_of(pipeline)).loaded("orders", ["id"]) == Loaded()

    def test_it_says_how_many_tables_streams_fill_at_least(self):
        maps = {"orders": {}, "more": {"__source__": "ord*"}, "gone": None}
        sides = {"tap": Plugin("tap", {}), "target": Plugin("target", {"stream_maps": maps})}
        run = Assignment(run_id="r", copied=copied_by(SimpleNamespace(**sides)))
        assert (run.tables_of("orders"), run.tables_of("users")) == (2, 1)

    def test_files_have_no_lock_and_no_memory_but_reload(self, spied):
        given = spied.folder / "in.json"
        given.write_text(json.dumps(STATE))
        spied.run(RunOptions(full=True, files=StateFiles(given)))

        assert told(spied) == {
            "generation": None, "claims": False, "claimed": [], "reload": ["*"], "resumes": False,
            "loads": None, "renames": False, "rereads": False, "copied": [],
            "source": None, "tables": {}, "failed": {}, "read": {}, "begins": {},
            "cleans": False, "remembers": False,
        }  # fmt: skip
        assert spied.note("state-url") == ""

    def test_what_a_run_around_us_was_told_is_not_passed_on(self, spied, monkeypatch):
        monkeypatch.setenv("SINGER_SPARK_RUN_FILE", "/other")
        monkeypatch.setenv("SINGER_SPARK_STATE_URL", '"other"')
        spied.run(RunOptions(files=StateFiles()))
        assert spied.note("state-url") == ""


class TestGeneration:
    def test_each_run_has_a_higher_number_which_the_lock_shows(self, spied):
        numbers = []
        for _ in range(3):
            spied.run()
            numbers.append(told(spied)["generation"])
            assert json.loads(spied.note("lock"))["generation"] == numbers[-1]

        assert numbers == sorted(set(numbers))
        assert time.time() - 60 < numbers[0] <= time.time() + 1

    def test_it_is_higher_than_any_before_whatever_the_clock_says(self, spied):
        write_generation(spied.store, "p", Generation(number=2**40), Expect.ABSENT)
        spied.run()
        assert told(spied)["generation"] == 2**40 + 1

    def test_after_a_run_that_ended_in_order_nothing_is_claimed(self, spied):
        spied.run()
        spied.write("target-fake", "sys.exit(3)")
        spied.fail(ChildError)
        spied.fail(ChildError)
        assert told(spied)["claims"] is False

    def test_who_takes_over_a_dead_lock_claims(self, spied):
        write_lock(spied.store, heartbeat_at=ago(1000), generation=2**40)
        spied.run()

        assert told(spied)["claims"] is True
        assert told(spied)["generation"] == 2**40 + 1
        spied.run()
        assert told(spied)["claims"] is False

    def test_after_unlock_the_next_run_claims(self, spied):
        lose = 'os.remove(here + "/state/p/lock")\n'  # what unlock does
        spied.write("target-fake", TARGET + lose)
        spied.fail(LostLockError)
        spied.write("target-fake", TARGET)
        spied.run()
        assert told(spied)["claims"] is True

    def test_a_claim_is_owed_until_a_run_succeeds(self, spied):
        write_lock(spied.store, heartbeat_at=ago(1000))
        spied.write("target-fake", "sys.exit(3)")
        spied.fail(ChildError)
        spied.write("target-fake", TARGET)
        spied.run()
        assert told(spied)["claims"] is True

    def test_a_claim_is_owed_until_every_known_table_is_claimed(self, spied):
        tables = {"orders": TABLE, "items": TABLE}
        state = {"bookmarks": {"orders": 3, "items": 3}}
        spied.store.save(PipelineState("p", state, run_count=1, metadata={"tables": tables}))
        spied.write("tap-fake", SPY + TAP.replace('{"orders": 3}', '{"orders": 3, "items": 3}'))
        write_lock(spied.store, heartbeat_at=ago(1000))
        spied.run()
        claims = []
        for stream in ("orders", "items", None):
            made = f'report(kind="claimed", stream={stream!r})\n' if stream else ""
            spied.write("target-fake", REPORT + made + TARGET)
            spied.run()
            claims.append((told(spied)["claims"], told(spied)["claimed"]))
        assert claims == [(True, []), (True, ["orders"]), (False, [])]

    def test_a_change_by_hand_in_between_owes_it_on(self, spied):
        lose = 'os.remove(here + "/state/p/lock")\n'
        spied.write("target-fake", TARGET + lose)
        spied.fail(LostLockError)
        replace_state(spied.store, PipelineState("p"), {"x": 1})
        delete_state(spied.store, "p")
        spied.write("target-fake", TARGET)
        spied.run()
        assert told(spied)["claims"] is True

    def test_who_meets_higher_numbers_in_a_table_lets_the_next_count_on_above_them(self, spied):
        """As after a store was lost that had begun while the clock ran ahead."""
        tell = 'report(kind="outnumbered", stream="")\nsys.exit(75)\n'
        spied.write("target-fake", REPORT + tell)
        spied.fail(ChildError)
        left = read_generation(spied.store, "p")[0].number
        spied.write("target-fake", TARGET)
        spied.run()
        assert told(spied)["generation"] == left + 1 > 1.9 * time.time()

    @pytest.mark.parametrize("body", [b"?", b"{}", b'{"generation": "x"}', b'{"schema": "x"}'])
    @pytest.mark.parametrize("locks", [True, False])
    def test_a_damaged_note_of_the_last_holder_is_refused_until_the_state_is_set(
        self, spied, body, locks
    ):
        """Nobody knows which runs have failed, nor who may still commit."""
        spied.store.objects.write("p/generation.json", body, Expect.ANYTHING)
        said = spied.fail(StateError, locks=locks).message
        assert "generation.json is damaged" in said
        assert "singer-spark state recover p" in said
        replace_state(spied.store, PipelineState("p"), STATE)
        spied.run()
        assert told(spied)["claims"] is True

    def test_a_run_that_lost_its_lock_before_it_began_starts_nothing(self, spied, monkeypatch):
        def overtake(*_):
            write_generation(spied.store, "p", Generation(number=2**40), Expect.ABSENT)

        monkeypatch.setattr("singer_spark.runner.state_store.StateInStore._record_death", overtake)
        spied.fail(LostLockError)
        assert spied.note("tap-fake.pid") is None


class TestFence:
    @pytest.fixture
    def here(self, bench, monkeypatch):
        write_lock(bench.store, run_id="r-1", generation=5)
        monkeypatch.setenv("SINGER_SPARK_STATE_URL", json.dumps(bench.state))
        return bench

    def assigned(self, **changes):
        return Assignment(**{"run_id": "r-1", "pipeline": "p", "generation": 5, **changes})

    def test_the_holder_is_confirmed_and_nobody_else(self, here):
        confirm_lock(self.assigned())
        for other in ({"run_id": "r-2"}, {"generation": 4}):
            with pytest.raises(LostLockError) as caught:
                confirm_lock(self.assigned(**other))
            assert caught.value.exit_code == 75
        end_lock(here.store, "p", read_lock(here.store, "p")[1])
        with pytest.raises(LostLockError):
            confirm_lock(self.assigned())

    def test_commits_that_are_refused_tell_whether_another_run_has_taken_over(
        self, here, monkeypatch, tmp_path
    ):
        (tmp_path / "run.json").write_text(self.assigned().to_json())
        monkeypatch.setenv("SINGER_SPARK_REPORT", str(tmp_path / "report"))
        for name, value in (("FILE", tmp_path / "run.json"), ("ID", "r-1")):
            monkeypatch.setenv(f"SINGER_SPARK_RUN_{name}", str(value))
        monkeypatch.setenv("SINGER_SPARK_PIPELINE", "p")
        assert "count on above them: singer-spark run p" in str(overtaken("orders"))
        ((_, fact),) = read_report(tmp_path / "report")
        assert fact["kind"] == "outnumbered"
        end_lock(here.store, "p", read_lock(here.store, "p")[1])
        assert "another run has taken over" in str(overtaken("orders"))
        assert len([*read_report(tmp_path / "report")]) == 1

    @pytest.mark.usefixtures("here")
    def test_a_run_without_a_number_is_not_fenced(self, monkeypatch):
        confirm_lock(self.assigned(generation=None, run_id="other"))
        monkeypatch.setenv("SINGER_SPARK_STATE_URL", "")
        confirm_lock(self.assigned(run_id="other"))

    @pytest.mark.usefixtures("here")
    def test_a_store_out_of_reach_is_error_74(self, monkeypatch, tmp_path):
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("SINGER_SPARK_STATE_URL", json.dumps(str(tmp_path / "file")))
        with pytest.raises(StateError):
            confirm_lock(self.assigned())


class TestIdentity:
    def test_a_table_of_another_name_belongs_to_the_bookmark_of_its_stream(self):
        table = {**TABLE, "state_of": "orders"}
        state = {"bookmarks": {"orders": {"at": 1}}}
        kept = with_identities({}, state, Identities(tables={"orders_v2": table}))
        assert known_identities(kept, state, frozenset())[1]["orders_v2"].state_of == "orders"
        assert with_identities(kept, state, Identities()) == kept

    def test_the_table_of_late_rows_belongs_to_the_bookmark_of_their_stream(self):
        late, state = {"orders__late": TABLE}, {"bookmarks": {"orders": {"at": 1}}}
        kept = with_identities({}, state, Identities(tables=late))
        assert known_identities(kept, state, frozenset())[1]["orders__late"].state_of == "orders"
        assert with_identities(kept, state, Identities()) == kept
        refreshed = frozenset({"orders"})
        assert known_identities(kept, state, refreshed)[1] == {}
        assert with_identities(kept, state, Identities(), refreshed) == {}

    def test_an_id_that_could_not_be_asked_for_stays_known(self):
        state, kept = {"bookmarks": {"orders": {"at": 1}}}, {"source": SOURCE}
        unknown = Identities(source={**SOURCE, "id": None})
        assert with_identities(kept, state, unknown) == kept
        moved = {"id": None, "place": "elsewhere"}
        assert with_identities(kept, state, Identities(source=moved)) == {"source": moved}
        every = frozenset({"*"})
        assert with_identities(kept, state, unknown, every) == {"source": unknown.source}

    def test_a_table_that_the_tap_has_renamed_is_looked_for_too(self):
        state = {"bookmarks": {"orders": {"at": 1}, "full": {}}}
        known = {"tables": {"renamed": TABLE, "full": TABLE}}
        assert known_identities(known, state, frozenset())[1] == {}
        found = known_identities(known, state, frozenset(), renamed=True)[1]
        assert list(found) == ["renamed"]

    @pytest.fixture
    def loaded(self, spied):
        """A pipeline whose first run has told of its source and its table."""
        facts = f"""
report(kind="source", stream="", **{SOURCE!r})
report(kind="table", stream="orders", **{TABLE!r})
report(kind="table", stream="empty", **{TABLE!r})
"""
        bookmarks = TAP.replace('{"orders": 3}', '{"orders": 3, "empty": {}}')
        spied.write("tap-fake", SPY + bookmarks)
        spied.write("target-fake", REPORT + facts + TARGET)
        spied.run()
        spied.write("target-fake", TARGET)
        return spied

    def test_it_is_kept_after_success_and_given_to_the_next_run(self, loaded):
        known = loaded.store.get("p")
        assert known.metadata == {"source": SOURCE, "tables": {"orders": TABLE, "empty": TABLE}}
        assert json.loads((loaded.folder / "state/p/state.json").read_text()) == known.watermark

        loaded.run()
        assert told(loaded)["source"] == SOURCE
        assert told(loaded)["tables"] == {"orders": TABLE}  # the other has no bookmark
        assert loaded.store.get("p").metadata["tables"]["orders"] == TABLE

    def test_what_a_run_finds_is_laid_over_what_was_known(self, loaded):
        newer = {**TABLE, "version": 8}
        tell = f'report(kind="table", stream="orders", **{newer!r})\n'
        loaded.write("target-fake", REPORT + tell + TARGET)
        loaded.run()
        assert loaded.store.get("p").metadata["tables"]["orders"] == newer
        assert loaded.store.get("p").metadata["source"] == SOURCE

    def test_a_failed_run_and_a_window_leave_it(self, loaded):
        other = f'report(kind="table", stream="orders", **{ {**TABLE, "id": "t-2"}!r})\n'
        loaded.write("target-fake", REPORT + other + TARGET + "sys.exit(3)")
        loaded.fail(ChildError)
        loaded.write("target-fake", REPORT + other + TARGET)
        (loaded.folder / "tap-fake").rename(loaded.folder / "tap-spark-source")
        tap = loaded.pipeline().tap
        ours = type(tap)(str(loaded.folder / "tap-spark-source"), tap.config)
        loaded.run(RunOptions(window=Window("1", "2")), tap=ours, transport="records")

        assert loaded.store.get("p").metadata["tables"]["orders"] == TABLE

    def test_what_is_reloaded_need_not_be_found_again(self, loaded):
        loaded.run(RunOptions(refresh=("orders",)))
        assert (told(loaded)["source"], told(loaded)["tables"]) == (None, {})
        loaded.run(full=True)
        assert (told(loaded)["source"], told(loaded)["tables"]) == (None, {})
        assert loaded.store.get("p").metadata == {}

    def test_bookmarks_of_streams_that_are_not_read_are_of_the_source_too(self, loaded):
        known = loaded.store.get("p")
        more = {"bookmarks": {"orders": 3, "empty": {}, "unselected": 5}}
        loaded.store.save(replace(known, watermark=more))
        loaded.run(RunOptions(refresh=("orders",)))
        assert told(loaded)["source"] == SOURCE
        assert told(loaded)["tables"] == {}

    def test_a_full_run_without_a_state_leaves_the_old_one_to_its_source(self, loaded):
        before = loaded.store.get("p")
        other = f'report(kind="source", stream="", **{ {**SOURCE, "id": "x"}!r})\n'
        loaded.write("tap-fake", SPY + REPORT + other)
        loaded.run(full=True)
        after = loaded.store.get("p")
        assert (after.watermark, after.metadata) == (before.watermark, before.metadata)

    def test_a_bookmark_that_is_moved_accepts_the_table_of_its_stream_alone(self, loaded):
        known = loaded.store.get("p")
        more = {**known.metadata, "tables": {"orders": TABLE, "items": TABLE}}
        known = loaded.store.save(
            replace(known, watermark={"bookmarks": {"orders": 3, "items": 3}}, metadata=more)
        )
        moved = {"bookmarks": {"orders": 2, "items": 3}}
        replace_state(loaded.store, known, moved, streams=("orders",))
        loaded.run()
        assert told(loaded)["source"] == SOURCE
        assert list(told(loaded)["tables"]) == ["items"]

    @pytest.mark.parametrize(
        "change",
        [
            lambda store, known: replace_state(store, known, {"bookmarks": {"orders": 2}}),
            lambda store, known: accept_state(store, known),
            lambda store, _: delete_state(store, "p"),
        ],
    )
    def test_a_change_by_hand_drops_it_and_the_next_run_adopts(self, loaded, change):
        change(loaded.store, loaded.store.get("p"))
        loaded.run()
        assert (told(loaded)["source"], told(loaded)["tables"]) == (None, {})

    def fail_behind(self, bench, *, table=TABLE, **options):
        """Let a run fail after its target has committed something and released its STATE."""
        facts = f"""
report(kind="source", stream="", **{SOURCE!r})
report(kind="table", stream="orders", **{table!r})
"""
        (bench.folder / "committed").unlink(missing_ok=True)  # of a run before
        bench.write("target-fake", REPORT + facts + TARGET)
        bench.write("tap-fake", SPY + TAP + 'await_note("committed")\nsys.exit(3)')
        bench.fail(ChildError, RunOptions(**options))
        bench.write("tap-fake", SPY + TAP)
        bench.write("target-fake", TARGET)

    def test_a_resumed_first_run_must_find_what_it_began_with(self, spied):
        self.fail_behind(spied)
        spied.run(resume=True)
        assert told(spied)["resumes"] is True
        assert told(spied)["source"] == SOURCE
        assert told(spied)["tables"] == {"orders": TABLE}

    def test_a_resumed_full_run_must_find_what_that_run_loaded(self, loaded):
        other = {**TABLE, "id": "t-2"}
        self.fail_behind(loaded, table=other, full=True)
        loaded.run(resume=True)
        assert told(loaded)["tables"] == {"orders": other}
        assert told(loaded)["reload"] == ["empty"], "it has a table, but never a bookmark"
        assert loaded.store.get("p").metadata["tables"] == {"orders": other}

    def test_what_is_accepted_is_not_looked_for_by_a_resumed_run_either(self, spied):
        self.fail_behind(spied)
        accept_state(spied.store, PipelineState("p"))
        spied.run(resume=True)
        assert (told(spied)["source"], told(spied)["tables"]) == (None, {})

    def test_a_checkpoint_that_a_killed_run_left_behind_its_state_counts_no_more(self, spied):
        self.fail_behind(spied)
        stale = spied.store.read_checkpoint("p")
        spied.run()
        spied.store.save_checkpoint("p", stale)
        spied.store.save(replace(spied.store.get("p"), watermark={"bookmarks": {"orders": 9}}))
        spied.run(resume=True)
        assert json.loads(spied.note("tap-state")) == {"bookmarks": {"orders": 9}}

    def test_files_have_none(self, loaded):
        given = loaded.folder / "in.json"
        given.write_text(json.dumps(STATE))
        loaded.run(RunOptions(files=StateFiles(given)))
        assert (told(loaded)["source"], told(loaded)["tables"]) == (None, {})

    def test_what_is_no_identity_is_passed_over(self, loaded):
        known = loaded.store.get("p")
        for tables in ([1], {"orders": 5}, {"orders": {"id": 1}}, None):
            known = loaded.store.save(
                PipelineState("p", STATE, metadata={"tables": tables}, version=known.version)
            )
            loaded.run()
            assert told(loaded)["tables"] == {}
            known = loaded.store.get("p")
