"""What target-spark-delta commits is what `state recover` reads."""

from __future__ import annotations

import json

import pytest

from singer_spark.state.recover import look_for_state, rebuild
from tests.support.singer import activate, batch, state
from tests.support.users import USERS, user

PARTS = {"load_method": "partition-overwrite", "partition_by": ["name"]}
RANGES = {"load_method": "delete-insert", "range_column": "id"}


def test_a_lost_state_is_found_in_the_commits_of_the_target(lake, monkeypatch):
    monkeypatch.setenv("SINGER_SPARK_PIPELINE", "shop")
    lake.load(USERS, user(1), state({"bookmarks": {"users": {"at": 1}}}))
    lake.load(USERS, user(2), state({"bookmarks": {"users": {"at": 2}}}))
    monkeypatch.setenv("SINGER_SPARK_PIPELINE", "another")
    lake.load(USERS, user(3), state({"bookmarks": {"users": {"at": 3}}}))

    found = look_for_state(str(lake.root), "shop")
    assert [(commit.stream, commit.newer) for commit in found.commits] == [("users", 0)]
    assert rebuild({}, found.commits) == {"bookmarks": {"users": {"at": 2}}}


@pytest.mark.parametrize("chosen", [PARTS, RANGES])
def test_the_last_state_of_replaced_parts_is_found_though_it_came_after_their_commit(
    lake, tmp_path, monkeypatch, chosen
):
    monkeypatch.setenv("SINGER_SPARK_PIPELINE", "shop")
    file = tmp_path / "rows.jsonl"
    for at in (1, 2):
        file.write_text(json.dumps({"id": at, "name": "a", "qty": at}) + "\n")
        last = state({"bookmarks": {"users": {"at": at}}})
        messages = USERS, batch("users", file.as_uri()), last
        lake.load(*messages, stream_options={"users": chosen})
        found = look_for_state(str(lake.root), "shop")
        assert rebuild({}, found.commits) == last["value"]


def test_the_state_after_an_activation_that_retires_nothing_is_found(lake, monkeypatch):
    monkeypatch.setenv("SINGER_SPARK_PIPELINE", "shop")
    for at in (1, 2):
        last = state({"bookmarks": {"users": {"at": at}}})
        lake.load(USERS, user(at, version=5), activate("users", 5), last)
        found = look_for_state(str(lake.root), "shop")
        assert rebuild({}, found.commits) == last["value"]
