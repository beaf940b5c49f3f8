"""Values at the edges of their types, and records of unusual size, read back by delta-rs."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal

import pytest

from singer_spark.errors import DataError, RecordError, SchemaError
from tests.support.singer import data, record, schema

UTC = dt.timezone.utc
SPARE = {"id": {"type": "integer"}, "free": {}, "list": {"type": "array"}}


def test_values_at_the_edges_of_their_types_arrive_exactly(lake):
    lake.load(data("values"))
    one, two, three, four = lake.rows("values")
    assert math.isnan(one.pop("x"))
    assert one == {
        "id": 1,
        "d38": Decimal("1234567890123456789012345678.0123456789"),
        "money": Decimal("-12345678901234567890123456789.123456789"),
        "big": Decimal("9" * 37),
        "day": dt.date(1, 1, 1),
        "at": dt.datetime(1, 1, 1, tzinfo=UTC),
        "text": "",
        "bytes": b"\x00\xff",
        "list": [],
    }
    assert two == {
        "id": 2,
        "d38": Decimal("-0.0000000001"),
        "money": Decimal(1000),
        "big": Decimal("-" + "9" * 37),
        "day": dt.date(9999, 12, 31),
        "at": dt.datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
        "x": -math.inf,
        "text": '\x00\x01\t\n\r\x1f\x7f\u2028 😀 é "\\',
        "bytes": b"",
        "list": [1, None, 2**63 - 1],
    }
    assert three["at"] == dt.datetime(2024, 2, 29, 15, 30, 0, 123456, UTC)
    assert (three["d38"], three["big"], three["x"]) == (1000, 1000, 1e308)
    assert three["text"] is None, "and the empty string above is not null"
    assert {value for name, value in four.items() if name != "id"} == {None}


def test_a_large_record_arrives_whole(lake):
    text = "päd " * 1_000_000
    lake.load(schema("s", SPARE, ["id"]), record("s", {"id": 1, "free": text}))
    assert lake.rows("s")[0]["free"] == text


@pytest.mark.slow
def test_a_record_of_50_megabytes_arrives_whole(lake):
    text = "x" * 50_000_000
    lake.load(schema("s", SPARE, ["id"]), record("s", {"id": 1, "free": text}))
    assert lake.rows("s")[0]["free"] == text


@pytest.mark.parametrize(
    ("depth", "validate"), [(501, True), (501, False), (3000, True), (30_000, False)]
)
def test_nesting_beyond_500_levels_is_one_clear_error(lake, depth, validate):
    deep = "[" * depth + "]" * depth
    line = f'{{"type":"RECORD","stream":"s","record":{{"id":1,"free":{deep}}}}}\n'
    with pytest.raises(DataError, match=r"line 2.*(deeper than 500 levels|nested too deeply)"):
        lake.load(schema("s", SPARE, ["id"]), line, validate_records=validate)


def test_a_record_nested_too_deeply_is_set_aside_and_not_lost(lake):
    deep = "[" * 3000 + "]" * 3000
    line = f'{{"type":"RECORD","stream":"s","record":{{"id":1,"free":{deep}}}}}\n'
    messages = schema("s", SPARE, ["id"]), line, record("s", {"id": 2})
    lake.load(*messages, on_invalid_record="quarantine")
    assert [row["id"] for row in lake.rows("s")] == [2]
    (aside,) = lake.rows("_quarantine/s", order="line")
    assert aside["line"] == 2
    assert deep in aside["record"]


def test_a_schema_nested_beyond_500_levels_is_one_clear_error(lake):
    deep = {"type": "integer"}
    for _ in range(501):
        deep = {"type": "object", "properties": {"o": deep}}
    with pytest.raises(SchemaError, match="nested deeper than 500 levels"):
        lake.load(schema("s", {"id": {"type": "integer"}, "deep": deep}, ["id"]))


@pytest.mark.parametrize("column", [{"type": "number"}, {"type": "number", "multipleOf": 0.01}])
def test_a_number_beyond_every_double_is_refused_by_its_column_only(lake, column):
    columns = schema("s", {"id": {"type": "integer"}, "n": column}, ["id"])
    line = '{"type":"RECORD","stream":"s","record":{"id":1,"n":1e400}}\n'
    with pytest.raises(RecordError, match="line 2: n: a value does not fit"):
        lake.load(columns, line)
    lake.load(schema("t", {**SPARE}, ["id"]), line.replace('"s"', '"t"').replace('"n"', '"free"'))
    assert json.loads(lake.rows("t")[0]["free"]) == math.inf
    assert lake.rows("t")[0]["free"] == "1e400"


def test_a_wide_record_arrives_whole_and_the_next_run_finds_it_known(lake):
    """Beyond some width Spark runs plans as they are instead of compiling them."""
    kinds = ({"type": "string"}, {"type": ["null", "integer"]}, {"type": "boolean"})
    inner = {f"f{n}": kinds[n % 3] for n in range(50)}
    values = {f"f{n}": (f"text {n}", n, n % 2 == 0)[n % 3] for n in range(50)}
    names = [f"o{n}" for n in range(45)]
    wide = {name: {"type": "object", "properties": inner} for name in names}
    row = {"id": 1} | dict.fromkeys(names, values)
    messages = schema("s", {"id": {"type": "integer"}} | wide, ["id"]), record("s", row)
    lake.load(*messages)
    version = lake.version("s")
    lake.load(*messages)
    assert lake.rows("s") == [row]
    assert lake.version("s") == version
