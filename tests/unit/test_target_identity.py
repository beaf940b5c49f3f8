"""A table that the stored state does not belong to is refused, from its log's files; no Spark."""

from __future__ import annotations

import io
import shutil
from dataclasses import replace

import boto3
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from moto import mock_aws

from singer_spark.assignment import RUN_FILE, TableIdentity
from singer_spark.deltalog import CommitInfo
from singer_spark.errors import StateError
from singer_spark.report import read_report
from target_spark_delta.commits import closing
from target_spark_delta.target import TargetSparkDelta
from tests.support.lake import USERS, AskedSparkError
from tests.support.singer import lines, record, stand_in, state

WHOLE = {**USERS, "singer_spark": {"read": {"rows": "all"}}}


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
    for way in ("run shop --refresh users;", "state accept shop"):
        assert way in str(raised.value)


def test_late_rows_come_again_with_all_others_of_their_stream(lake):
    removed(lake)
    late = {**USERS, "stream": "users__late"}
    known = {"users__late": replace(lake.known, state_of="users")}
    with pytest.raises(StateError, match="--refresh users;"):
        lake.run(late, known=known)


def test_what_is_loaded_afresh_needs_no_table_of_before(lake):
    removed(lake)
    lake.run(reload=frozenset({"users"}))
    lake.run(reload=frozenset({"*"}))
    with pytest.raises(AskedSparkError):
        lake.run({**WHOLE, "key_properties": []})


@pytest.mark.parametrize("change", [removed, restored])
def test_a_whole_read_that_is_merged_rests_on_what_is_there(lake, change):
    """Of what is gone at the source only a deletion may come, which the old state has seen."""
    change(lake)
    with pytest.raises(StateError, match="--refresh users"):
        lake.run(WHOLE)


@pytest.mark.parametrize("spark", [{"spark_remote": "sc://there"}, {"spark_master": "yarn"}])
def test_a_spark_elsewhere_is_asked_what_is_at_a_path(lake, spark):
    with pytest.raises(AskedSparkError):
        lake.run(config=spark)
    removed(lake)
    with pytest.raises(AskedSparkError):
        lake.run(config=spark)


def test_a_resumed_run_is_told_to_start_without(lake):
    removed(lake)
    with pytest.raises(StateError, match="start without --resume: singer-spark run shop;"):
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


class TestWhileARunLoads:
    """Others remove, replace or restore the table in between."""

    @pytest.fixture
    def load(self, lake, monkeypatch):
        """Load two batches; `change` comes before the first, between them, or after the last."""

        def load(change, *, before=9, **told):
            loaded = []

            def load_segment(_spark, work, *_, **__):
                load.progress = work.progress
                if len(loaded) == before:
                    change(lake)
                loaded.append(lake.write("run-2"))
                work.progress.versions.add(lake.table.version())
                if len(loaded) == before == 2:
                    change(lake)

            stand_in(monkeypatch, load_segment=load_segment)
            rows = [record("users", {"id": at}) for at in (1, 2)]
            return lake.run(USERS, *rows, config={"batch_size_rows": 1}, **told)

        return load

    @pytest.mark.parametrize("known", [True, False])
    @pytest.mark.parametrize(
        ("change", "before", "why"),
        [
            (made_anew, 0, "not the table that was loaded before"),
            (made_anew, 2, "not the table|is older than 2"),
            (removed, 2, "there is no table"),
            (restored, 0, "restored or replaced in version 2"),
            (restored, 1, "restored or replaced in version 3"),
            (restored, 2, "restored or replaced in version 4"),
        ],
    )
    def test_the_state_is_not_stored(self, load, change, before, why, known):
        if before == 0 and not known:
            assert load(change, before=before, known=known), "nothing is known of before"
            return
        with pytest.raises(StateError, match=f"while the run loaded it: .*({why})") as raised:
            load(change, before=before, known=known)
        assert "--refresh users" in raised.value.message

    def test_what_they_append_is_fine(self, load):
        for before in range(3):
            (fact,) = load(lambda lake: lake.write("x", pipeline="other"), before=before)
            assert fact["run_id"] == "run-2"

    @pytest.mark.parametrize(
        ("told", "is_needed"),
        [({}, True), ({"known": False}, False), ({"reload": frozenset({"users"})}, False)],
    )
    def test_a_table_that_is_removed_before_the_first_batch_is_not_made_anew(
        self, load, told, is_needed
    ):
        load(None, **told)
        assert load.progress.has_table is is_needed


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
