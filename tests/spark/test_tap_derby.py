"""The tap on a real database: discovery, types, windows and bookmarks."""

from __future__ import annotations

import logging
from decimal import Decimal

import pytest

from singer_spark.errors import DataError, SourceError, StateError
from tests.support.tap import discover, entry_of, make_derby, metadata_of, run_tap

STATEMENTS = """
create schema shop;
create table shop.kinds (
  id bigint not null, part char(3) not null, s smallint, d decimal(20,5), n numeric(31,0), r real,
  f double, v varchar(50), c clob, bl blob, bin varchar(10) for bit data, dt date, tm time,
  ts timestamp, ok boolean, primary key (part, id));
insert into shop.kinds values
  (9223372036854775807, 'abc', -32768, 123456789012345.12345, 1234567890123456789012345678901,
   1.5, 1e300, 'a "quoted" text', 'clob', cast(X'00ff' as blob), X'0102', '0001-01-01',
   '23:59:59', '2024-01-01 00:00:00.123456', true);
insert into shop.kinds (id, part) values (1, 'nul');
create table shop.fine (ts timestamp);
insert into shop.fine values ('2024-01-01 00:00:00.123456789');
create table shop.orders (
  id int primary key, "AT" timestamp, price decimal(10,2), day date, code varchar(9));
insert into shop.orders values
  (1, '2024-01-01 00:00:00', 1.00, '2024-01-01', 'a'),
  (2, '2024-01-02 00:00:00.123456', 2.00, '2024-01-02', 'b'),
  (3, '2024-01-03 00:00:00', 3.00, '2024-01-03', 'c'),
  (4, null, null, null, null);
create view shop.some_orders as select id, "AT" from shop.orders;
create table shop."Odd-Name *" ("A b" int primary key, "c""q" varchar(9));
insert into shop."Odd-Name *" values (1, 'x');
"""
STREAM = "SHOP-ORDERS"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    return make_derby(tmp_path_factory.mktemp("derby") / "shop", STATEMENTS)


def orders(url: str, **options) -> dict:
    return {
        "source_url": url,
        "tables": ["SHOP.ORDERS"],
        "stream_options": {STREAM: options},
    }


def state_of(key: str, value) -> dict:
    bookmark = {"replication_key": key, "replication_key_value": value}
    return {"bookmarks": {STREAM: bookmark}}


def ids(output) -> list[int]:
    return sorted(record["ID"] for record in output.records(STREAM))


def test_discovery_describes_tables_views_keys_and_types(url):
    catalog = discover({"source_url": url})
    streams = [entry["tap_stream_id"] for entry in catalog["streams"]]
    assert streams == [
        "SHOP-FINE",
        "SHOP-KINDS",
        "SHOP-ORDERS",
        "SHOP-Odd-Name *",
        "SHOP-SOME_ORDERS",
    ]
    kinds = entry_of(catalog, "SHOP-KINDS")
    assert kinds["key_properties"] == ["PART", "ID"]
    root = metadata_of(kinds)
    assert root["table-key-properties"] == ["PART", "ID"]
    assert root["schema-name"] == "SHOP"
    assert root["is-view"] is False
    assert root["valid-replication-keys"] == ["ID", "S", "D", "N", "DT", "TS"]
    assert metadata_of(kinds, "properties", "ID") == {
        "inclusion": "automatic",
        "sql-datatype": "BIGINT NOT NULL",
    }
    assert metadata_of(kinds, "properties", "V")["inclusion"] == "available"
    types = {name: value["x-sql-datatype"] for name, value in kinds["schema"]["properties"].items()}
    assert types["D"] == "decimal(20,5)"
    assert types["TS"] == "timestamp_ntz"
    assert types["TM"] == "string"
    assert types["BL"] == "binary"
    assert metadata_of(entry_of(catalog, "SHOP-SOME_ORDERS"))["is-view"] is True


def test_only_the_asked_tables_are_described(url):
    catalog = discover({"source_url": url, "tables": ["SHOP.*ORDERS", "SHOP.Odd-Name [*]"]})
    streams = [entry["tap_stream_id"] for entry in catalog["streams"]]
    assert streams == ["SHOP-ORDERS", "SHOP-Odd-Name *", "SHOP-SOME_ORDERS"]


