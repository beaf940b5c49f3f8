"""Deletions, soft and hard, and versions that retire rows."""

from __future__ import annotations

import datetime as dt

import pytest

from tests.support.singer import activate, state
from tests.support.users import USERS, deletion, user


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
