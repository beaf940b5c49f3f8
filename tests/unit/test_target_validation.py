"""Which records their schema allows, and how a refusal is explained."""

from __future__ import annotations

import json

import msgspec
import pytest

from target_spark_delta.intake.json_schema import has_only_types
from target_spark_delta.intake.validation import InvalidRecordError, MissingKeyError, Validator

SCHEMA = {
    "type": "object",
    "required": ["id", "kind"],
    "additionalProperties": False,
    "definitions": {
        "tree": {
            "type": "object",
            "properties": {
                "leaf": {"type": "integer"},
                "branches": {"type": "array", "items": {"$ref": "#/definitions/tree"}},
            },
        }
    },
    "properties": {
        "id": {"type": "integer"},
        "kind": {"type": "string", "enum": ["a", "b"]},
        "code": {"type": "string", "pattern": "^[A-Z]{2}$"},
        "mail": {"type": "string", "format": "email"},
        "link": {"type": "string", "format": "uri"},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string", "minLength": 3}]},
        "tree": {"$ref": "#/definitions/tree"},
        "at": {"type": "string", "format": "date-time"},
        "price": {"type": "number", "multipleOf": 0.01},
        "ratio": {"type": "number", "minimum": 0},
    },
}
GOOD = {"id": 1, "kind": "a"}


@pytest.fixture(scope="module")
def validator():
    return Validator("s", SCHEMA, ["id"], full=True)


def check(validator, record, *, partial=False):
    text = record if isinstance(record, str) else json.dumps(record)
    return validator.check(msgspec.Raw(text.encode()), 7, partial=partial)


@pytest.mark.parametrize(
    "more",
    [
        {"either": 5},
        {"either": "abc"},
        {"tree": {"leaf": 1, "branches": [{"leaf": 2, "branches": []}]}},
        {"at": "2024-01-01 00:00:00"},
        {"price": 0.07},
        {"ratio": "NaN"},
        {"link": "https://example.com/a", "mail": "a@example.com", "code": "DE"},
    ],
)
def test_what_the_schema_allows_passes(validator, more):
    assert check(validator, {**GOOD, **more})[0] == {**GOOD, **more}


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"id": 1}, "the record breaks the rule required: 'kind' is a required property"),
        ({**GOOD, "kind": "c"}, "kind breaks the rule enum"),
        ({**GOOD, "code": "de"}, "code breaks the rule pattern"),
        ({**GOOD, "mail": "nobody"}, "mail breaks the rule format"),
        ({**GOOD, "link": "no link"}, "link breaks the rule format"),
        ({**GOOD, "either": "ab"}, "either breaks the rule"),
        ({**GOOD, "tree": {"branches": [{"leaf": "x"}]}}, "tree.branches[0].leaf breaks the rule"),
        ({**GOOD, "unknown": 1}, "the record breaks the rule additionalProperties"),
        ({**GOOD, "price": "NaN"}, "price breaks the rule type"),
        ({**GOOD, "ratio": -1}, "ratio breaks the rule"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_refusal_tells_stream_line_path_and_rule(validator, record, said):
    with pytest.raises(InvalidRecordError) as raised:
        check(validator, record)
    assert raised.value.message.startswith(f"stream s, line 7: {said}")
    assert raised.value.exit_code == 65


def test_a_missing_key_is_told_as_such_also_without_validation(validator):
    for one in (validator, Validator("s", SCHEMA, ["id"], full=False)):
        with pytest.raises(MissingKeyError, match="key property id is missing"):
            check(one, {"kind": "a"})


def test_a_deletion_and_a_partial_record_are_checked_on_what_they_carry(validator):
    assert check(validator, {"id": 1, "_sdc_deleted_at": "2024-01-01T00:00:00Z"})[1]
    assert check(validator, {"id": 1}, partial=True) == ({"id": 1}, False)
    with pytest.raises(InvalidRecordError, match="kind breaks the rule enum"):
        check(validator, {"id": 1, "kind": "x"}, partial=True)


def test_a_number_beyond_every_double_is_left_to_its_column():
    validator = Validator("s", {"properties": {"n": {"type": "number"}}}, [], full=True)
    assert check(validator, '{"n": 1e400}')[1] is False


@pytest.mark.parametrize(
    "declared",
    [
        {"type": "string", "x-sql-datatype": "string"},
        {"type": ["string", "integer"]},
    ],
)
def test_dates_and_times_that_stay_text_are_checked_by_their_format(declared):
    properties = {"at": {**declared, "format": "date-time"}, "on": {**declared, "format": "date"}}
    validator = Validator("s", {"properties": properties}, [], full=True)
    for good in ("2024-02-29T23:59:59.1234567+01:00", "2024-02-29 00:00", "2024-02-29"):
        check(validator, {"at": good, "on": "2024-02-29"})
    for bad in ("2024-02-30T00:00:00Z", "yesterday", "2024-02-29T24:00:00Z", ""):
        with pytest.raises(InvalidRecordError, match="at breaks the rule format"):
            check(validator, {"at": bad})
    with pytest.raises(InvalidRecordError, match="on breaks the rule format"):
        check(validator, {"on": "2024-02-30"})


def test_of_several_alternatives_a_text_needs_to_be_one():
    either = {"anyOf": [{"type": "string", "format": "date"}, {"type": "string", "maxLength": 1}]}
    validator = Validator("s", {"properties": {"a": either}}, [], full=True)
    for good in ("2024-02-29", "x"):
        check(validator, {"a": good})
    with pytest.raises(InvalidRecordError):
        check(validator, {"a": "2024-02-30"})


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "object", "properties": {"a": {"type": ["integer", "null"]}}}, True),
        ({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}, True),
        ({"properties": {"a": {"type": "string", "x-sql-datatype": "date"}}}, True),
        ({"properties": {"a": {"type": "string", "format": "date"}}}, True),
        ({"properties": {"a": {"format": "date", "x-sql-datatype": "string"}}}, False),
        ({"properties": {"a": {"type": "string", "format": "email"}}}, False),
        ({"properties": {"a": {"type": "string", "enum": ["x"]}}}, False),
        ({"properties": {"a": {"type": "array", "items": {"minimum": 1}}}}, False),
        ({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}, False),
        ({"properties": {}, "additionalProperties": False}, False),
    ],
)
def test_whether_a_schema_states_types_alone(schema, expected):
    assert has_only_types(schema) is expected


