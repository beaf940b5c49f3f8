"""What target-spark-delta commits is what `state recover` reads."""

from __future__ import annotations

from singer_spark.state.recover import look_for_state, rebuild
from tests.support.singer import state
from tests.support.users import USERS, user


def test_a_lost_state_is_found_in_the_commits_of_the_target(lake, monkeypatch):
    monkeypatch.setenv("SINGER_SPARK_PIPELINE", "shop")
    lake.load(USERS, user(1), state({"bookmarks": {"users": {"at": 1}}}))
    lake.load(USERS, user(2), state({"bookmarks": {"users": {"at": 2}}}))
    monkeypatch.setenv("SINGER_SPARK_PIPELINE", "another")
    lake.load(USERS, user(3), state({"bookmarks": {"users": {"at": 3}}}))

    found = look_for_state(str(lake.root), "shop")
    assert [(commit.stream, commit.newer) for commit in found.commits] == [("users", 0)]
    assert rebuild({}, found.commits) == {"bookmarks": {"users": {"at": 2}}}
