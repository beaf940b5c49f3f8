"""Replication keys on a real PostgreSQL: what else a stream can ask for, and what goes wrong."""

from __future__ import annotations

import json
import logging
import re
import time

import pytest

from singer_spark.errors import SettingsError, SourceError, StateError
from singer_spark.report import read_report
from tests.support.tap import Postgres, previews, run_tap

SCHEMA = """
create table events (
  id int primary key, at timestamptz, day date, gone bool, gone_on timestamp, left_at int,
  note text, score float8, doc jsonb, place point);
insert into events select n, timestamptz '2024-01-01 00:00:00+00' + n * interval '1 hour',
  date '2024-01-01' + n, n = 2, case when n = 3 then timestamp '2024-05-05' end, (n = 4)::int,
  'note ' || n, n, '{}' from generate_series(1, 10) n;
create index on events (at);
create table plain (id int, at timestamptz not null, code text unique);
insert into plain values (1, '2024-01-01', 'a'), (1, '2024-01-02', 'b');
create index on plain (at);
create index on plain (coalesce(at, at));
create table later (id int primary key, at timestamptz not null, ts timestamp, day date);
insert into later values (1, now() + interval '1 hour', now() + interval '2 days', now()::date + 3);
create table ties (id int primary key, at timestamptz not null);
insert into ties select n, '2024-01-01' from generate_series(1, 50) n;
"""
STREAM = "public-events"


def config(database: Postgres, table: str = "events", settings: dict | None = None, **options):
    return database.reads(table, settings=settings, **options)


def state_of(key, value) -> dict:
    return {"bookmarks": {STREAM: {"replication_key": key, "replication_key_value": value}}}


def ids(output, stream: str | None = None) -> list[int]:
    return sorted(record["id"] for record in output.records(stream))


@pytest.mark.parametrize(
    ("flag", "expected"),
    [("gone", {2}), ("gone_on", {3}), ("left_at", {4}), ("note in ('note 5', 'note 6')", {5, 6})],
)
def test_a_flag_that_marks_rows_deleted_is_emitted_as_a_deletion(database, flag, expected):
    output = run_tap(config(database, deleted_flag=flag))
    deleted = {r["id"]: r["_sdc_deleted_at"] for r in output.records() if r["_sdc_deleted_at"]}
    assert set(deleted) == expected
    if flag == "gone_on":
        assert deleted[3] == "2024-05-05T00:00:00.000000+00:00"
    declared = output.of("SCHEMA")[0]["schema"]["properties"]["_sdc_deleted_at"]
    assert declared["format"] == "date-time"


def test_rows_below_the_bookmark_are_counted_and_can_have_a_stream_of_their_own(
    database, tmp_path, monkeypatch, caplog
):
    monkeypatch.setenv("SINGER_SPARK_REPORT", str(tmp_path / "report"))
    options = {"replication_key": "at", "lookback": 7200}
    small = {"slice_rows": 10, "num_partitions": 2}
    state = state_of("at", "2024-01-01T08:00:00+00:00")
    with caplog.at_level(logging.INFO):
        output = run_tap(config(database, settings=small, **options), state=state)
    assert ids(output, STREAM) == [6, 7, 8, 9, 10]
    assert "public-events: the lookback read 2 rows below the bookmark" in caplog.text
    metric = {"type": "counter", "metric": "late_record_count", "value": 2}
    assert f"METRIC: {json.dumps({**metric, 'tags': {'stream': STREAM}})}" in caplog.text
    told = {fact["kind"]: fact for _, fact in read_report(tmp_path / "report")}
    again = {"column": "at", "below": "2024-01-01T08:00:00.000000+00:00"}
    assert output.of("SCHEMA")[0]["singer_spark"]["read"]["again"] == again
    assert told["expected"]["rows"] == 5
    apart = run_tap(config(database, late_stream=True, **options), state=state)
    assert ids(apart, STREAM) == [8, 9, 10]
    assert ids(apart, f"{STREAM}__late") == [6, 7]
    schemas = apart.of("SCHEMA")
    assert [message["stream"] for message in schemas] == [STREAM, f"{STREAM}__late"]
    assert schemas[0]["schema"] == schemas[1]["schema"]
    assert apart.position == output.position


def test_late_rows_do_not_go_past_stream_maps(database):
    settings = {"stream_maps": {STREAM: {"note": None}}}
    options = {"replication_key": "at", "late_stream": True}
    with pytest.raises(SettingsError, match="late_stream does not go with stream maps"):
        run_tap(config(database, settings=settings, **options))


@pytest.mark.parametrize(
    ("table", "options", "warning"),
    [
        ("events", {"replication_key": "day"}, "no index begins with the replication key day"),
        ("events", {"replication_key": "at"}, "at may be NULL, and such rows are read in every"),
        (
            "events",
            {"replication_key": "at", "null_replication_key": "exclude"},
            "at may be NULL, and such rows are never read",
        ),
        ("plain", {"key_properties": ["id"]}, "no unique index guarantees that id tells rows"),
        ("later", {"replication_key": "at"}, "the highest at, .* is in the future"),
        ("later", {"replication_key": "ts"}, "the highest ts, .* is in the future"),
        ("later", {"replication_key": "day"}, "the highest day, .* is in the future"),
        ("ties", {"replication_key": "at"}, r"more than 9 rows share the at …;.*\[at, id\]"),
    ],
)
def test_what_would_cost_rows_or_time_is_warned_of(database, caplog, table, options, warning):
    with caplog.at_level(logging.WARNING):
        run_tap(config(database, table, {"slice_rows": 9, "num_partitions": 1}, **options))
    assert re.search(f"public-{table}: .*{warning}", caplog.text)


