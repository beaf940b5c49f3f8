"""What an upsert does to the table: the last record of a key wins, equal rows are left alone."""

from __future__ import annotations

import pytest

from singer_spark.errors import RecordError, SchemaError
from tests.support.singer import record, schema, state
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


class TestAnotherKeyInTheMiddle:
    ID = {"id": {"type": "integer"}, "region": {"type": "string"}}
    ONE, BOTH = schema("s", ID, ["id"]), schema("s", ID, ["id", "region"])
    FIRST, SECOND = (record("s", {"id": 1, "region": region}) for region in "ab")

    def test_holds_for_what_follows_where_the_run_has_made_the_table(self, lake):
        lake.load(self.ONE, self.FIRST, self.BOTH, self.SECOND, self.SECOND)
        assert sorted(row["region"] for row in lake.rows("s")) == ["a", "b"]
        lake.load(self.BOTH, self.FIRST)
        assert len(lake.rows("s")) == 2, "the table knows its new key"

    def test_is_refused_where_older_rows_have_the_one_before(self, lake):
        lake.load(self.ONE, self.FIRST)
        with pytest.raises(SchemaError, match="from id to id, region") as raised:
            lake.load(self.ONE, self.FIRST, self.BOTH, self.SECOND, state({"at": 1}))
        assert raised.value.exit_code == 65
        assert "--refresh s`" in str(raised.value)
        assert (len(lake.rows("s")), lake.states) == (1, [])
