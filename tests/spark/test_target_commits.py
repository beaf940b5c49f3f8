"""Appends, what a commit says of itself, and the columns of metadata."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq

from singer_spark.report import REPORT_FILE, read_report
from target_spark_delta.intake.segments import Segment
from target_spark_delta.rows.records import empty_folder, empty_staging, path_for_spark
from tests.support.singer import batch, state
from tests.support.users import USERS, deletion, user


def test_an_append_ends_where_the_state_that_it_carries_does(lake):
    lake.load(
        USERS,
        user(1),
        user(2),
        state({"bookmarks": {"users": {"at": 2}}}),
        user(3),
        user(4),
        state({"bookmarks": {"users": {"at": 4}}}),
        user(5),
        load_method="append-only",
        batch_size_rows=3,
    )
    commits = lake.commits("users")
    assert [(commit["rows"], commit["state"]) for commit in commits] == [
        (2, {"at": 2}),
        (2, {"at": 4}),
        (1, {"at": 4}),
    ]
    assert len(lake.rows("users")) == 5


def test_lines_sent_to_a_remote_spark_are_those_of_the_segment_alone(spark, tmp_path):
    segment = Segment.open(tmp_path, "users")
    segment.append(b'{"id":1}', 7)
    segment.close()
    staging = tmp_path / "spool"
    for _ in range(2):
        place = path_for_spark(spark, segment, str(staging))
        texts = [row.value for row in spark.read.text(place).collect()]
        assert texts == ['{"#":7,"record":{"id":1}}'], "what a killed run has left is gone"
    empty_staging(spark, segment, str(staging))
    assert spark.read.text(place).isEmpty()
    empty_folder(spark, str(staging))
    assert not [path for path in staging.iterdir() if path.is_dir()]


def test_each_commit_tells_its_run_batch_rows_and_the_state_that_it_makes_true(lake, monkeypatch):
    monkeypatch.setenv("SINGER_SPARK_PIPELINE", "shop")
    monkeypatch.setenv("SINGER_SPARK_RUN_ID", "run-1")
    lake.load(
        USERS,
        user(1),
        state({"bookmarks": {"users": {"v": 1}, "other": {"v": 9}}}),
        user(2),
        user(3),
        state({"free": "form"}),
        batch_size_rows=2,
    )
    assert lake.commits("users") == [
        {
            "pipeline": "shop",
            "run_id": "run-1",
            "stream": "users",
            "batch": 1,
            "rows": 2,
            "state": {"v": 1},
            "key": ["id"],
            "appends": False,
        },
        {
            "pipeline": "shop",
            "run_id": "run-1",
            "stream": "users",
            "batch": 2,
            "rows": 1,
            "state": {"free": "form"},
            "key": ["id"],
            "appends": False,
        },
    ]


def test_record_metadata_is_added_when_asked_for(lake):
    lake.load(
        USERS,
        user(1, "a", time_extracted="2024-01-01T00:00:00.123456Z", version=7),
        user(2, "b"),
        add_record_metadata=True,
    )
    one, two = lake.rows("users")
    assert one["_sdc_extracted_at"] == dt.datetime(2024, 1, 1, 0, 0, 0, 123456, dt.timezone.utc)
    assert two["_sdc_extracted_at"] is None
    assert one["_sdc_table_version"] == 7
    assert one["_sdc_sequence"] < two["_sdc_sequence"]
    assert one["_sdc_received_at"] < two["_sdc_received_at"] <= one["_sdc_batched_at"]
    assert one["_sdc_run_id"] == two["_sdc_run_id"]
    assert one["_sdc_deleted_at"] is None


def test_no_metadata_column_appears_unasked(lake):
    lake.load(USERS, user(1, "a", time_extracted="2024-01-01T00:00:00Z"))
    assert list(lake.rows("users")[0]) == ["id", "name", "qty"]


def test_the_runner_is_told_of_every_batch_what_has_become_of_its_rows(lake, tmp_path, monkeypatch):
    told = tmp_path / "report"
    monkeypatch.setenv(REPORT_FILE, str(told))
    lake.load(USERS, user(1, "a"), user(2, "b"), user(2, "c"), hard_delete=True)
    lake.load(USERS, user(1, "a"), user(2, "d"), user(3, "e"), hard_delete=True)
    lake.load(USERS, deletion(1), deletion(9), user(2, "d"), hard_delete=True)
    lake.load(USERS, user(2, "d"), user(3, "e"))
    lake.load(USERS, user(7), user(8), load_method="append-only")
    facts = [fact for _, fact in read_report(told) if fact["kind"] == "commit"]
    assert all(fact.pop("milliseconds") > 0 for fact in facts)
    names = ("kind", "stream", "rows", "inserted", "updated", "deleted")
    assert [tuple(fact[name] for name in names) for fact in facts] == [
        ("commit", "users", 3, 2, 0, 0),
        ("commit", "users", 3, 1, 1, 0),
        ("commit", "users", 3, 0, 0, 1),
        ("commit", "users", 2, 0, 0, 0),
        ("commit", "users", 2, 2, 0, 0),
    ]


def test_the_bookmark_of_a_load_is_in_its_last_commit_whatever_the_transport(lake, tmp_path):
    def bookmark(number):
        return state({"bookmarks": {"users": {"id": number}}})

    def file(*ids):
        path = tmp_path / f"{ids[0]}.parquet"
        pq.write_table(pa.table({"id": list(ids), "name": ["x"] * len(ids)}), path)
        return batch("users", str(path), kind="parquet")

    lake.load(USERS, file(1, 2), bookmark(2), file(3), bookmark(3))
    lake.load(USERS, file(3, 4), bookmark(4))
    lake.load(USERS, user(4), user(5), bookmark(5), batch_size_rows=2)
    carried = [commit["state"] for commit in lake.commits("users")]
    assert carried == [{"id": 2}, {"id": 3}, {"id": 4}, {"id": 5}]
