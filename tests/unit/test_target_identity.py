"""A table that the stored state does not belong to is refused, from its log's files; no Spark."""

from __future__ import annotations

import io
import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import boto3
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from moto import mock_aws

from singer_spark import digits
from singer_spark.assignment import RUN_FILE, Assignment, TableIdentity
from singer_spark.deltalog import CommitInfo
from singer_spark.errors import StateError
from singer_spark.report import REPORT_FILE, read_report
from target_spark_delta import closing, identity
from target_spark_delta.table import Table
from target_spark_delta.target import TargetSparkDelta
from tests.support.singer import lines, schema, state

USERS = schema("users", {"id": {"type": "integer"}}, ["id"])
WHOLE = {**USERS, "singer_spark": {"read": {"rows": "all"}}}


def note(run_id):
    said = json.dumps({"pipeline": "shop", "run_id": run_id, "rows": 1})
    return CommitProperties(custom_metadata={"userMetadata": said})


class AskedSparkError(Exception):
    """A test without Spark has come to where it is needed."""


def ask(_self):
    raise AskedSparkError


class Lake:
    """A folder with a table that a pipeline has loaded, and what its runner remembers."""

    def __init__(self, root, monkeypatch):
        self.root, self._monkeypatch = root / "lake", monkeypatch
        self.told, self._run_file = root / "report", root / "run.json"
        monkeypatch.setenv(REPORT_FILE, str(self.told))
        monkeypatch.setattr(TargetSparkDelta, "_engine", ask)
        for run_id in ("run-0", "run-1"):
            self.write(run_id)
        self.known = TableIdentity(
            location=self.path,
            id=str(self.table.metadata().id),
            version=1,
            run_id="run-1",
            key=("id",),
        )

    @property
    def path(self):
        return str(self.root / "users")

    @property
    def table(self):
        return DeltaTable(self.path)

    def write(self, run_id, **more):
        rows = pa.table({"id": [1, 2]})
        write_deltalake(self.path, rows, mode="append", commit_properties=note(run_id), **more)

    def run(self, *messages, known=True, place=None, config=None, **told):
        """Let a run find nothing new; return what it tells of the table."""
        tables = {"users": self.known} if known is True else known or {}
        run = Assignment(run_id="run-2", pipeline="shop", generation=5, tables=tables, **told)
        self._run_file.write_text(run.to_json())
        for name, value in (
            (RUN_FILE, str(self._run_file)),
            ("SINGER_SPARK_RUN_ID", "run-2"),
            ("SINGER_SPARK_PIPELINE", "shop"),
        ):
            self._monkeypatch.setenv(name, value)
        self.told.write_text("")
        messages = messages or (USERS, state({"bookmarks": {"users": {}}}))
        target = TargetSparkDelta(config={"path": place or str(self.root), **(config or {})})
        target.listen(io.StringIO(lines(messages)))
        facts = [fact for _, fact in read_report(self.told)]
        return [fact for fact in facts if fact["kind"] == "table"]


@pytest.fixture
def lake(tmp_path, monkeypatch):
    return Lake(tmp_path, monkeypatch)


def test_a_table_as_it_was_left_fits_and_is_told_again(lake):
    (fact,) = lake.run()
    assert {**lake.known.to_dict(), "kind": "table", "stream": "users"} == fact


def test_a_table_without_memory_is_adopted(lake):
    (fact,) = lake.run(known=False)
    assert (fact["version"], fact["run_id"], fact["id"]) == (1, "run-1", lake.known.id)


def removed(lake):
    shutil.rmtree(lake.path)


def emptied_log(lake):
    for path in (lake.root / "users" / "_delta_log").iterdir():
        path.unlink()


def made_anew(lake):
    shutil.rmtree(lake.path)
    for run_id in ("run-0", "run-1"):
        lake.write(run_id)


def cut(lake):
    (lake.root / "users" / "_delta_log" / f"{1:020}.json").unlink()


def overtaken(lake):
    cut(lake)
    lake.write("run-of-a-copy")


