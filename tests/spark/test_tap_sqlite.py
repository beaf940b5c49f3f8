"""SQLite, whose columns hold values of any type: they arrive exactly, or not at all."""

from __future__ import annotations

import sqlite3
from decimal import Decimal

import pytest

from singer_spark.assignment import STREAMS
from singer_spark.errors import DataError, SettingsError
from tests.support.tap import discover, entry_of, run_tap

STATEMENTS = """
create table kinds (
  id integer primary key, big bigint, r real, t text, v varchar(10), b blob, ok boolean,
  day date, at datetime, n decimal(10,2), free);
insert into kinds values
  (1, 9223372036854775807, 0.1, 'it''s: x', 'é', x'00ff', 1, '2024-01-01',
   '2024-01-01 10:00:00.123456789', 12.5, 'text');
insert into kinds values (2, -1, 1e300, '', null, x'', 0, null, null, 12345678901234567, 7);
insert into kinds values (3, null, 9e999, 1, 2.5, null, null, null, null, null, 1.5);
create table odd (id integer primary key, n integer, "a ""b" text);
insert into odd values (1, 'many', 'x');
create table pairs (b text, a integer, x text, primary key (a, b)) without rowid;
insert into pairs values ('p', 1, null), ('q', 1, 'z'), ('a', 2, 'y');
create table bytes (id blob primary key, v text);
insert into bytes values (x'00', 'a'), (x'7f00', 'b'), (x'ff', 'c');
create table holes (id text primary key, v integer);
insert into holes values ('a', 1), (null, 2), ('b', 3), (null, 4);
create table changed (id integer primary key, a integer, b integer);
insert into changed values (1, null, 9), (2, 30, 5), (3, 100, null);
create view some as select id, t from kinds;
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    path = tmp_path_factory.mktemp("sqlite") / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(STATEMENTS)
    connection.close()
    return f"jdbc:sqlite:{path}"


def test_tables_views_and_keys_are_found(url):
    catalog = discover({"source_url": url})
    names = [entry["tap_stream_id"] for entry in catalog["streams"]]
    assert names == [
        f"main-{name}" for name in ("bytes", "changed", "holes", "kinds", "odd", "pairs", "some")
    ]
    assert entry_of(catalog, "main-pairs")["key_properties"] == ["a", "b"]


def test_every_value_arrives_exactly(url):
    output = run_tap({"source_url": url, "tables": ["main.kinds"]})
    first, second, third = sorted(output.records("main-kinds"), key=lambda row: row["id"])
    assert first == {
        "id": 1,
        "big": 9223372036854775807,
        "r": Decimal("0.1"),
        "t": "it's: x",
        "v": "é",
        "b": "AP8=",
        "ok": True,
        "day": "2024-01-01",
        "at": "2024-01-01 10:00:00.123456789",
        "n": "12.5",
        "free": "text",
    }
    assert (second["r"], second["t"], second["b"], second["ok"]) == (10**300, "", "", False)
    assert (second["n"], second["free"]) == ("12345678901234567", "7")
    assert (third["r"], third["t"], third["v"], third["free"]) == ("Infinity", "1", "2.5", "1.5")


def test_a_value_of_another_kind_than_its_column_is_an_error(url):
    with pytest.raises(DataError, match="it is no value of its column's declared type"):
        run_tap({"source_url": url, "tables": ["main.odd"]})


def test_an_incremental_read_goes_on_at_its_bookmark(url):
    config = {
        "source_url": url,
        "tables": ["main.kinds"],
        "stream_options": {"*": {"replication_key": "id"}},
    }
    first = run_tap(config)
    assert first.bookmark("main-kinds")["replication_key_value"] == 3
    assert [row["id"] for row in run_tap(config, state=first.state).records()] == [3]


def test_a_pipeline_names_the_streams_that_are_read(url, monkeypatch):
    monkeypatch.setenv(STREAMS, '["main-pairs", "main-b*"]')
    config = {"source_url": url, "tables": ["main.*"]}
    read = {one["stream"] for one in run_tap(config).of("SCHEMA")}
    assert read == {"main-bytes", "main-pairs"}
    monkeypatch.setenv(STREAMS, '["main-nix"]')
    with pytest.raises(SettingsError, match=r"offers no main-nix; available: main-bytes, "):
        run_tap(config)


def test_a_key_that_may_be_null_is_warned_of(url, caplog):
    config = {"source_url": url, "tables": ["main.changed"]}
    run_tap({**config, "stream_options": {"*": {"replication_key": "b"}}})
    assert "main-changed: replication key b may be NULL" in caplog.text


def test_a_table_is_cut_along_its_key(url):
    output = run_tap({"source_url": url, "tables": ["main.pairs"], "slice_rows": 1})
    assert sorted((row["a"], row["b"]) for row in output.records()) == [
        (1, "p"),
        (1, "q"),
        (2, "a"),
    ]
    assert output.kinds.count("STATE") >= 3


def test_bytes_cut_a_table_as_bytes(url):
    output = run_tap({"source_url": url, "tables": ["main.bytes"], "slice_rows": 1})
    assert sorted(row["v"] for row in output.records()) == ["a", "b", "c"]
    keyed = {"*": {"replication_key": "id"}}
    output = run_tap({"source_url": url, "tables": ["main.bytes"], "stream_options": keyed})
    assert len(output.records()) == 3
    assert output.bookmark("main-bytes")["replication_key_value"] == "/w=="


def test_rows_whose_primary_key_is_null_are_read(url):
    config = {"source_url": url, "tables": ["main.holes"], "slice_rows": 1}
    assert sorted(row["v"] for row in run_tap(config).records()) == [1, 2, 3, 4]


def test_an_expression_is_compared_as_what_its_values_are(url):
    config = {
        "source_url": url,
        "tables": ["main.changed"],
        "stream_options": {"*": {"replication_key": "coalesce(a, b)"}},
    }
    first = run_tap(config)
    assert first.bookmark("main-changed")["replication_key_value"] == 100
    assert [row["id"] for row in run_tap(config, state=first.state).records()] == [3]


def test_a_text_key_is_a_range_where_its_order_is_that_of_bytes(url):
    bookmark = {"replication_key": "b", "replication_key_value": "p"}
    config = {
        "source_url": url,
        "tables": ["main.pairs"],
        "stream_options": {"*": {"replication_key": "b"}},
    }
    output = run_tap(config, state={"bookmarks": {"main-pairs": bookmark}})
    assert output.of("SCHEMA")[0]["singer_spark"]["read"] == {
        "rows": "range",
        "column": "b",
        "from": "p",
        "nulls": True,
    }
