"""How a table follows its stream's schema."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from singer_spark.errors import SchemaError
from tests.support.singer import data, record, schema, state

ID = {"type": "integer"}


def exact(datatype: str, kind: str = "number"):
    return {"type": [kind, "null"], "x-sql-datatype": datatype}


def test_new_columns_are_added_also_inside_structs_and_arrays(lake):
    lake.load(
        schema(
            "s",
            {
                "id": ID,
                "o": {"type": "object", "properties": {"a": ID}},
                "l": {"type": "array", "items": {"type": "object", "properties": {"a": ID}}},
            },
            ["id"],
        ),
        record("s", {"id": 1, "o": {"a": 1}, "l": [{"a": 1}]}),
    )
    more = {"type": "object", "properties": {"b": {"type": "string"}, "a": ID}}
    lake.load(
        schema(
            "s",
            {
                "id": ID,
                "new": {"type": "boolean"},
                "o": more,
                "l": {"type": "array", "items": more},
            },
            ["id"],
        ),
        record("s", {"id": 2, "new": True, "o": {"a": 2, "b": "x"}, "l": [{"a": 2, "b": "y"}]}),
    )
    assert lake.rows("s") == [
        {"id": 1, "o": {"a": 1, "b": None}, "l": [{"a": 1, "b": None}], "new": None},
        {"id": 2, "o": {"a": 2, "b": "x"}, "l": [{"a": 2, "b": "y"}], "new": True},
    ]


@pytest.mark.parametrize(
    ("before", "after", "old", "new", "expected"),
    [
        (exact("int", "integer"), exact("bigint", "integer"), 1, 2**40, [1, 2**40]),
        (exact("float"), exact("double"), 0.5, 1e300, [0.5, 1e300]),
        (
            exact("int", "integer"),
            exact("decimal(20,2)"),
            7,
            1.25,
            [Decimal("7.00"), Decimal("1.25")],
        ),
        (
            exact("decimal(5,2)"),
            exact("decimal(10,4)"),
            123.45,
            1.2345,
            [Decimal("123.4500"), Decimal("1.2345")],
        ),
        (
            exact("bigint", "integer"),
            exact("decimal(38,0)", "integer"),
            5,
            2**70,
            [Decimal(5), Decimal(2**70)],
        ),
    ],
    ids=["int-bigint", "float-double", "int-decimal", "decimal", "bigint-decimal"],
)
def test_a_column_is_widened_without_loss(lake, before, after, old, new, expected):
    lake.load(schema("s", {"id": ID, "x": before}, ["id"]), record("s", {"id": 1, "x": old}))
    lake.load(schema("s", {"id": ID, "x": after}, ["id"]), record("s", {"id": 2, "x": new}))
    assert [row["x"] for row in lake.rows("s")] == expected


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


def test_a_table_with_type_widening_is_not_rewritten(lake, spark):
    number = schema("s", {"id": ID, "x": exact("int", "integer")}, ["id"])
    properties = {"delta.enableTypeWidening": "true"}
    lake.load(number, record("s", {"id": 1, "x": 7}), table_properties=properties)
    before = lake.table("s").file_uris()
    wider = schema("s", {"id": ID, "x": exact("bigint", "integer")}, ["id"])
    lake.load(wider, record("s", {"id": 2, "x": 2**40}))
    rows = spark.table(f"delta.`{lake.root / 's'}`").orderBy("id").toArrow().to_pylist()
    assert [row["x"] for row in rows] == [7, 2**40], "this reader must know type widening"
    history = spark.sql(f"describe history delta.`{lake.root / 's'}`").toArrow()
    assert "CHANGE COLUMN" in history["operation"].to_pylist()
    assert {Path(uri).name for uri in before} <= {
        p.name for p in (lake.root / "s").glob("*.parquet")
    }


def test_names_inside_a_struct_that_differ_only_by_case_are_an_error_too(lake):
    with pytest.raises(SchemaError, match=r"l\.Name and l\.name"):
        lake.load(data("tables/case_clash_nested"))


def test_a_narrower_schema_leaves_the_column_as_wide_as_it_is(lake):
    wide, narrow = exact("decimal(20,5)"), exact("int", "integer")
    lake.load(schema("s", {"id": ID, "x": wide}, ["id"]), record("s", {"id": 1, "x": 1.5}))
    lake.load(schema("s", {"id": ID, "x": narrow}, ["id"]), record("s", {"id": 2, "x": 3}))
    assert [row["x"] for row in lake.rows("s")] == [Decimal("1.50000"), Decimal("3.00000")]


def test_whole_numbers_go_into_a_double_column(lake):
    lake.load(
        schema("s", {"id": ID, "x": {"type": "number"}}, ["id"]), record("s", {"id": 1, "x": 1.5})
    )
    lake.load(schema("s", {"id": ID, "x": ID}, ["id"]), record("s", {"id": 2, "x": 3}))
    assert [row["x"] for row in lake.rows("s")] == [1.5, 3.0]


def test_a_change_that_would_lose_information_names_column_and_types(lake):
    lake.load(schema("s", {"id": ID, "x": ID}, ["id"]), record("s", {"id": 1, "x": 1}))
    before = lake.version("s")
    with pytest.raises(SchemaError, match=r"x: string does not fit the table's bigint") as raised:
        lake.load(
            schema("s", {"id": ID, "x": {"type": "string"}}, ["id"]),
            record("s", {"id": 2, "x": "a"}),
        )
    assert raised.value.exit_code == 65
    assert lake.version("s") == before


def test_freeze_refuses_any_change_and_names_it(lake):
    lake.load(schema("s", {"id": ID}, ["id"]), record("s", {"id": 1}))
    with pytest.raises(SchemaError, match="new"):
        lake.load(
            schema("s", {"id": ID, "new": ID}, ["id"]),
            record("s", {"id": 2}),
            schema_changes="freeze",
        )
    lake.load(schema("s", {"id": ID}, ["id"]), record("s", {"id": 3}), schema_changes="freeze")
    assert [row["id"] for row in lake.rows("s")] == [1, 3]


def test_a_schema_that_changes_in_mid_stream_flushes_under_the_old_one_first(lake):
    lake.load(
        schema("s", {"id": ID}, ["id"]),
        record("s", {"id": 1, "x": "undeclared"}),
        schema("s", {"id": ID, "x": {"type": "string"}}, ["id"]),
        record("s", {"id": 2, "x": "declared"}),
    )
    assert lake.rows("s") == [{"id": 1, "x": None}, {"id": 2, "x": "declared"}]


def test_a_schema_that_repeats_makes_no_batch_of_its_own(lake):
    message = schema("s", {"id": ID}, ["id"])
    lake.load(*(m for i in range(5) for m in (message, record("s", {"id": i}))))
    assert [commit["rows"] for commit in lake.commits("s")] == [5]


def test_undeclared_properties_are_left_out_and_warned_of_once(lake, caplog):
    lake.load(
        schema("s", {"id": ID}, ["id"]),
        *(record("s", {"id": i, "extra": 1}) for i in range(3)),
    )
    assert lake.rows("s") == [{"id": 0}, {"id": 1}, {"id": 2}]
    assert sum("extra" in message for message in caplog.messages) == 1


NAMES = [
    "with space",
    "dot.ted",
    "quo'te",
    'double"quote',
    "back`tick",
    "ünïcode",
    "1digit",
    "select",
    "a,b;c{d}(e)=f",
    "x" * 255,
]


def test_columns_keep_their_names_whatever_they_hold(lake):
    properties = {"id": ID, **{name: {"type": "string"} for name in NAMES}}
    message = schema("s", properties, ["id", "with space"])
    lake.load(message, record("s", {"id": 1, **{name: name for name in NAMES}}))
    lake.load(message, record("s", {"id": 1, **{name: name for name in NAMES}, "select": "new"}))
    (row,) = lake.rows("s")
    assert row == {"id": 1, **{name: name for name in NAMES}, "select": "new"}


def test_a_column_with_an_odd_name_can_be_added_to_a_plain_table(lake):
    lake.load(schema("s", {"id": ID}, ["id"]), record("s", {"id": 1}))
    lake.load(
        schema("s", {"id": ID, "odd name": ID}, ["id"]), record("s", {"id": 2, "odd name": 5})
    )
    assert lake.rows("s") == [{"id": 1, "odd name": None}, {"id": 2, "odd name": 5}]


def test_columns_that_differ_only_by_case_are_an_error_that_names_both(lake):
    with pytest.raises(SchemaError, match="Name and name"):
        lake.load(schema("s", {"Name": ID, "name": ID}))


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
    lake.load(schema("s", {"id": ID}, ["id"]), record("s", {"id": 1}))
    protocol = lake.table("s").protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)


def test_references_in_a_schema_are_followed(lake):
    lake.load(
        schema(
            "s",
            {"id": ID, "address": {"$ref": "#/definitions/address"}},
            ["id"],
            definitions={"address": {"type": "object", "properties": {"city": {"type": "string"}}}},
        ),
        record("s", {"id": 1, "address": {"city": "Bern"}}),
    )
    assert lake.rows("s") == [{"id": 1, "address": {"city": "Bern"}}]
