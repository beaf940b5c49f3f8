"""What an upsert does to the table: the last record of a key wins, equal rows are left alone."""

from __future__ import annotations

import pytest

from singer_spark.errors import RecordError
from tests.support.singer import record, schema
from tests.support.users import PROPERTIES, USERS, user


def test_rows_that_are_equal_make_no_commit(lake):
    messages = [USERS, user(1, "a", 5), user(2, None, None)]
    lake.load(*messages)
    before = lake.version("users")
    lake.load(*messages)
    assert lake.version("users") == before
    lake.load(USERS, user(1, "a", 5), user(2, None, 0))
    assert lake.version("users") == before + 1
    history = lake.table("users").history(1)[0]
    assert history["operationMetrics"]["numTargetRowsUpdated"] == "1"


def test_keys_can_be_set_by_the_user(lake):
    lake.load(
        schema("users", PROPERTIES),
        user(1, "a"),
        user(1, "b"),
        stream_options={"users": {"key_properties": ["id"]}},
    )
    assert [row["name"] for row in lake.rows("users")] == ["b"]


def test_a_key_beyond_its_column_is_an_error_of_the_record(lake):
    message = schema("s", {"k": {"type": "integer"}}, ["k"])
    lake.load(message, record("s", {"k": 1}))
    with pytest.raises(RecordError, match="does not fit bigint"):
        lake.load(message, record("s", {"k": 2**63}))


def test_a_merge_looks_only_at_files_that_can_have_the_keys_of_the_batch(lake):
    for first in (0, 100, 200):
        lake.load(USERS, *(user(first + number, "old") for number in range(3)))
    lake.load(USERS, user(101, "new"), user(102, "new"))
    (merge,) = lake.table("users").history(1)
    metrics = merge["operationMetrics"]
    assert metrics["numTargetFilesRemoved"] == "1", "two more files have other keys"
    predicate = merge["operationParameters"]["predicate"]
    assert "101" in predicate
    assert "102" in predicate


def test_batches_of_runs_with_the_same_id_are_all_merged(lake, monkeypatch):
    monkeypatch.setenv("SINGER_SPARK_RUN_ID", "run-1")
    for name in ("a", "b"):
        lake.load(USERS, user(1, name), user(ord(name), name))
    assert [row["name"] for row in lake.rows("users")] == ["b", "a", "b"]