def test_older_drafts_are_understood_where_a_schema_names_none():
    # As taps made for PostgreSQL declare NUMERIC, by draft 4, and a tuple, by draft 7.
    below = {"type": "number", "maximum": 10, "exclusiveMaximum": True}
    pair = {"type": "array", "items": [{"type": "integer"}, {"type": "string"}]}
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "n": below, "p": pair}}
    validator = Validator("s", schema, ["id"], full=True)
    check(validator, {"id": 1, "n": 9.5, "p": [1, "a"]})
    for record in ({"id": 1, "n": 10}, {"id": 1, "p": ["a", "a"]}):
        with pytest.raises(InvalidRecordError, match=r"n breaks the rule maximum|p\[0\] breaks"):
            check(validator, record)


@pytest.mark.parametrize("draft", [{}, {"$schema": "http://json-schema.org/draft-04/schema#"}])
def test_a_whole_number_with_a_point_is_an_integer_in_every_draft(draft):
    declared = {"type": ["integer", "null"], "maximum": 5, "exclusiveMaximum": True}
    properties = {"id": {"type": "integer"}, "n": declared, "l": {"items": {"type": "integer"}}}
    validator = Validator("s", {"properties": properties, **draft}, ["id"], full=True)
    for good in ({"id": 1.0}, {"id": 2**70}, {"id": 1, "n": None}, {"id": 1, "n": 4.0, "l": [1.0]}):
        check(validator, good)
    for bad in ({"id": 1.5}, {"id": "1"}, {"id": 1, "n": 5.0}, {"id": 1, "l": [0.5]}, {"id": None}):
        with pytest.raises(InvalidRecordError, match="breaks the rule"):
            check(validator, bad)