def test_a_table_that_is_asked_for_by_name_must_be_there(url):
    with pytest.raises(SourceError, match=r"no table SHOP\.NOPE"):
        discover({"source_url": url, "tables": ["SHOP.NOPE", "SHOP.ORDERS"]})


def test_every_type_arrives_exactly(url):
    output = run_tap({"source_url": url, "tables": ["SHOP.KINDS"]})
    first, second = sorted(output.records(), key=lambda record: record["PART"])
    assert first == {
        "ID": 9223372036854775807,
        "PART": "abc",
        "S": -32768,
        "D": Decimal("123456789012345.12345"),
        "N": 1234567890123456789012345678901,
        "R": Decimal("1.5"),
        "F": Decimal("1E300"),
        "V": 'a "quoted" text',
        "C": "clob",
        "BL": "AP8=",
        "BIN": "AQI=",
        "DT": "0001-01-01",
        "TM": "23:59:59.000000",
        "TS": "2024-01-01T00:00:00.123456",
        "OK": True,
    }
    assert second == {**dict.fromkeys(first), "ID": 1, "PART": "nul"}


def test_what_is_finer_than_a_microsecond_is_an_error(url):
    with pytest.raises(DataError, match=r"SHOP-FINE.*123456789 is finer than a microsecond"):
        run_tap({"source_url": url, "tables": ["SHOP.FINE"]})


def test_odd_names_are_read(url):
    output = run_tap({"source_url": url, "tables": ["SHOP.Odd*"]})
    assert output.records("SHOP-Odd-Name *") == [{"A b": 1, 'c"q': "x"}]


def test_records_start_with_type_and_stream(url):
    lines = run_tap(orders(url)).text.splitlines()
    heads = [line for line in lines if line.startswith('{"type":"RECORD","stream":"SHOP-ORDERS",')]
    assert len(heads) == 4


def test_a_first_incremental_run_reads_all_and_bookmarks_the_highest_key(url):
    output = run_tap(orders(url, replication_key="AT"))
    assert ids(output) == [1, 2, 3, 4]
    assert output.bookmark(STREAM) == {
        "replication_key": "AT",
        "replication_key_value": "2024-01-03T00:00:00.000000",
    }
    assert output.of("SCHEMA")[0]["bookmark_properties"] == ["AT"]


@pytest.mark.parametrize(
    ("key", "value", "next_value"),
    [
        ("AT", "2024-01-02T00:00:00.123456", "2024-01-03T00:00:00.000000"),
        ("ID", 2, 4),
        ("PRICE", "2.00", "3.00"),
        ("DAY", "2024-01-02", "2024-01-03"),
        ("CODE", "b", "c"),
    ],
)
def test_the_window_begins_at_the_bookmark_inclusively(url, key, value, next_value):
    options = {"replication_key": key, "null_replication_key": "exclude"}
    output = run_tap(orders(url, **options), state=state_of(key, value))
    assert ids(output) == ([2, 3, 4] if key == "ID" else [2, 3])
    assert output.bookmark(STREAM)["replication_key_value"] == next_value


def test_rows_without_a_key_are_read_in_every_run_unless_excluded(url):
    state = state_of("AT", "2024-01-03T00:00:00")
    assert ids(run_tap(orders(url, replication_key="AT"), state=state)) == [3, 4]
    options = {"replication_key": "AT", "null_replication_key": "exclude"}
    assert ids(run_tap(orders(url, **options), state=state)) == [3]


def test_rows_without_a_key_can_be_an_error(url):
    options = {"replication_key": "AT", "null_replication_key": "fail"}
    with pytest.raises(DataError, match="SHOP-ORDERS: 1 rows have no AT"):
        run_tap(orders(url, **options))


@pytest.mark.parametrize(
    ("key", "value", "lookback"),
    [
        ("AT", "2024-01-03T00:00:00", 86400),
        ("ID", 3, 1),
        ("PRICE", "3.00", 1.0),
        ("DAY", "2024-01-03", 86400),
    ],
)
def test_lookback_widens_the_query_and_never_the_bookmark(url, key, value, lookback):
    options = {"replication_key": key, "lookback": lookback, "null_replication_key": "exclude"}
    output = run_tap(orders(url, **options), state=state_of(key, value))
    assert ids(output)[:2] == [2, 3]
    again = run_tap(orders(url, **options), state=output.state)
    assert again.state == output.state