def restored(lake):
    lake.table.restore(0)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (removed, "there is no table"),
        (emptied_log, "there is no table"),
        (made_anew, "it is not the table that was loaded before"),
        (cut, "its version 0 is older than 1"),
        (overtaken, "its version 1 is not the one that was committed before"),
        (restored, "it was restored or replaced in version 2"),
    ],
)
def test_a_table_that_lacks_what_the_state_says_is_refused(lake, change, why):
    change(lake)
    with pytest.raises(StateError, match=why) as raised:
        lake.run()
    assert raised.value.exit_code == 74
    for way in ("run shop --refresh users", "--full", "state accept shop"):
        assert way in str(raised.value)


def test_what_is_loaded_afresh_needs_no_table_of_before(lake):
    removed(lake)
    lake.run(reload=frozenset({"users"}))
    lake.run(reload=frozenset({"*"}))
    assert lake.run(WHOLE) == []


@pytest.mark.parametrize("spark", [{"spark_remote": "sc://there"}, {"spark_master": "yarn"}])
def test_a_spark_elsewhere_is_asked_what_is_at_a_path(lake, spark):
    with pytest.raises(AskedSparkError):
        lake.run(config=spark)
    removed(lake)
    with pytest.raises(AskedSparkError):
        lake.run(config=spark)


def test_a_resumed_run_is_told_to_start_without(lake):
    removed(lake)
    with pytest.raises(StateError, match="start without --resume: singer-spark run shop, or"):
        lake.run(resumes=True)


class TestOtherNames:
    """A stream whose table has another name than before would get its increment alone."""

    MAPS = {"stream_maps": {"users": {"__alias__": "people"}}}
    BOTH = {"stream_maps": {"users": {}, "copies": {"__source__": "users"}}}

    @pytest.mark.parametrize("config", [MAPS, BOTH])
    def test_a_table_that_the_state_was_not_loaded_into_is_refused(self, lake, config):
        with pytest.raises(StateError, match="was loaded into users before") as raised:
            lake.run(config=config)
        assert "--refresh users" in str(raised.value)
        lake.run(config=config, reload=frozenset({"users"}))

    def test_what_lost_its_other_name_is_refused_too(self, lake):
        known = {"people": replace(lake.known, state_of="users")}
        with pytest.raises(StateError, match="was loaded into people before"):
            lake.run(known=known)

    def test_a_copy_that_had_no_row_is_known_to_a_run_that_goes_on(self, lake):
        """The first run failed when the one table had rows and the other none."""
        lake.run(USERS, known=False, config=self.BOTH)
        facts = [fact for _, fact in read_report(lake.told) if fact["kind"] == "table"]
        assert facts[0]["stream"] != facts[1]["stream"], "before the first row"
        known = {fact["stream"]: TableIdentity.from_dict(fact) for fact in facts[:2]}
        assert known["copies"].is_absent
        lake.run(known={**known, "users": lake.known}, config=self.BOTH, resumes=True)

    def test_a_table_that_had_no_row_is_none_that_the_state_was_loaded_into(self, lake):
        absent = replace(lake.known, id="", version=-1, state_of="users")
        lake.run(known={"people": absent})

    def test_a_copy_that_had_no_row_yet_is_known(self, lake):
        facts = {fact["stream"]: fact for fact in lake.run(known=False, config=self.BOTH)}
        assert facts["copies"]["id"] == ""
        absent = TableIdentity.from_dict(facts["copies"])
        lake.run(known={"users": lake.known, "copies": absent}, config=self.BOTH)


