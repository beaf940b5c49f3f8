"""How a table follows its stream's schema."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from singer_spark.errors import SchemaError
from target_spark_delta.table import ddl
from tests.support.singer import data, record, schema, state

ID = {"type": "integer"}


def exact(datatype: str, kind: str = "number"):
    return {"type": [kind, "null"], "x-sql-datatype": datatype}


def test_structs_in_structs_grow_and_widen_and_arrays_of_structs_too(lake):
    lake.load(data("tables/nested_add"))
    lake.load(data("tables/nested_add_next"))
    one, two = lake.rows("s")
    assert one["o"] == {"a": {"x": Decimal(1), "y y": None}}
    assert one["l"] == [{"a": 1, "b": None}, None]
    assert two["o"] == {"a": {"x": Decimal(2**70), "y y": "new"}}
    assert two["l"] == [{"a": None, "b": ["u", "v"]}]


def test_a_date_becomes_a_timestamp_where_asked(lake):
    lake.load(data("tables/widen_date"))
    with pytest.raises(SchemaError, match=r"s\.d: .*set date_to_timestamp"):
        lake.load(data("tables/widen_date_next"))
    asked = {"stream_options": {"s": {"date_to_timestamp": True}}}
    lake.load(data("tables/widen_date_next"), **asked)
    lake.load(data("tables/widen_date"), **asked)
    assert [row["d"].isoformat() for row in lake.rows("s")] == [
        "2024-02-29T00:00:00+00:00",
        "2024-03-01T10:30:00.000001+00:00",
    ]


def test_a_large_table_is_rewritten_only_where_allowed_and_left_as_it_is_otherwise(
    lake, monkeypatch
):
    monkeypatch.setattr(ddl, "_REWRITE_LIMIT_BYTES", 0)
    lake.load(data("methods/overwrite_first"))
    before = lake.version("orders")
    with pytest.raises(SchemaError, match=r"qty \(bigint to .*set allow_rewrite: true"):
        lake.load(data("tables/widen_and_add"))
    assert lake.version("orders") == before, "nor is the new column added"
    lake.load(data("tables/widen_and_add"), stream_options={"orders": {"allow_rewrite": True}})
    assert [str(row["qty"]) for row in lake.rows("orders")] == ["1.00", "2.00", "3.00", "1.50"]


def in_files(lake, spark):
    """Return the values of a table, by a reader that knows type widening, and its files."""
    table = spark.table(f"delta.`{lake.root / 's'}`").orderBy("id")
    return table.toArrow()["x"].to_pylist(), {Path(uri).name for uri in table.inputFiles()}


def test_a_table_with_type_widening_is_not_rewritten(lake, spark):
    number = schema("s", {"id": ID, "x": exact("int", "integer")}, ["id"])
    properties = {"delta.enableTypeWidening": "true"}
    lake.load(number, record("s", {"id": 1, "x": 7}), table_properties=properties)
    _, before = in_files(lake, spark)
    wider = schema("s", {"id": ID, "x": exact("bigint", "integer")}, ["id"])
    lake.load(wider, record("s", {"id": 2, "x": 2**40}))
    values, files = in_files(lake, spark)
    assert values == [7, 2**40]
    assert before < files, "the old rows are where they were"


def test_a_table_with_type_widening_is_rewritten_where_delta_wants_more_digits(lake, spark):
    number = schema("s", {"id": ID, "x": exact("bigint", "integer")}, ["id"])
    properties = {"delta.enableTypeWidening": "true"}
    lake.load(number, record("s", {"id": 1, "x": 7}), table_properties=properties)
    wider = schema("s", {"id": ID, "x": exact("decimal(10,2)", "number")}, ["id"])
    lake.load(wider, record("s", {"id": 2, "x": 1.25}))
    values, _ = in_files(lake, spark)
    assert values == [Decimal("7.00"), Decimal("1.25")]


def test_undeclared_properties_are_left_out_and_warned_of_once(lake, caplog):
    lake.load(
        schema("s", {"id": ID}, ["id"]),
        *(record("s", {"id": i, "extra": 1}) for i in range(3)),
    )
    assert lake.rows("s") == [{"id": 0}, {"id": 1}, {"id": 2}]
    assert sum("extra" in message for message in caplog.messages) == 1


def test_streams_that_would_share_a_table_are_an_error(lake):
    with pytest.raises(SchemaError, match=r"a-b and a\.b"):
        lake.load(schema("a-b", {"id": ID}), schema("a.b", {"id": ID}))


def test_the_table_is_named_after_the_stream_below_its_schema(lake):
    lake.load(
        schema("public-orders", {"id": ID}),
        record("public-orders", {"id": 1}),
        state({}),
        default_target_schema="bronze",
    )
    assert lake.rows("bronze/public_orders") == [{"id": 1}]


def test_no_reader_is_locked_out_unasked(lake):
    for name, method in [
        ("overwrite_first", "upsert"),
        ("overwrite_wider", "upsert"),
        ("delete_insert_deletion", "upsert"),
        ("overwrite_next", "overwrite"),
    ]:
        lake.load(data(f"methods/{name}"), load_method=method)
        protocol = lake.table("orders").protocol()
        assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2), name
