"""What files say of their keys, looked at without Spark."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import types as T

from target_spark_delta.intake.segments import Range
from target_spark_delta.rows.spark_jobs import facts_in_files, read_footer

LONG = T.StructType([T.StructField("id", T.LongType()), T.StructField("name", T.StringType())])


def write(path, schema, **columns):
    """Write a file as Spark does, its schema in the footer."""
    said = {"org.apache.spark.sql.parquet.row.metadata": json.dumps(schema.jsonValue())}
    table = pa.table(columns).replace_schema_metadata(said)
    pq.write_table(table, path)
    return read_footer(str(path))


def test_rows_and_keys_are_counted_over_all_files(tmp_path):
    one = write(tmp_path / "1", LONG, id=[3, 1, 10], name=["a", "b", "c"])
    other = write(tmp_path / "2", LONG, id=[3, None], name=["a", "é"])
    facts = facts_in_files([one, other], ["id"], LONG)
    assert (facts.rows, facts.keys) == (5, 4)
    assert facts.ranges == {"id": Range("1", "10", 1, ("1", "3", "10"))}
    both = facts_in_files([one, other], ["id", "name"], LONG)
    assert both.keys == 4
    assert both.ranges["name"] == Range("a", "é", 0, ("a", "b", "c", "é"))


def test_many_keys_have_ends_only(tmp_path):
    file = write(tmp_path / "1", LONG, id=list(range(1000)), name=["x"] * 1000)
    facts = facts_in_files([file], ["id"], LONG)
    assert facts.keys == 1000
    assert facts.ranges == {"id": Range("0", "999", 0, ())}


def test_without_rows_there_is_no_range(tmp_path):
    empty = write(tmp_path / "1", LONG, id=pa.array([], pa.int64()), name=pa.array([], pa.string()))
    assert facts_in_files([empty], ["id"], LONG).ranges == {"id": Range(None, None, 0, ())}


@pytest.mark.parametrize("datatype", [T.StringType(), T.DecimalType(20, 0), T.IntegerType()])
def test_a_key_that_becomes_something_else_is_left_to_spark(tmp_path, datatype):
    """The order of numbers is not that of their texts."""
    file = write(tmp_path / "1", LONG, id=[5, 10], name=["a", "b"])
    table = T.StructType([T.StructField("id", datatype), LONG["name"]])
    assert facts_in_files([file], ["id"], table) is None


def test_a_key_whose_order_texts_do_not_keep_is_left_to_spark(tmp_path):
    schema = T.StructType([T.StructField("at", T.DoubleType())])
    file = write(tmp_path / "1", schema, at=[1.5])
    assert facts_in_files([file], ["at"], schema) is None
    assert facts_in_files([file], ["missing"], schema) is None
    assert facts_in_files([file], [], schema) is None


def test_what_is_no_file_of_spark_has_no_footer(tmp_path):
    pq.write_table(pa.table({"id": [1]}), tmp_path / "foreign")
    (tmp_path / "text").write_text("no Parquet")
    for file in (tmp_path / "foreign", tmp_path / "text", tmp_path / "missing", "s3a://b/k"):
        assert read_footer(str(file)) is None
