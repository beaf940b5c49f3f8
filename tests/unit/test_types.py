"""JSON Schema to Spark types and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as T

from singer_spark.errors import SchemaError
from singer_spark.types import parse_datatype, to_ddl, to_json_schema, to_spark_type


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "integer"}, "bigint"),
        ({"type": ["null", "integer"], "maximum": 2**63 - 1}, "bigint"),
        ({"type": "integer", "maximum": 2**63}, "decimal(38,0)"),
        ({"type": "integer", "minimum": -(2**70)}, "decimal(38,0)"),
        ({"type": "number"}, "double"),
        ({"type": ["number", "integer", "null"]}, "double"),
        ({"type": "number", "multipleOf": 0.01}, "decimal(38,2)"),
        ({"type": "number", "multipleOf": 1e-10}, "decimal(38,10)"),
        ({"type": "number", "multipleOf": 1}, "decimal(38,0)"),
        ({"type": "number", "multipleOf": 0.25}, "double"),
        (
            {"type": "string", "format": "x-singer.decimal", "precision": 20, "scale": 5},
            "decimal(20,5)",
        ),
        ({"type": "string", "format": "singer.decimal"}, "string"),
        ({"type": "number", "multipleOf": 1e-38, "minimum": -1e62, "maximum": 1e62}, "string"),
        ({"type": "number", "multipleOf": 1e-38, "maximum": 1}, "decimal(38,38)"),
        ({"type": "string", "format": "date-time"}, "timestamp"),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": "string", "format": "time"}, "string"),
        ({"type": "string", "format": "uuid"}, "string"),
        ({"type": "string", "contentEncoding": "base64"}, "string"),
        ({"type": "string", "x-sql-datatype": "binary"}, "binary"),
        (
            {"type": "string", "format": "date-time", "x-sql-datatype": "timestamp_ntz"},
            "timestamp_ntz",
        ),
        ({"type": "integer", "x-sql-datatype": "NUMBER(10)"}, "bigint"),
        ({"type": "boolean"}, "boolean"),
        ({"type": "object", "properties": {"a": {"type": "integer"}}}, "struct<a:bigint>"),
        ({"type": "object"}, "string"),
        ({"type": "object", "properties": {}}, "string"),
        ({"type": "array", "items": {"type": "number"}}, "array<double>"),
        ({"type": "array"}, "array<string>"),
        ({"type": ["integer", "string"]}, "string"),
        ({}, "string"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "bigint"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "string"),
        ({"oneOf": [{"type": "null"}, {"type": "string", "format": "date"}]}, "date"),
    ],
)
def test_a_property_becomes_a_column_of_this_type(schema, expected):
    assert to_spark_type(schema).simpleString() == expected


def test_a_map_whose_keys_json_cannot_name_is_text():
    odd = {"type": "object", "x-sql-datatype": "map<struct<a:int>,int>"}
    assert to_spark_type(odd) == T.StringType()
    assert to_spark_type({**odd, "x-sql-datatype": "map<int,int>"}).simpleString() == "map<int,int>"


def deep(levels):
    schema = {"type": "integer"}
    for _ in range(levels // 2):
        schema = {"type": "array", "items": {"type": "object", "properties": {"a": schema}}}
    return schema


def test_what_is_declared_beyond_30_levels_is_text():
    assert to_spark_type(deep(30)).simpleString() == f"{'array<struct<a:' * 15}bigint{'>>' * 15}"
    assert to_spark_type(deep(32)).simpleString() == f"{'array<struct<a:' * 15}string{'>>' * 15}"
    assert to_spark_type(deep(500)) == to_spark_type(deep(32))


def test_nesting_beyond_500_levels_is_one_clear_error():
    with pytest.raises(SchemaError, match="deeper than 500 levels"):
        to_spark_type(deep(502))


atoms = st.sampled_from(
    [
        T.BooleanType(), T.ByteType(), T.ShortType(), T.IntegerType(), T.LongType(), T.FloatType(),
        T.DoubleType(), T.StringType(), T.BinaryType(), T.DateType(), T.TimestampType(),
        T.TimestampNTZType(), T.DecimalType(38, 0), T.DecimalType(20, 5), T.DecimalType(1, 1),
    ]
)  # fmt: skip
names = st.text(min_size=1, max_size=5)
datatypes = st.recursive(
    atoms,
    lambda inner: st.one_of(
        inner.map(T.ArrayType),
        inner.map(lambda value: T.MapType(T.StringType(), value)),
        st.lists(st.tuples(names, inner), min_size=1, max_size=3, unique_by=lambda f: f[0]).map(
            lambda fields: T.StructType([T.StructField(*field) for field in fields])
        ),
    ),
    max_leaves=8,
)


@given(datatypes)
def test_a_type_survives_the_way_to_json_schema_and_back(datatype):
    if "map<" not in datatype.simpleString():
        assert to_spark_type(to_json_schema(datatype)) == datatype
    assert parse_datatype(to_ddl(datatype)) == datatype


@given(atoms)
def test_every_property_is_nullable_and_tells_its_exact_type(datatype):
    schema = to_json_schema(datatype)
    assert "null" in schema["type"]
    assert schema["x-sql-datatype"] == datatype.simpleString()
    assert "multipleOf" not in schema


def test_decimals_can_be_written_as_singer_decimals():
    assert to_json_schema(T.DecimalType(20, 5), singer_decimal=True) == {
        "type": ["string", "null"],
        "format": "x-singer.decimal",
        "precision": 20,
        "scale": 5,
        "x-sql-datatype": "decimal(20,5)",
    }