class TestRowsThatOnlySparkCanSee:
    """Rows of a failed run are not appended twice."""

    SAID = {"pipeline": "shop", "run_id": "run-1", "rows": 2, "appends": True}
    RUN = Assignment(run_id="run-2", pipeline="shop", unread={"run-1": ["orders"]})

    @pytest.fixture
    def check(self, tmp_path, monkeypatch):
        monkeypatch.setenv(REPORT_FILE, str(tmp_path / "report"))

        def check(*commits, **changes):
            known = {
                version: CommitInfo(version=version, operation=name, metadata=said, metrics=metrics)
                for version, (name, said, metrics) in enumerate(commits)
            }
            history = identity.History("t", sorted(known), known.get)
            monkeypatch.setattr(identity, "history_by_spark", lambda *_: history)
            identity.check_unread(None, "t", replace(self.RUN, **changes), "users")

        return check

    def left(self, written="2"):
        text = '{"files": 9007199254740995.1}'
        return "WRITE", {**self.SAID, "state": digits.loads(text)}, {"numOutputRows": written}

    def test_the_way_on_is_named_and_how_far_they_go_is_reported(self, check, tmp_path):
        with pytest.raises(StateError, match=r"run run-1 left .* --resume"):
            check(self.left(), ("OPTIMIZE", {}, {}))
        ((_, fact),) = read_report(tmp_path / "report")
        assert fact["stream"] == "users"
        assert fact["bookmark"] == '{"files": 9007199254740995.1}'

    def test_a_commit_that_lacks_rows_is_no_start(self, check, tmp_path):
        with pytest.raises(StateError, match=r"remove it, and load it anew: .* --refresh users"):
            check(self.left(written="1"))
        assert not (tmp_path / "report").exists()

    @pytest.mark.parametrize("known", ["maps", "tables"])
    def test_a_stream_of_several_tables_has_no_start_that_is_right_for_all(
        self, check, tmp_path, known
    ):
        one = TableIdentity(location="x", id="x", version=0, run_id="r", state_of="users")
        several = {"copied": ["use*"]} if known == "maps" else {"tables": {"a": one, "b": one}}
        with pytest.raises(StateError, match=r"remove all tables of the stream, and .* --refresh"):
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
        check(self.left(), unread={"run-1": ["users"]})


KAFKA = {"rows": "some", "why": "changes only"}


class TestAStartWithoutABookmark:
    """A lost state must not append everything once more where nothing tells rows apart."""

    EVENTS = {**schema("users", {"id": {"type": "integer"}}, [])}
    BY_NAME = {"load_method": "append-only"}
    KNOWN = '{"offsets": 1}'

    @pytest.fixture
    def asks(self, lake):
        """Say whether Spark is asked for rows of the table, as it is before a refusal."""

        def asks(*, of=None, read=KAFKA, config=None, begins=None, plain=False, **told):
            rows = pa.table({"id": [1]})
            said = {"pipeline": "shop", "run_id": "run-1", "rows": 1, "state": of, "appends": True}
            notes = CommitProperties(custom_metadata={"userMetadata": json.dumps(said)})
            write_deltalake(lake.path, rows, mode="append", commit_properties=notes)
            message = {**self.EVENTS, "singer_spark": {"read": read}}
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
        assert asks(of={"files": {"modified": 1}}, read={"rows": "all"}, config=self.BY_NAME)
        unfinished = {"delta_snapshot": {"version": 1}}
        assert asks(of=unfinished, read={"rows": "all"}, config=self.BY_NAME)

    @pytest.mark.parametrize("of", [{}, {"full_table": {"version": 1, "key": 1}}])
    def test_a_full_read_that_is_appended_by_name_is_appended_each_time(self, asks, of):
        assert not asks(of=of, read={"rows": "all"}, config=self.BY_NAME)

    def test_so_is_what_every_run_reads_in_full(self, asks):
        assert not asks(of={"files": 1}, config=self.BY_NAME, rereads=True)

    @pytest.mark.parametrize(
        "told", [{"plain": True}, {"begins": {"users": KNOWN}}, {"reload": frozenset({"users"})}]
    )
    def test_only_a_run_that_begins_there_unasked(self, asks, told):
        config = self.BY_NAME if "reload" in told else None
        assert not asks(of={"offsets": 1}, config=config, **told)

    def test_another_table_and_one_that_was_replaced_are_welcome(self, lake):
        message = {**self.EVENTS, "singer_spark": {"read": KAFKA}}
        lake.run(message, known={}, begins={}, place=str(lake.root / "other"))
        run = Assignment(run_id="run-1", pipeline="shop", begins={})
        history = identity.history_in_files(lake.path)
        assert not identity._has_rows_of(history, run, by_name=True)
        assert identity._has_rows_of(history, replace(run, run_id="run-2"), by_name=False)

    @pytest.mark.parametrize("is_empty", [True, False])
    def test_a_table_without_rows_is_welcome(self, lake, is_empty):
        class Spark:
            def sql(self, _):
                return SimpleNamespace(isEmpty=lambda: is_empty)

        run = Assignment(run_id="run-2", pipeline="shop", begins={})
        table = Table.at_path(str(lake.root), None, "users")
        if is_empty:
            assert identity.check_start(table, run, "users", Spark(), by_name=False)
            return
        with pytest.raises(StateError, match=r"state recover shop, or remove the table"):
            identity.check_start(table, run, "users", Spark(), by_name=False)


