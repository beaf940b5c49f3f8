"""The tap on a real database: discovery, types and messages."""

from __future__ import annotations

from decimal import Decimal

import pytest

from singer_spark.errors import DataError, SourceError
from tests.support.derby import orders
from tests.support.tap import discover, entry_of, metadata_of, run_tap


@pytest.fixture
def url(shop):
    return shop


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
    with pytest.raises(DataError, match=r"SHOP-FINE.* it is finer than a microsecond"):
        run_tap({"source_url": url, "tables": ["SHOP.FINE"]})


def test_odd_names_are_read(url):
    output = run_tap({"source_url": url, "tables": ["SHOP.Odd*"]})
    assert output.records("SHOP-Odd-Name *") == [{"A b": 1, 'c"q': "x"}]


def test_records_start_with_type_and_stream(url):
    lines = run_tap(orders(url)).text.splitlines()
    heads = [line for line in lines if line.startswith('{"type":"RECORD","stream":"SHOP-ORDERS",')]
    assert len(heads) == 4


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
