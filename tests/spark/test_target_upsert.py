"""What an upsert does to the table: the last record of a key wins, equal rows are left alone."""

from __future__ import annotations

import pytest

from singer_spark.errors import RecordError
from tests.support.singer import record, schema
from tests.support.users import PROPERTIES, USERS, user


def test_the_last_record_of_a_key_wins_in_a_batch_and_between_batches(lake):
    lake.load(USERS, user(1, "a"), user(2, "b"), user(1, "c"))
    lake.load(USERS, user(2, "d"), user(3, "e"), user(2, "f"))
    assert [(row["id"], row["name"]) for row in lake.rows("users")] == [
        (1, "c"),
        (2, "f"),
        (3, "e"),
    ]


def test_null_keys_match_each_other_so_no_row_is_doubled(lake):
    for _ in range(2):
        lake.load(USERS, user(None, "nobody"), user(1, "a"), user(None, "somebody"))
    assert [(row["id"], row["name"]) for row in lake.rows("users")] == [
        (None, "somebody"),
        (1, "a"),
    ]


def test_composite_keys_of_several_types_match_as_a_whole(lake):
    properties = {
        "day": {"type": "string", "format": "date"},
        "shop": {"type": "string"},
        "at": {"type": "string", "format": "date-time"},
        "sold": {"type": "number", "multipleOf": 0.01},
    }
    message = schema("sales", properties, ["day", "shop", "at"])

    def sale(shop, sold, at="2024-01-01T10:00:00.5Z"):
        return record("sales", {"day": "2024-01-01", "shop": shop, "at": at, "sold": sold})

    lake.load(message, sale("it's", 1.5), sale("b", 2))
    lake.load(message, sale("it's", 2.5), sale("b", 3, "2024-01-01T10:00:00.500001Z"))
    rows = lake.rows("sales", order="sold")
    assert [(row["shop"], str(row["sold"])) for row in rows] == [
        ("b", "2.00"),
        ("it's", "2.50"),
        ("b", "3.00"),
    ]


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


def test_equal_rows_are_rewritten_when_skip_unchanged_is_off(lake):
    lake.load(USERS, user(1, "a"))
    before = lake.version("users")
    lake.load(USERS, user(1, "a"), skip_unchanged=False)
    assert lake.version("users") == before + 1


def test_a_property_that_a_record_does_not_carry_is_null(lake):
    lake.load(USERS, user(1, "a", 5))
    lake.load(USERS, record("users", {"id": 1, "name": "b"}))
    assert lake.rows("users") == [{"id": 1, "name": "b", "qty": None}]


def test_with_partial_records_what_a_record_does_not_carry_is_left_alone(lake):
    options = {"stream_options": {"users": {"partial_records": True}}}
    lake.load(USERS, user(1, "a", 5), **options)
    lake.load(
        USERS,
        record("users", {"id": 1, "name": "b"}),
        record("users", {"id": 1, "qty": None}),
        record("users", {"id": 2, "name": "new"}),
        record("users", {"id": 2, "qty": 7}),
        **options,
    )
    assert lake.rows("users") == [
        {"id": 1, "name": "b", "qty": None},
        {"id": 2, "name": "new", "qty": 7},
    ]


def test_a_column_that_the_schema_no_longer_declares_keeps_its_values(lake):
    lake.load(USERS, user(1, "a", 5))
    fewer = schema("users", {"id": PROPERTIES["id"], "name": PROPERTIES["name"]}, ["id"])
    lake.load(fewer, record("users", {"id": 1, "name": "b"}), record("users", {"id": 2}))
    assert lake.rows("users") == [
        {"id": 1, "name": "b", "qty": 5},
        {"id": 2, "name": None, "qty": None},
    ]


def test_a_record_without_its_key_is_an_error_with_and_without_validation(lake):
    for validate in (True, False):
        with pytest.raises(RecordError, match=r"line 2: key property id is missing"):
            lake.load(USERS, record("users", {"name": "x"}), validate_records=validate)


def test_a_null_key_is_an_error_only_where_its_schema_forbids_null(lake):
    strict = schema("users", {"id": {"type": "integer"}}, ["id"])
    for validate in (True, False):
        with pytest.raises(RecordError, match="line 2"):
            lake.load(strict, record("users", {"id": None}), validate_records=validate)


def test_changed_keys_flush_first_and_apply_to_what_follows(lake):
    by_name = schema("users", PROPERTIES, ["name"])
    lake.load(USERS, user(1, "a"), user(1, "b"), by_name, user(2, "b", 5), user(3, "c"))
    assert [(row["id"], row["name"]) for row in lake.rows("users")] == [(2, "b"), (3, "c")]


def test_keys_can_be_set_by_the_user(lake):
    lake.load(
        schema("users", PROPERTIES),
        user(1, "a"),
        user(1, "b"),
        stream_options={"users": {"key_properties": ["id"]}},
    )
    assert [row["name"] for row in lake.rows("users")] == ["b"]


def test_texts_that_look_like_sql_are_keys_like_any_other(lake):
    message = schema("s", {"k": {"type": "string"}, "v": {"type": "integer"}}, ["k"])
    keys = ["${spark.app.name}", "it's", "back\\slash\\", "new\nline", "`quoted`", "", "\u00e9"]
    records = [record("s", {"k": key, "v": number}) for number, key in enumerate(keys)]
    lake.load(message, *records)
    before = lake.version("s")
    lake.load(message, *records)
    assert lake.version("s") == before
    lake.load(message, *(record("s", {"k": key, "v": 9}) for key in keys))
    assert {row["k"]: row["v"] for row in lake.rows("s", order="k")} == dict.fromkeys(keys, 9)


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
