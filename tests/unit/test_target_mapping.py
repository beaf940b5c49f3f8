"""What stream maps make of a record, without Spark."""

from __future__ import annotations

import io
import json

import pytest

from singer_spark.errors import SettingsError
from target_spark_delta.intake.mapping import mappings_of
from target_spark_delta.intake.validation import InvalidRecordError
from target_spark_delta.target import TargetSparkDelta
from tests.support.singer import lines, schema

PROPERTIES = {"id": {"type": "integer"}, "f": {"type": "number"}}
SCHEMA = {"type": "object", "properties": PROPERTIES}


def mapped(stream_map, record, **settings):
    settings = {"stream_maps": {"s": stream_map}, **settings}
    (mapping,) = mappings_of(settings, "s", SCHEMA, ["id"])
    return json.loads(mapping.apply(record.encode(), 7))


@pytest.mark.parametrize(
    ("number", "expected"), [("1e400", "Infinity"), ("-1e400", "-Infinity"), ("1.50", 1.5)]
)
def test_numbers_that_json_lacks_are_told_as_text(number, expected):
    record = f'{{"id": 1, "f": {number}}}'
    assert mapped({"x": "float(f)"}, record)["x"] == expected
    assert mapped({"x": "[float(f), {'a': float(f)}]"}, record)["x"] == [expected, {"a": expected}]
    assert mapped({"x": "float(f) - float(f)"}, record)["x"] == (0 if expected == 1.5 else "NaN")


@pytest.mark.parametrize(
    ("expression", "value"), [("int(f)", "1e5000"), ("'\\udc80'", "1"), ("{(1, 2): 3}", "1")]
)
def test_what_cannot_be_written_as_json_is_an_error_of_its_record(expression, value):
    with pytest.raises(InvalidRecordError, match="stream s, line 7: its stream map fails: "):
        mapped({"x": expression}, f'{{"id": 1, "f": {value}}}')


def test_records_of_streams_without_a_map_take_no_way_through_it(tmp_path):
    def mapped_streams(**settings):
        target = TargetSparkDelta(config={"path": str(tmp_path), **settings})
        target.listen(io.StringIO(lines(schema(name, PROPERTIES, ["id"]) for name in "ab")))
        return [name for name, sink in target._sinks.items() if sink._mapping]

    assert mapped_streams(stream_maps={"a": {"x": "f"}}) == ["a"]
    assert mapped_streams(flattening_enabled=True, flattening_max_depth=1) == ["a", "b"]


@pytest.mark.parametrize("name", ["x", "__filter__", "__alias__"])
def test_an_expression_that_is_none_is_named_and_not_told(name):
    with pytest.raises(SettingsError) as raised:
        mapped({"f": "f * 2", name: "md5('secret' + "}, '{"id": 1}')
    said = f"stream_maps: stream s: s.{name} is no expression; correct it"
    assert raised.value.message == said


@pytest.mark.parametrize("expression", ["secret + 1", "secret = 1"])
def test_an_expression_that_fails_on_a_record_is_not_told(expression):
    with pytest.raises(InvalidRecordError, match=r"map fails: [A-Za-z]+; look") as raised:
        mapped({"x": expression}, '{"id": 1}')
    assert "secret" not in raised.value.message


@pytest.mark.parametrize(
    ("stream_map", "keys", "are_kept"),
    [
        ({"x": "int(f)"}, ["id"], True),
        ({"id": "id", "x": "int(f)"}, ["id"], True),
        ({"id": "md5(str(id))"}, ["id"], False),
        ({"pk": "id", "id": "__NULL__", "__key_properties__": ["pk"]}, ["pk"], False),
        ({"id": "f", "f": "id"}, ["f"], False),
    ],
)
def test_a_record_says_its_key_before_it_is_mapped_only_if_no_map_makes_it(
    stream_map, keys, are_kept
):
    (mapping,) = mappings_of({"stream_maps": {"s": stream_map}}, "s", SCHEMA, ["id"])
    assert mapping.keeps(keys) is are_kept
