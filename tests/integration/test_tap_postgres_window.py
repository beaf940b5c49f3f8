"""The tap on a real PostgreSQL: the window of a read, and that the database applies it."""

from __future__ import annotations

import logging

import pytest

from singer_spark.errors import SourceError
from tests.support.tap import run_tap

SCHEMA = """
create table orders (id int primary key, at timestamptz, ts timestamp, day date, amount numeric,
  code text);
insert into orders select n, '2024-01-01 00:00:00.000001+00'::timestamptz + n * interval '1 day',
  '2024-01-01 00:00:00.000001'::timestamp + n * interval '1 day', date '2024-01-01' + n,
  n + 0.5, chr(96 + n) from generate_series(1, 5) n;
create index on orders (at);
"""


def ids(output) -> list[int]:
    return sorted(record["id"] for record in output.records())


@pytest.mark.parametrize(
    ("key", "bookmark", "last"),
    [
        ("at", "2024-01-05T00:00:00.000001+00:00", "2024-01-06T00:00:00.000001+00:00"),
        ("at", "2024-01-05T05:00:00.000001+05:00", "2024-01-06T00:00:00.000001+00:00"),
        ("ts", "2024-01-05T00:00:00.000001", "2024-01-06T00:00:00.000001"),
        ("day", "2024-01-05", "2024-01-06"),
        ("id", 4, 5),
        ("amount", "4.5", "5.5"),
        ("code", "d", "e"),
    ],
)
def test_the_window_is_inclusive_to_the_microsecond(database, key, bookmark, last):
    state = {"replication_key": key, "replication_key_value": bookmark}
    output = run_tap(
        database.reads("orders", replication_key=key),
        state={"bookmarks": {"public-orders": state}},
    )
    assert ids(output) == [4, 5]
    assert output.bookmark("public-orders")["replication_key_value"] == last


def test_the_database_itself_applies_window_columns_and_upper_bound(database):
    start = len(database.log())
    state = {"replication_key": "at", "replication_key_value": "2024-01-05T00:00:00.000001+00:00"}
    run_tap(
        database.reads("orders", replication_key="at", null_replication_key="exclude"),
        state={"bookmarks": {"public-orders": state}},
    )
    survey, read = [line for line in database.asked(start) if '"public"."orders"' in line]
    assert """where "at" > '2024-01-05T00:00:00.000001+00:00' order by "at" limit""" in survey
    assert """order by "at" desc limit 1""" in survey
    assert read.rstrip().endswith(
        """WHERE "_key0" >= '2024-01-05T00:00:00.000001+00:00' and """
        """"_key0" <= '2024-01-06T00:00:00.000001+00:00'"""
    )


def test_a_row_that_arrives_during_the_read_waits_for_the_next_run(database, monkeypatch):
    from tap_spark_source.sources.jdbc import JdbcSource

    original = JdbcSource.frame

    def late(self, plan, part=None):
        database.run("insert into orders (id, at) values (99, '2025-01-01') on conflict do nothing")
        return original(self, plan, part)

    monkeypatch.setattr(JdbcSource, "frame", late)
    try:
        output = run_tap(database.reads("orders", replication_key="at"))
        assert ids(output) == [1, 2, 3, 4, 5]
        monkeypatch.undo()
        again = run_tap(database.reads("orders", replication_key="at"), state=output.state)
        assert ids(again) == [5, 99]
    finally:
        database.run("delete from orders where id = 99")


def test_what_a_long_transaction_commits_behind_the_bookmark_is_found_by_the_lookback(database):
    def reads(lookback: int) -> dict:
        return database.reads("orders", replication_key="at", lookback=lookback)

    try:
        with database.connect() as slow:
            slow.execute("insert into orders (id, at) values (90, '2025-01-01 00:00:00+00')")
            database.run("insert into orders (id, at) values (91, '2025-01-01 00:00:30+00')")
            first = run_tap(reads(60))
            assert 91 in ids(first)
            assert 90 not in ids(first)
        assert ids(run_tap(reads(60), state=first.state)) == [90, 91]
        assert ids(run_tap(reads(0), state=first.state)) == [91]
    finally:
        database.run("delete from orders where id in (90, 91)")


def test_a_bad_where_is_an_error_of_the_source(database, caplog):
    with caplog.at_level(logging.CRITICAL), pytest.raises(SourceError, match="nope"):
        run_tap(database.reads("orders", where="nope = 1"))
