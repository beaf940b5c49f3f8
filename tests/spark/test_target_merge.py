"""What a load does to the table: upserts, deletions, appends, versions, metadata."""

from __future__ import annotations

import datetime as dt

import pytest

from singer_spark.errors import RecordError
from tests.support.singer import activate, record, schema, state

PROPERTIES = {
    "id": {"type": ["integer", "null"]},
    "name": {"type": ["string", "null"]},
    "qty": {"type": ["integer", "null"]},
}
USERS = schema("users", PROPERTIES, ["id"])
GONE = "2024-05-01T00:00:00.000001+00:00"


def user(id_, name=None, qty=None, **more):
    return record("users", {"id": id_, "name": name, "qty": qty}, **more)


def deletion(id_, **carried):
    return record("users", {"id": id_, "_sdc_deleted_at": GONE, **carried})


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


def test_a_soft_deletion_marks_the_row_and_changes_only_what_it_carries(lake):
    lake.load(USERS, user(1, "a", 5), user(2, "b", 6))
    lake.load(USERS, deletion(1), deletion(2, qty=9), deletion(3))
    at = dt.datetime(2024, 5, 1, 0, 0, 0, 1, dt.timezone.utc)
    assert lake.rows("users") == [
        {"id": 1, "name": "a", "qty": 5, "_sdc_deleted_at": at},
        {"id": 2, "name": "b", "qty": 9, "_sdc_deleted_at": at},
        {"id": 3, "name": None, "qty": None, "_sdc_deleted_at": at},
    ]


def test_a_record_after_a_soft_deletion_brings_the_row_back(lake):
    lake.load(USERS, user(1, "a"), deletion(1))
    assert lake.rows("users")[0]["_sdc_deleted_at"] is not None
    lake.load(USERS, user(1, "a"))
    assert lake.rows("users") == [{"id": 1, "name": "a", "qty": None, "_sdc_deleted_at": None}]


def test_a_hard_deletion_removes_the_row_and_never_inserts(lake):
    lake.load(USERS, user(1, "a"), user(2, "b"), hard_delete=True)
    lake.load(USERS, deletion(1), deletion(3), hard_delete=True)
    assert lake.rows("users") == [{"id": 2, "name": "b", "qty": None}]


def test_hard_deletions_of_rows_that_are_not_there_make_no_commit(lake):
    lake.load(USERS, user(1, "a"), hard_delete=True)
    before = lake.version("users")
    lake.load(USERS, deletion(5), hard_delete=True)
    assert lake.version("users") == before


@pytest.mark.parametrize("hard", [True, False])
def test_a_deletion_and_an_insert_of_a_key_in_one_batch_act_in_their_order(lake, hard):
    lake.load(USERS, user(1, "old"), user(2, "old"), hard_delete=hard)
    lake.load(USERS, deletion(1), user(1, "new"), user(2, "new"), deletion(2), hard_delete=hard)
    alive = [row for row in lake.rows("users") if not row.get("_sdc_deleted_at")]
    assert [(row["id"], row["name"]) for row in alive] == [(1, "new")]
    if not hard:
        assert [row["name"] for row in lake.rows("users")] == ["new", "new"]


def test_a_stream_without_a_key_is_appended(lake):
    message = schema("log", PROPERTIES)
    for _ in range(2):
        lake.load(message, record("log", {"id": 1}), record("log", {"id": 1}))
    assert len(lake.rows("log")) == 4


def test_append_only_keeps_every_record_of_a_key(lake):
    lake.load(USERS, user(1, "a"), user(1, "b"), load_method="append-only")
    lake.load(USERS, user(1, "c"), stream_options={"us*": {"load_method": "append-only"}})
    assert sorted(row["name"] for row in lake.rows("users")) == ["a", "b", "c"]


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
        },
        {
            "pipeline": "shop",
            "run_id": "run-1",
            "stream": "users",
            "batch": 2,
            "rows": 1,
            "state": {"free": "form"},
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


@pytest.mark.parametrize("hard", [True, False])
def test_activate_version_retires_rows_of_older_versions_only(lake, hard):
    lake.load(USERS, user(0, "no version"))
    lake.load(USERS, user(1, "a", version=1), user(2, "b", version=1), hard_delete=hard)
    lake.load(
        USERS, user(1, "c", version=2), activate("users", 2), state({"done": 1}), hard_delete=hard
    )
    assert lake.states == [{"done": 1}]
    alive = [row for row in lake.rows("users") if not row.get("_sdc_deleted_at")]
    assert [(row["id"], row["name"]) for row in alive] == [(0, "no version"), (1, "c")]
    assert len(lake.rows("users")) == (2 if hard else 3)


def test_an_activation_before_its_records_waits_for_the_confirmed_end(lake):
    lake.load(USERS, user(1, "a", version=1), user(2, "b", version=1), hard_delete=True)
    messages = [USERS, activate("users", 2), user(1, "c", version=2)]
    lake.load(*messages, hard_delete=True)
    assert [row["id"] for row in lake.rows("users")] == [1, 2], "the tap may have died"
    lake.load(*messages, state({"bookmarks": {"users": {"full_table": {}}}}), hard_delete=True)
    assert [row["id"] for row in lake.rows("users")] == [1, 2], "the tap has more to send"
    lake.load(*messages, state({"bookmarks": {"users": {}}}), hard_delete=True)
    assert [row["id"] for row in lake.rows("users")] == [1]


def test_an_activation_that_no_record_follows_acts_at_the_end_of_input(lake):
    lake.load(USERS, user(1, "a", version=1), hard_delete=True)
    lake.load(USERS, activate("users", 2), hard_delete=True)
    assert lake.rows("users") == []


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
