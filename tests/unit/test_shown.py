"""Values of records stay out of errors and logs, unless `show_values` is set."""

from __future__ import annotations

import msgspec
import pytest
from pyspark.sql import types as T

from singer_spark.errors import DataError
from singer_spark.shown import choose_values, shown, without_values
from tap_spark_source.sources.base import _translated
from target_spark_delta.intake.mapping import mappings_of
from target_spark_delta.intake.validation import InvalidRecordError, Validator
from target_spark_delta.rows.values import misfit, typed

VALUE = "p4tient-zer0"
RULES = {
    "kind": {"type": "string", "enum": ["a", "b"]},
    "code": {"type": "string", "pattern": "^[A-Z]{2}$"},
    "mail": {"type": "string", "format": "email"},
    "short": {"type": "string", "maxLength": 3},
    "number": {"type": "integer"},
    "never": {"not": {}},
    "nested": {"type": "object", "additionalProperties": {"type": "integer"}},
    "strict": {"type": "object", "properties": {}, "additionalProperties": False},
    "listed": {"type": "array", "items": {"type": "integer"}},
    "names": {"type": "object", "propertyNames": {"maxLength": 3}},
    "either": {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 2}]},
    "unique": {"type": "array", "uniqueItems": True},
}
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}, **RULES}, "required": ["id"]}
BROKEN = [
    *((name, VALUE) for name in ("kind", "code", "mail", "short", "number", "never", "either")),
    ("nested", {VALUE: VALUE}),
    ("strict", {VALUE: 1}),
    ("listed", [VALUE]),
    ("names", {VALUE: 1}),
    ("unique", [VALUE, VALUE]),
]


@pytest.fixture
def shows():
    choose_values(shows=True)
    yield
    choose_values(shows=False)


def refused(name, value):
    check = Validator("s", SCHEMA, ["id"], full=True).check
    record = msgspec.Raw(msgspec.json.encode({"id": 1, name: value}))
    with pytest.raises(InvalidRecordError) as caught:
        check(record, 7, partial=False)
    return caught.value


@pytest.mark.parametrize(("name", "value"), BROKEN, ids=lambda one: str(one)[:10])
def test_a_broken_rule_is_told_by_column_rule_and_key(name, value):
    error = refused(name, value)
    assert VALUE not in error.message
    for word in ("stream s, line 7", name, "breaks the rule", "(key id)", "fix the data"):
        assert word in error.message


def test_what_is_set_aside_tells_the_value_beside_the_record():
    assert VALUE in refused("kind", VALUE).reason


def test_show_values_shows_it(shows):
    assert VALUE in refused("kind", VALUE).message
    assert shown(VALUE) == VALUE


def test_names_of_the_schema_are_told():
    error = refused("kind", VALUE)
    assert 'kind breaks the rule enum: a text does not satisfy ["a", "b"]' in error.message
    assert "listed[0] breaks the rule type" in refused("listed", [VALUE]).message
    assert "nested{} breaks the rule type" in refused("nested", {VALUE: VALUE}).message


def test_a_stream_map_that_fails_tells_no_value():
    settings = {"stream_maps": {"s": {"n": "int(name)"}}}
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    (mapping,) = mappings_of(settings, "s", schema, [])
    with pytest.raises(InvalidRecordError) as caught:
        mapping.apply(f'{{"name": "{VALUE}"}}'.encode(), 3)
    assert VALUE not in caught.value.message
    assert "its stream map fails: ValueError" in caught.value.message


def test_spark_is_told_no_value_to_raise():
    sql = typed("record.`n`", T.LongType(), T.LongType(), "n", "line")
    assert "left(record" not in sql
    assert "a value" in sql
    # What is set aside keeps it.
    assert "left(record" in misfit("record.`n`", "n", T.LongType(), T.LongType(), "n")


@pytest.mark.parametrize(
    "said",
    [
        f"[CAST_INVALID_INPUT] The value '{VALUE}' of the type \"STRING\" cannot be cast to "
        '"BIGINT" because it is malformed. SQLSTATE: 22018',
        f"[NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION] {VALUE} cannot be represented as "
        "Decimal(3, 1). SQLSTATE: 22003",
        f'ERROR: invalid input syntax for type integer: "{VALUE}"',
        f"Bad value for type int : {VALUE}",
        f"Data truncation: Incorrect datetime value: '{VALUE}' for column 'at' at row 1",
        f"Conversion failed when converting the varchar value '{VALUE}' to data type int.",
        f"{VALUE} is outside the years 1 to 9999",
        f"text:{VALUE}: x is no value of its column's declared type SQLSTATE: P0001",
        f'For input string: "{VALUE}"',
        f'{{"id": "{VALUE}"}} is the key of several rows',
    ],
)
def test_what_databases_and_spark_say_of_a_value_is_told_without_it(said):
    error = _translated(said, "t of jdbc:x")
    assert VALUE not in error.message
    assert len(error.message) > len("cannot read t of jdbc:x: ") + 10


def test_which_column_an_event_has_another_value_in_is_told():
    reason = "[USER_RAISED_EXCEPTION] price: a value is no value of its column's declared type"
    assert "price: a value is no value" in _translated(reason, "t").message


def test_a_key_of_several_rows_is_told_by_its_columns():
    error = _translated(f'{{"a": 1, "b": "{VALUE}"}} is the key of several rows', "t")
    assert isinstance(error, DataError)
    assert "one a, b is the key of several rows" in error.message


def test_other_texts_stay():
    said = 'FATAL: database "shop" does not exist'
    assert without_values(said) == said