def test_who_took_over_claims_a_table_although_no_record_comes(lake):
    with pytest.raises(AskedSparkError):
        lake.run(claims=True)
    lake.run(claims=True, claimed=frozenset({"users"}))


@pytest.mark.parametrize("cleans", [True, False])
def test_only_who_follows_a_failed_run_looks_for_what_that_left(lake, cleans, monkeypatch):
    looked = []
    monkeypatch.setattr(closing, "_drop_abandoned", lambda *_: looked.append(True))
    lake.run(cleans=cleans)
    assert bool(looked) is cleans


def test_commits_of_others_are_fine(lake):
    lake.table.optimize.compact()
    lake.table.delete("id = 1")
    (fact,) = lake.run()
    assert (fact["version"], fact["run_id"]) == (1, "run-1")


def test_a_log_whose_old_commits_were_cleaned_up_is_known_by_its_checkpoint(lake):
    lake.write("run-of-others")
    lake.table.create_checkpoint()
    for version in range(2):
        (lake.root / "users" / "_delta_log" / f"{version:020}.json").unlink()
    write_deltalake(lake.path, pa.table({"id": [9]}), mode="append")
    (fact,) = lake.run()
    assert (fact["version"], fact["id"]) == (1, lake.known.id)


def test_a_plain_pipe_compares_nothing(lake, monkeypatch):
    removed(lake)
    for name in (RUN_FILE, "SINGER_SPARK_RUN_ID", "SINGER_SPARK_PIPELINE"):
        monkeypatch.delenv(name, raising=False)
    config = {"path": str(lake.root)}
    TargetSparkDelta(config=config).listen(io.StringIO(lines([USERS, state(1)])))


@mock_aws
def test_a_table_in_s3_is_judged_by_its_files(lake, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    client = boto3.client("s3")
    client.create_bucket(Bucket="lake")
    # Spark may look for the bucket elsewhere, so that nothing found means nothing.
    with pytest.raises(AskedSparkError):
        lake.run(place="s3://lake/bronze")
    for path in (lake.root / "users" / "_delta_log").glob("*.json"):
        client.upload_file(str(path), "lake", f"bronze/users/_delta_log/{path.name}")
    (fact,) = lake.run(place="s3://lake/bronze")
    assert (fact["location"], fact["version"]) == ("s3a://lake/bronze/users", 1)


@pytest.mark.parametrize(
    ("version", "operation", "metadata", "turns_back"),
    [
        (6, "RESTORE", {"run_id": "1", "undoes": 5}, False),
        (7, "RESTORE", {"run_id": "1", "undoes": 5}, True),  # it took back what came between
        (6, "RESTORE", {}, True),
        (6, "CREATE OR REPLACE TABLE AS SELECT", {}, True),
        (6, "CREATE OR REPLACE TABLE AS SELECT", {"run_id": "1"}, False),
        (6, "REPLACE COLUMNS", {}, False),
    ],
)
def test_a_commit_turns_a_table_back_or_not(version, operation, metadata, turns_back):
    commit = CommitInfo(version=version, operation=operation, metadata=metadata, metrics={})
    assert commit.turns_back is turns_back
