"""Stream maps and flattening change records on the way, and bend no number."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from singer_spark.errors import RecordError, SchemaError, SettingsError
from target_spark_delta.target import TargetSparkDelta
from tests.support.singer import batch, data, record, schema

PRICE, BIG = Decimal("1234567890123456.10"), Decimal(123456789012345678901234567890)


def test_maps_rename_filter_compute_duplicate_and_remove(lake):
    states = lake.load(
        data("maps"),
        stream_maps={
            "orders": {
                "__alias__": "sales",
                "__filter__": "id < 2",
                "city": "buyer['address']['city']",
                "hashed": "md5(config['salt'] + buyer['name'])",
                "buyer": "__NULL__",
            },
            "cities": {
                "__source__": "orders",
                "__key_properties__": ["city"],
                "city": "buyer['address']['city']",
                "__else__": "__NULL__",
            },
            "__else__": "__NULL__",
        },
        stream_map_config={"salt": "s"},
        add_record_metadata=True,
    )
    assert states == [{"bookmarks": {"orders": 2, "secrets": 7}}]
    (sale,) = lake.rows("sales")
    assert (sale["price"], sale["big"], sale["city"]) == (PRICE, BIG, "London")
    assert len(sale["hashed"]) == 32
    assert sale["_sdc_extracted_at"] is not None
    assert "buyer" not in sale
    cities = [
        {name: value for name, value in row.items() if not name.startswith("_sdc")}
        for row in lake.rows("cities", order="city")
    ]
    assert cities == [{"city": "London"}, {"city": "Paris"}]
    assert not (lake.root / "secrets").exists()
    assert [said["state"] for said in lake.commits("sales")] == [2], "the bookmark of its source"


def test_flattening_makes_columns_of_nested_objects_and_exact_text_of_lists(lake):
    lake.load(data("maps"), flattening_enabled=True, flattening_max_depth=2)
    one, _ = lake.rows("orders")
    assert one["buyer__name"] == "Ada"
    assert one["buyer__address__city"] == "London"
    assert (one["price"], one["big"]) == (PRICE, BIG)
    assert one["lines"] == '[{"sku":"a","price":0.10}]'
    lake.load(
        data("maps").replace("orders", "shallow"),
        flattening_enabled=True,
        flattening_max_depth=1,
        flattening_separator="_",
    )
    assert lake.rows("shallow")[0]["buyer_address"] == '{"city":"London"}'


def test_files_of_a_batch_are_mapped_as_records_are(lake, tmp_path):
    items = schema("items", {"id": {"type": "integer"}, "price": {"type": "number"}}, ["id"])
    file = tmp_path / "items.jsonl"
    file.write_text('{"id": 1, "price": 1.5}\n{"id": 2, "price": 2.5}\n')
    lake.load(
        items,
        batch("items", file.as_uri()),
        stream_maps={
            "items": {"__filter__": "id > 1", "double": "float(price) * 2"},
            "all_items": {"__source__": "items"},
        },
        clean_up_batch_files=True,
        batch_roots=[str(tmp_path)],
    )
    (row,) = lake.rows("items")
    assert (row["id"], row["double"]) == (2, 5.0)
    assert [row["id"] for row in lake.rows("all_items")] == [1, 2]
    assert not file.exists(), "removed after the last stream has read it"


def test_a_deletion_stays_one_whatever_the_map_leaves_out(lake):
    items = schema("items", {"id": {"type": "integer"}, "name": {"type": "string"}}, ["id"])
    lake.load(
        items,
        record("items", {"id": 1, "name": "a"}),
        record("items", {"id": 1, "_sdc_deleted_at": "2024-01-01T00:00:00Z"}),
        stream_maps={"items": {"id": "id", "__else__": None}},
    )
    assert lake.rows("items")[0]["_sdc_deleted_at"] is not None


def test_a_map_that_fails_on_a_record_is_told_or_sets_it_aside(lake):
    items = schema("items", {"id": {"type": "integer"}, "a": {"type": ["string", "null"]}}, ["id"])
    messages = items, record("items", {"id": 1, "a": None}), record("items", {"id": 2, "a": "x"})
    maps = {"stream_maps": {"items": {"a": "a + 'y'"}}}
    with pytest.raises(RecordError, match="line 2: its stream map fails"):
        lake.load(*messages, **maps)
    lake.load(*messages, **maps, on_invalid_record="quarantine")
    assert [row["a"] for row in lake.rows("items")] == ["xy"]
    with pytest.raises(RecordError, match="line 2: its stream map fails"):
        lake.load(*messages, stream_maps={"items": {"a": "md5(a)"}})
    (aside,) = lake.rows("_quarantine/items", order="line")
    assert aside["record"] == '{"id": 1, "a": null}'


def test_what_a_map_hides_is_hidden_in_quarantine_too(lake, tmp_path):
    properties = {"id": {"type": "integer"}, "mail": {"type": "string"}, "n": {"type": "integer"}}
    items = schema("items", properties, ["id"])
    sent = {"id": 1, "mail": "ada@example.com", "n": "x"}
    file = tmp_path / "items.jsonl"
    file.write_text(json.dumps({**sent, "id": 2}) + "\n")
    lake.load(
        items,
        record("items", sent),
        batch("items", file.as_uri()),
        stream_maps={"items": {"mail": "__NULL__"}},
        on_invalid_record="quarantine",
    )
    aside = [json.loads(row["record"]) for row in lake.rows("_quarantine/items", order="line")]
    assert aside == [{"id": 1, "n": "x"}, {"id": 2, "n": "x"}]


def test_two_streams_cannot_share_an_alias(lake):
    maps = {"stream_maps": {"a": {"__alias__": "x"}, "b": {"__alias__": "x"}}}
    properties = {"id": {"type": "integer"}}
    with pytest.raises(SchemaError, match="x"):
        lake.load(schema("a", properties, ["id"]), schema("b", properties, ["id"]), **maps)


def test_settings_that_cannot_work_are_refused(tmp_path):
    with pytest.raises(SettingsError, match="flattening_enabled needs flattening_max_depth"):
        TargetSparkDelta(config={"path": str(tmp_path), "flattening_enabled": True})
    names = {str(one) for one in TargetSparkDelta.capabilities}
    assert {"stream-maps", "schema-flattening", "batch", "validate-records"} <= names
