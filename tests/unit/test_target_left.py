"""Rows that runs before have left are not appended once more, where nothing tells them apart."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from singer_spark import exact_json
from singer_spark.assignment import Assignment, Attempt
from singer_spark.deltalog import CommitInfo
from singer_spark.errors import StateError, TransientError
from singer_spark.report import REPORT_FILE, read_report
from target_spark_delta.table import earlier_rows, identity
from target_spark_delta.table.table import Table
from tests.support.lake import USERS, AskedSparkError
from tests.support.singer import record, schema, stand_in

EVENTS = schema("users", {"id": {"type": "integer"}}, [])
BY_NAME = {"load_method": "append-only"}
KAFKA = {"rows": "some", "why": "changes only"}


class TestRowsThatTheRunnerCouldNotSee:
    """Rows of a failed run are not appended twice."""

    SAID = {"pipeline": "shop", "run_id": "run-1", "rows": 2, "appends": True}
    RUN = Assignment(
        run_id="run-2", pipeline="shop", failed={"run-1": Attempt(settled=("orders",))}
    )
    ANEW = r"remove it, and load it anew: .* --refresh users"
    ALL_ANEW = r"remove all tables of the stream, and load it anew: .* --refresh users"

    @pytest.fixture
    def check(self, tmp_path, monkeypatch):
        monkeypatch.setenv(REPORT_FILE, str(tmp_path / "report"))

        def history(commits):
            known = {
                version: CommitInfo(version=version, operation=name, metadata=said, metrics=metrics)
                for version, (name, said, metrics) in enumerate(commits)
            }
            return identity.History("t", sorted(known), known.get)

        def check(*commits, others=(), **changes):
            table, *tables = [Table.at_path("/lake", f"users{n or ''}") for n in range(3)]
            known = dict(zip(tables, others, strict=False)) | {table: commits}
            monkeypatch.setattr(earlier_rows, "history_of", lambda one, *_: history(known[one]))
            run = replace(self.RUN, **changes)
            assert earlier_rows.check_failed_runs(
                identity.StreamTable(table, run, "users", "users"), None, tables[: len(others)]
            )

        return check

    def left(self, written="2", text='{"files": 9007199254740995.1}', **said):
        said = {**self.SAID, "state": exact_json.loads(text), **said}
        return "WRITE", said, {"numOutputRows": written}

    def test_the_way_on_is_named_and_how_far_they_go_is_reported(self, check, tmp_path):
        with pytest.raises(StateError, match=r"run run-1, which failed, left, .* --resume"):
            check(self.left(), ("OPTIMIZE", {}, {}))
        ((_, fact),) = read_report(tmp_path / "report")
        assert fact["stream"] == "users"
        assert fact["bookmark"] == '{"files": 9007199254740995.1}'

    def test_a_commit_that_lacks_rows_is_no_start(self, check, tmp_path):
        with pytest.raises(StateError, match=self.ANEW):
            check(self.left(written="1"))
        with pytest.raises(StateError, match=self.ANEW):
            check(self.left(), others=[[self.left(written="1")]])
        assert not (tmp_path / "report").exists()

    def test_the_tables_of_a_stream_that_are_at_one_bookmark_go_on_together(self, check, tmp_path):
        with pytest.raises(StateError, match="--resume"):
            check(self.left(), others=[[self.left(), ("OPTIMIZE", {}, {})]], copied=["use*"])
        assert len([*read_report(tmp_path / "report")]) == 1

    @pytest.mark.parametrize(
        "several",
        [
            {"copied": ["use*"]},
            {"others": [[]]},
            {"others": [[("WRITE", {**SAID, "state": {"files": 1}}, {})]]},
            {"others": [[("WRITE", {**SAID, "state": {"files": 1}, "run_id": "run-0"}, {})]]},
        ],
        ids=["unseen", "empty", "behind", "of an earlier run"],
    )
    def test_where_one_may_lack_rows_no_start_is_right_for_all(self, check, tmp_path, several):
        with pytest.raises(StateError, match=self.ALL_ANEW):
            check(self.left(), **several)
        assert not (tmp_path / "report").exists(), "no checkpoint goes on from there"

    def test_a_run_that_begins_there_goes_on(self, check):
        check(self.left(), begins={"users": '{"files": 9007199254740995.1}'})

    @pytest.mark.parametrize(
        "commits",
        [
            [("RESTORE", {}, {})],
            [("RESTORE", {**SAID, "rows": None, "undoes": 0}, {})],
            [("WRITE", {**SAID, "run_id": "run-0", "state": {"x": 1}}, {})],
        ],
    )
    def test_nothing_is_left_of_them(self, check, commits):
        check(self.left(), *commits)

    def test_someone_has_settled_the_stream(self, check):
        check(self.left(), failed={"run-1": Attempt(settled=("users",))})


class TestAPausedRun:
    """Until its tables are claimed it may commit, also what this run is about to append."""

    BEGUN, REACHED = {"files": 1}, {"files": 2}

    @pytest.fixture
    def load(self, lake, monkeypatch):
        """Load a row; the paused run wakes up just before its table is claimed."""

        def load(message=EVENTS, *, wakes=True, failed=("run-p",), **told):
            lake.write("run-p", state=self.BEGUN, appends=True)
            loaded = []

            def claim(*_):
                if wakes:
                    lake.write("run-p", state=self.REACHED, appends=True)

            loads = {"load_segment": lambda *_, **__: loaded.append(1)}
            stand_in(monkeypatch, claim_table=claim, **loads)
            told |= {"failed": {run_id: Attempt() for run_id in failed}, "read": {"users": 2}}
            told = {"begins": {"users": exact_json.canonical(self.BEGUN)}, **told}
            lake.run(message, record("users", {"id": 1}), known={}, claims=True, **told)
            return loaded

        return load

    def test_what_it_commits_before_the_claim_is_not_appended_again(self, load):
        with pytest.raises(TransientError, match="singer-spark run shop") as raised:
            load()
        assert raised.value.exit_code == 75

    def test_nor_is_all_of_it_where_the_state_has_no_bookmark(self, load):
        kafka = {**EVENTS, "singer_spark": {"read": KAFKA}}
        with pytest.raises(TransientError):
            load(kafka, begins={})

    def test_what_the_runner_has_seen_is_no_obstacle(self, load):
        assert load(wakes=False)

    @pytest.mark.parametrize("message", [USERS, {**EVENTS, "bookmark_properties": ["id"]}])
    def test_nor_are_rows_that_can_be_told_apart(self, load, message):
        assert load(message)

    def test_nor_are_those_of_a_run_that_nobody_remembers(self, load):
        assert load(failed=["run-0"])


class TestAStartWithoutABookmark:
    """A lost state must not append everything once more where nothing tells rows apart."""

    KNOWN = '{"offsets": 1}'

    @pytest.fixture
    def asks(self, lake):
        """Say whether Spark is asked for rows of the table, as it is before a refusal."""

        def asks(*, of=None, read=KAFKA, config=None, begins=None, plain=False, **told):
            lake.write("run-1", state=of, appends=True)
            message = {**EVENTS, "singer_spark": {"read": read}}
            told |= {} if plain else {"begins": begins or {}}
            try:
                lake.run(message, known={}, config=config, **told)
            except AskedSparkError:
                return True
            return False

        return asks

    @pytest.mark.parametrize("rereads", [True, False])
    def test_rows_of_a_topic_are_not_appended_once_more(self, asks, rereads):
        assert asks(of={"offsets": 1}, rereads=rereads)
        assert asks(of=None, rereads=rereads)

    def test_nor_is_what_is_appended_by_name_and_has_a_bookmark(self, asks):
        assert asks(of={"files": {"modified": 1}}, read={"rows": "all"}, config=BY_NAME)
        unfinished = {"delta_snapshot": {"version": 1}}
        assert asks(of=unfinished, read={"rows": "all"}, config=BY_NAME)

    @pytest.mark.parametrize("of", [{}, {"full_table": {"version": 1, "key": 1}}])
    def test_a_full_read_that_is_appended_by_name_is_appended_each_time(self, asks, of):
        assert not asks(of=of, read={"rows": "all"}, config=BY_NAME)

    def test_so_is_what_every_run_reads_in_full(self, asks):
        assert not asks(of={"files": 1}, config=BY_NAME, rereads=True)

    @pytest.mark.parametrize(
        "told", [{"plain": True}, {"begins": {"users": KNOWN}}, {"reload": frozenset({"users"})}]
    )
    def test_only_a_run_that_begins_there_unasked(self, asks, told):
        config = BY_NAME if "reload" in told else None
        assert not asks(of={"offsets": 1}, config=config, **told)

    def test_another_table_and_one_that_was_replaced_are_welcome(self, lake):
        message = {**EVENTS, "singer_spark": {"read": KAFKA}}
        lake.run(message, known={}, begins={}, place=str(lake.root / "other"))
        run = Assignment(run_id="run-1", pipeline="shop", begins={})
        history = identity.history_in_files(lake.path)
        assert not earlier_rows._has_rows_of(history, run, by_name=True)
        assert earlier_rows._has_rows_of(history, replace(run, run_id="run-2"), by_name=False)

    @pytest.mark.parametrize("is_empty", [True, False])
    def test_a_table_without_rows_is_welcome(self, lake, is_empty):
        class Spark:
            def sql(self, _):
                return SimpleNamespace(isEmpty=lambda: is_empty)

        run = Assignment(run_id="run-2", pipeline="shop", begins={})
        table = identity.StreamTable(
            Table.at_path(str(lake.root), None, "users"), run, "users", "users"
        )
        if is_empty:
            assert earlier_rows.check_start(table, Spark(), by_name=False)
            return
        with pytest.raises(StateError, match=r"remove the table, or .* state recover shop$"):
            earlier_rows.check_start(table, Spark(), by_name=False)
