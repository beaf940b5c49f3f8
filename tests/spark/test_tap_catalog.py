"""What a given catalog decides: streams, columns, keys; and that nothing else is looked at."""

from __future__ import annotations

import logging

import pytest

from singer_spark.errors import SettingsError, SourceError
from tap_spark_source.sources.files import FileSource
from tests.support.tap import discover, entry_of, metadata_of, run_tap


@pytest.fixture
def config(spark, tmp_path):
    rows = "id bigint, name string, at timestamp, nested struct<a: int, b: string>"
    frame = spark.createDataFrame([], rows)
    frame.write.parquet(f"{tmp_path}/empty")
    spark.sql(
        "select id, concat('n', id) as name, timestamp_micros(id) as at, "
        "named_struct('a', cast(id as int), 'b', 'x') as nested from range(3)"
    ).write.parquet(f"{tmp_path}/orders")
    return {"source_url": f"parquet:{tmp_path}"}


@pytest.fixture
def catalog(config):
    return discover(config)


def test_without_a_catalog_all_streams_are_selected(config):
    output = run_tap(config)
    assert [message["stream"] for message in output.of("SCHEMA")] == ["empty", "orders"]


def test_only_selected_streams_are_described(config, catalog, monkeypatch):
    metadata_of(entry_of(catalog, "empty"))["selected"] = False
    described = []
    original = FileSource.find
    monkeypatch.setattr(
        FileSource,
        "find",
        lambda self, place: described.append(place.stream) or original(self, place),
    )
    monkeypatch.setattr(FileSource, "discover", None)
    output = run_tap(config, catalog=catalog)
    assert described == ["orders"]
    assert [message["stream"] for message in output.of("SCHEMA")] == ["orders"]


def test_nothing_selected_needs_no_spark(config, catalog, monkeypatch):
    for entry in catalog["streams"]:
        metadata_of(entry)["selected"] = False
    monkeypatch.setattr("tap_spark_source.tap.open_source", None)
    assert run_tap(config, catalog=catalog).messages == []
    assert run_tap(config, catalog={"streams": []}).messages == []


def test_deselected_columns_are_neither_declared_nor_read(config, catalog):
    entry = entry_of(catalog, "orders")
    metadata_of(entry, "properties", "name")["selected"] = False
    metadata_of(entry, "properties", "nested")["selected"] = False
    output = run_tap(config, catalog=catalog)
    schema = output.of("SCHEMA", "orders")[0]["schema"]
    assert list(schema["properties"]) == ["id", "at"]
    assert set(output.records("orders")[0]) == {"id", "at"}


def test_keys_are_read_even_if_deselected(config, catalog):
    entry = entry_of(catalog, "orders")
    entry["key_properties"] = ["id"]
    for name in ("id", "at", "nested"):
        metadata_of(entry, "properties", name)["selected"] = False
    metadata_of(entry).update({"replication-method": "INCREMENTAL", "replication-key": "at"})
    output = run_tap(config, catalog=catalog)
    schema = output.of("SCHEMA", "orders")[0]
    assert list(schema["schema"]["properties"]) == ["id", "name", "at"]
    assert schema["key_properties"] == ["id"]
    assert output.bookmark("orders")["replication_key_value"] == "1970-01-01T00:00:00.000002+00:00"


def test_a_deselected_nested_property_goes_through_the_sdk(config, catalog, caplog):
    metadata_of(entry_of(catalog, "orders"), "properties", "nested", "properties", "b")[
        "selected"
    ] = False
    with caplog.at_level(logging.INFO):
        output = run_tap(config, catalog=catalog)
    nested = [record["nested"] for record in output.records("orders")]
    assert sorted(found["a"] for found in nested) == [0, 1, 2]
    assert all(set(found) == {"a"} for found in nested)
    assert "through the SDK" in caplog.text


def test_a_selected_table_that_is_gone_is_named(config, catalog):
    entry = entry_of(catalog, "orders")
    entry["tap_stream_id"] = entry["stream"] = entry["table_name"] = "gone"
    with pytest.raises(SourceError, match="gone: table gone is gone; discover again") as caught:
        run_tap(config, catalog=catalog)
    assert caught.value.exit_code == 69


def test_a_selected_column_that_is_gone_is_named(config, catalog):
    entry = entry_of(catalog, "orders")
    entry["schema"]["properties"]["old"] = {"type": ["string", "null"]}
    with pytest.raises(SourceError, match="orders: table orders has no column old"):
        run_tap(config, catalog=catalog)


def test_what_the_catalog_adds_to_a_property_is_kept(config, catalog):
    name = entry_of(catalog, "orders")["schema"]["properties"]["name"]
    name["maxLength"] = 9
    output = run_tap(config, catalog=catalog)
    assert output.of("SCHEMA", "orders")[0]["schema"]["properties"]["name"] == name


def test_stream_maps_go_through_the_sdk(config, caplog):
    maps = {"stream_maps": {"orders": {"name": "name.upper()", "__else__": None, "id": "id"}}}
    with caplog.at_level(logging.INFO):
        output = run_tap({**config, **maps})
    found = sorted(output.records("orders"), key=lambda record: record["id"])
    assert found == [{"name": f"N{n}", "id": n} for n in range(3)]
    assert "orders: stream maps" in caplog.text
    assert "empty: stream maps" not in caplog.text


def test_flattening_goes_through_the_sdk(config):
    output = run_tap({**config, "flattening_enabled": True, "flattening_max_depth": 1})
    assert sorted(record["nested__a"] for record in output.records("orders")) == [0, 1, 2]
    assert "nested__a" in output.of("SCHEMA", "orders")[0]["schema"]["properties"]


def test_a_load_that_goes_on_through_the_sdk_keeps_its_version(config):
    settings = {**config, "tables": ["orders"], "emit_activate_version_messages": True}
    settings |= {"flattening_enabled": True, "flattening_max_depth": 1, "max_rows": 1}
    settings["stream_options"] = {"orders": {"partition_column": "id"}}
    first = run_tap(settings)
    rest = run_tap({**settings, "max_rows": None}, state=first.state)
    version = first.bookmark("orders")["full_table"]["version"]
    assert [message["version"] for message in rest.of("ACTIVATE_VERSION")] == [version]
    assert {one["version"] for one in (*first.of("RECORD"), *rest.of("RECORD"))} == {version}
    assert len(first.records()) + len(rest.records()) == 3


def test_marked_deletions_are_not_sent_through_the_sdk_which_would_drop_them(config):
    settings = {**config, "flattening_enabled": True, "flattening_max_depth": 1}
    settings["stream_options"] = {"orders": {"deleted_flag": "id = 1"}}
    with pytest.raises(SettingsError, match="orders: LOG_BASED, snapshot and deleted_flag do not"):
        run_tap(settings)