@pytest.mark.parametrize("key", ["at", "coalesce(at,  at)"])
def test_nothing_is_warned_of_where_all_is_well(database, caplog, key):
    with caplog.at_level(logging.WARNING):
        options = {"key_properties": ["code"], "null_replication_key": "fail"}
        run_tap(config(database, "plain", replication_key=key, **options))
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


@pytest.mark.parametrize(
    ("key", "error", "reason"),
    [
        ("updated", SourceError, "replication key updated is no column of public.events"),
        ("score", SettingsError, "score of type double cannot be a replication key"),
        ("place", SettingsError, r"place cannot be .* cast\(place as"),
        ("doc::json", SettingsError, "doc::json cannot be a replication key"),
        ("score * 2", SettingsError, "score . 2 of type double cannot be"),
        (
            "coalesce(nope, at)",
            SettingsError,
            "is neither a column nor an expression.*nope",
        ),
        ("at at at (", SettingsError, "neither a column nor an expression"),
        (["at", "nope"], SourceError, "replication key nope is no column"),
    ],
    ids=str,
)
def test_a_key_that_cannot_be_one_is_named(database, key, error, reason):
    with pytest.raises(error, match=f"^{STREAM}: .*{reason}") as caught:
        run_tap(config(database, replication_key=key))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("at", 5),
        ("at", "2024-13-45"),
        ("id", "7"),
        (["at", "id"], "2024-01-01"),
        (["at", "id"], ["2024-01-01"]),
        (["at", "id"], ["2024-01-01", "7"]),
        ("coalesce(at, day)", 7),
    ],
    ids=str,
)
def test_a_bookmark_of_another_type_is_one_clear_line(database, key, value):
    with pytest.raises(StateError, match=f"{STREAM}: the bookmark .*correct replication_key"):
        run_tap(config(database, replication_key=key), state=state_of(key, value))


def test_streams_before_a_bad_one_keep_their_state(database):
    bad = {"replication_key": "at", "replication_key_value": "no time"}
    tables = {"tables": ["public.events", "public.plain"]}
    output = run_tap(
        {**config(database, replication_key="at"), **tables},
        state={"bookmarks": {"public-plain": bad}},
        fails=StateError,
    )
    assert ids(output, STREAM) == list(range(1, 11))
    assert output.bookmark(STREAM)["replication_key_value"] == "2024-01-01T10:00:00.000000+00:00"
    assert output.bookmark("public-plain") == bad


def test_a_list_key_is_compared_in_order_and_starts_anywhere(database):
    key = ["at", "id"]
    state = state_of(key, ["2024-01-01T08:00:00.000000+00:00", 9])
    output = run_tap(config(database, replication_key=key), state=state)
    assert ids(output) == [8, 9, 10], "row 8 shares the first part of the bookmark"
    assert output.bookmark(STREAM)["replication_key_value"] == [
        "2024-01-01T10:00:00.000000+00:00",
        10,
    ]
    started = run_tap(config(database, replication_key=key, start_value="2024-01-01T09:00:00Z"))
    assert ids(started) == [9, 10]
    assert started.of("SCHEMA")[0]["bookmark_properties"] == key


def test_times_do_not_depend_on_the_zone_of_the_process(database, monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        output = run_tap(
            config(database, replication_key="at"), state=state_of("at", "2024-01-01T10:00:00Z")
        )
    finally:
        monkeypatch.undo()
        time.tzset()
    assert [record["at"] for record in output.records()] == ["2024-01-01T10:00:00.000000+00:00"]
    assert output.bookmark(STREAM)["replication_key_value"] == "2024-01-01T10:00:00.000000+00:00"


def test_a_plan_tells_what_a_run_would_read(database):
    state = state_of("at", "2024-01-01T08:00:00+00:00")
    (found,) = previews(config(database, replication_key="at", lookback=3600), state=state)
    assert found == {
        "stream": STREAM,
        "method": "INCREMENTAL",
        "key": "at",
        "low": "2024-01-01T07:00:00.000000+00:00",
        "high": "2024-01-01T10:00:00.000000+00:00",
        "rows": 4,
        "key_properties": ["id"],
        "read": found["read"],
    }
    assert (found["read"]["rows"], found["read"]["column"]) == ("range", "at")
    window = {"window_start": "3", "window_end": "5"}
    (found,) = previews(config(database, settings=window, replication_key="id"), state=state)
    assert (found["low"], found["high"], found["rows"]) == (3, 5, 2)
    (found,) = previews(config(database, where="id < 4"))
    assert found == {
        "stream": STREAM,
        "method": "FULL_TABLE",
        "key": None,
        "low": None,
        "high": None,
        "rows": 3,
        "key_properties": ["id"],
        "read": {"rows": "some", "why": "where"},
    }
    halfway = {"bookmarks": {STREAM: {"full_table": {"version": 1, "key": 8}}}}
    (found,) = previews(config(database), state=halfway)
    assert (found["key"], found["low"], found["rows"]) == ("id", 8, 2)
