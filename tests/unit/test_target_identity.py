"""A table that the stored state does not belong to is refused, from its log's files; no Spark."""

from __future__ import annotations

import io
import json
import shutil
from dataclasses import replace

import boto3
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from moto import mock_aws

from singer_spark.assignment import RUN_FILE, Assignment, TableIdentity
from singer_spark.deltalog import CommitInfo
from singer_spark.errors import StateError
from singer_spark.report import REPORT_FILE, read_report
from target_spark_delta import identity
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

    def test_a_copy_that_had_no_row_yet_is_known(self, lake):
        facts = {fact["stream"]: fact for fact in lake.run(known=False, config=self.BOTH)}
        assert facts["copies"]["id"] == ""
        absent = TableIdentity.from_dict(facts["copies"])
        lake.run(known={"users": lake.known, "copies": absent}, config=self.BOTH)


def test_rows_of_a_failed_run_that_only_spark_can_see_are_not_appended_twice(lake, monkeypatch):
    said = {"pipeline": "shop", "run_id": "run-1", "rows": 1, "state": {"files": 1}}
    commits = {
        version: CommitInfo(version=version, operation=name, metadata=metadata, metrics={})
        for version, name, metadata in [(0, "WRITE", said), (1, "OPTIMIZE", {})]
    }
    history = identity.History("t", sorted(commits), commits.get)
    monkeypatch.setattr(identity, "history_by_spark", lambda *_: history)
    run = Assignment(run_id="run-2", pipeline="shop", unread=frozenset({"run-1"}))
    with pytest.raises(StateError, match="rows that run run-1 left before it failed"):
        identity.check_unread(None, "t", run, "users")
    identity.check_unread(None, "t", replace(run, unread=frozenset({"run-0"})), "users")
    commits[1] = replace(commits[1], operation="RESTORE")
    identity.check_unread(None, "t", run, "users")


def test_who_took_over_claims_a_table_although_no_record_comes(lake):
    with pytest.raises(AskedSparkError):
        lake.run(claims=True)
    lake.run(claims=True, claimed=frozenset({"users"}))


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
