"""Watermarks as times, and lookbacks from lateness."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from singer_spark.figures import parse_time
from singer_spark.health.lag import lag_seconds, suggest_lookback, watermarks, worst_lateness

NOON = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31T12:00:00+00:00",
        "2026-01-31T12:00:00Z",
        "2026-01-31 12:00",
        "2026-01-31T12:00:00.000000",
        "2026-01-31T14:00:00.0+02:00",
        "2026-01-31T14:00:00+0200",
        "2026-01-31 14:00:00.000000000+02",
    ],
)
def test_times_are_read_as_taps_write_them(text):
    assert parse_time(text) == NOON


@pytest.mark.parametrize("value", ["", "2026", "2026-13-01", "12:00", "9999-99-99", 5, None, ["x"]])
def test_other_values_are_no_times(value):
    assert parse_time(value) is None


def test_a_date_is_its_beginning():
    assert parse_time("2026-01-31") == NOON - timedelta(hours=12)


@pytest.mark.parametrize(
    "bookmark",
    [
        "2026-01-31T12:00:00Z",
        {"replication_key": "u", "replication_key_value": "2026-01-31T12:00:00Z"},
        {"replication_key_value": ["2026-01-31T12:00:00Z", 17]},
        {"updated_at": "2026-01-31T12:00:00Z", "version": 1},
    ],
)
def test_a_watermark_is_found_where_taps_put_it(bookmark):
    assert watermarks({"orders": bookmark, "old": "2001-01-01"}, ["orders"]) == {"orders": NOON}


@pytest.mark.parametrize("bookmarks", [None, 5, {}, {"orders": None}, {"orders": {"lsn": 5}}])
def test_where_there_is_none_there_is_no_lag(bookmarks):
    assert watermarks(bookmarks, ["orders"]) == {}


def test_what_lies_ahead_does_not_lag():
    assert lag_seconds(NOON, NOON + timedelta(minutes=2)) == 120
    assert lag_seconds(NOON, NOON - timedelta(minutes=2)) == 0


@pytest.mark.parametrize(
    ("worst", "lookback", "suggested"),
    [(0, 0, None), (3, 0, 6), (40, 0, 120), (40, 80, None), (40, 79, 120), (4000, 60, 10_800)],
)
def test_a_lookback_is_twice_what_was_seen_in_round_steps(worst, lookback, suggested):
    assert suggest_lookback(worst, lookback) == suggested


def test_the_worst_of_all_runs_counts():
    runs = [
        {"streams": {"a": {"late_seconds": 5}}},
        {"streams": {"a": {"late_seconds": None}, "b": {"late_seconds": 99}}},
        {"streams": {"a": {"late_seconds": 7.5}}},
        {},
    ]
    assert worst_lateness(runs, "a") == 7.5
    assert worst_lateness(runs, "c") == 0