def test_a_bookmark_ahead_of_the_source_stays_and_is_warned_of(url, caplog):
    state = state_of("AT", "2030-01-01T00:00:00.000000")
    options = {"replication_key": "AT", "null_replication_key": "exclude"}
    with caplog.at_level(logging.WARNING):
        output = run_tap(orders(url, **options), state=state)
    assert ids(output) == []
    assert output.state == state
    assert "ahead of the source" in caplog.text


def test_an_empty_window_keeps_the_bookmark(url):
    state = state_of("ID", 4)
    options = {"replication_key": "ID", "where": "id > 100"}
    output = run_tap(orders(url, **options), state=state)
    assert ids(output) == []
    assert output.state == state


def test_a_bookmark_with_an_offset_is_the_same_instant(url):
    options = {"replication_key": "AT", "null_replication_key": "exclude"}
    output = run_tap(orders(url, **options), state=state_of("AT", "2024-01-03T05:00:00+05:00"))
    assert ids(output) == [3]


def test_start_date_and_start_value_begin_the_first_run(url):
    options = {"replication_key": "AT", "null_replication_key": "exclude"}
    config = {**orders(url, **options), "start_date": "2024-01-02T00:00:00Z"}
    assert ids(run_tap(config)) == [2, 3]
    assert ids(run_tap(orders(url, replication_key="ID", start_value=3))) == [3, 4]


def test_another_replication_key_starts_afresh(url, caplog):
    with caplog.at_level(logging.INFO):
        output = run_tap(orders(url, replication_key="ID"), state=state_of("AT", "2024-01-03"))
    assert ids(output) == [1, 2, 3, 4]
    assert output.bookmark(STREAM) == {"replication_key": "ID", "replication_key_value": 4}
    assert "the replication key was AT and is now ID" in caplog.text


def test_a_bookmark_that_is_no_time_is_a_state_error(url):
    with pytest.raises(StateError, match="SHOP-ORDERS: the bookmark is no timestamp_ntz"):
        run_tap(orders(url, replication_key="AT"), state=state_of("AT", "yesterday"))


def test_the_where_of_a_stream_limits_records_and_bookmark(url):
    output = run_tap(orders(url, replication_key="ID", where="id <= 2"))
    assert ids(output) == [1, 2]
    assert output.bookmark(STREAM)["replication_key_value"] == 2


def test_what_else_the_state_holds_survives(url):
    state = {"top": {"x": 1}, "bookmarks": {"other": {"lsn": 5}, STREAM: {"extra": 1}}}
    output = run_tap(orders(url, replication_key="ID"), state=state)
    bookmark = {"extra": 1, "replication_key": "ID", "replication_key_value": 4}
    assert output.state == {"top": {"x": 1}, "bookmarks": {"other": {"lsn": 5}, STREAM: bookmark}}


def test_null_bookmarks_are_an_empty_state(url):
    output = run_tap(orders(url), state={"bookmarks": None})
    assert output.state == {"bookmarks": {STREAM: {}}}


def test_a_state_follows_every_stream_even_if_nothing_changed(url):
    first = run_tap(orders(url, replication_key="ID"))
    again = run_tap(orders(url, replication_key="ID"), state=first.state)
    assert again.kinds == ["STATE", "SCHEMA", "RECORD", "STATE"]
    assert again.state == first.state


def test_a_version_is_activated_after_its_last_record(url):
    config = {**orders(url), "emit_activate_version_messages": True}
    output = run_tap(config)
    assert output.kinds == ["SCHEMA", *["RECORD"] * 4, "ACTIVATE_VERSION", "STATE"]
    version = output.of("ACTIVATE_VERSION")[0]["version"]
    assert {message["version"] for message in output.of("RECORD")} == {version}


def test_decimals_are_strings_when_asked_for(url):
    output = run_tap({**orders(url), "use_singer_decimal": True})
    price = output.of("SCHEMA")[0]["schema"]["properties"]["PRICE"]
    assert price == {
        "type": ["string", "null"],
        "format": "x-singer.decimal",
        "precision": 10,
        "scale": 2,
        "x-sql-datatype": "decimal(10,2)",
    }
    assert sorted(record["PRICE"] or "" for record in output.records()) == [
        "",
        "1.00",
        "2.00",
        "3.00",
    ]
