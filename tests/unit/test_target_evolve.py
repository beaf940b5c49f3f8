"""Two schemas into the changes between them."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T

from singer_spark.errors import SchemaError
from singer_spark.types import parse_datatype
from target_spark_delta.table.evolve import (
    AddColumn,
    Relax,
    Widen,
    changes,
    relaxed,
    unify,
    widens_in_place,
)


def struct(text):
    return parse_datatype(f"struct<{text}>")


@pytest.mark.parametrize(
    ("before", "after", "unified"),
    [
        ("int", "bigint", "bigint"),
        ("bigint", "int", "bigint"),
        ("tinyint", "smallint", "smallint"),
        ("float", "double", "double"),
        ("int", "double", "double"),
        ("double", "bigint", "double"),
        ("bigint", "decimal(20,2)", "decimal(21,2)"),
        ("decimal(10,2)", "decimal(8,4)", "decimal(12,4)"),
        ("decimal(38,0)", "int", "decimal(38,0)"),
        ("array<int>", "array<bigint>", "array<bigint>"),
        ("map<string,int>", "map<string,bigint>", "map<string,bigint>"),
        ("struct<x:int>", "struct<y:string,x:bigint>", "struct<x:bigint,y:string>"),
    ],
)
def test_types_unify_to_the_narrowest_that_holds_both(before, after, unified):
    table, incoming = struct(f"a:{before}"), struct(f"a:{after}")
    assert unify(table, incoming).simpleString() == f"struct<a:{unified}>"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("bigint", "double"),
        ("string", "int"),
        ("int", "string"),
        ("timestamp", "timestamp_ntz"),
        ("date", "timestamp"),
        ("decimal(38,0)", "decimal(38,1)"),
        ("decimal(10,2)", "double"),
        ("struct<x:int>", "string"),
        ("array<int>", "int"),
    ],
)
def test_types_that_nothing_holds_without_loss_are_refused(before, after):
    with pytest.raises(SchemaError, match=r"a.*does not fit the table's"):
        unify(struct(f"a:{before}"), struct(f"a:{after}"))


@pytest.mark.parametrize(
    ("before", "after", "in_place"),
    [
        ("int", "bigint", True),
        ("int", "double", True),
        ("float", "double", True),
        ("decimal(5,2)", "decimal(6,3)", True),
        ("bigint", "decimal(22,2)", True),
        ("bigint", "decimal(21,2)", False),
        ("int", "decimal(12,2)", True),
        ("smallint", "decimal(7,2)", False),
        ("tinyint", "decimal(12,2)", True),
        ("tinyint", "decimal(5,2)", False),
        ("date", "timestamp_ntz", True),
        ("date", "timestamp", False),
    ],
)
def test_some_types_are_widened_by_delta_itself(before, after, in_place):
    change = Widen(("a",), parse_datatype(before), parse_datatype(after))
    assert widens_in_place(change) == in_place


def test_changes_are_listed_with_their_paths():
    before = struct("a:int,s:struct<x:int>,l:array<struct<y:int>>")
    after = unify(before, struct("b:string,s:struct<x:bigint,z:date>,l:array<struct<w:int>>"))
    assert changes(before, after) == [
        Widen(("s", "x"), T.IntegerType(), T.LongType()),
        AddColumn(("s", "z"), T.DateType()),
        AddColumn(("l", "element", "w"), T.IntegerType()),
        AddColumn(("b",), T.StringType()),
    ]


def test_equal_schemas_need_no_change_whatever_the_case_of_names():
    before = struct("Id:int,name:string")
    assert changes(before, unify(before, struct("NAME:string,id:int"))) == []


@pytest.mark.parametrize(
    ("before", "after", "unified"),
    [
        ("date", "timestamp", "timestamp"),
        ("timestamp", "date", "timestamp"),
        ("date", "timestamp_ntz", "timestamp_ntz"),
        ("array<date>", "array<timestamp>", "array<timestamp>"),
    ],
)
def test_a_date_becomes_a_timestamp_only_where_asked(before, after, unified):
    table, incoming = struct(f"a:{before}"), struct(f"a:{after}")
    assert unify(table, incoming, dates=True).simpleString() == f"struct<a:{unified}>"
    with pytest.raises(SchemaError, match="set date_to_timestamp"):
        unify(table, incoming)


def test_a_refusal_names_table_column_both_types_and_the_way_out():
    with pytest.raises(SchemaError) as raised:
        unify(struct("o:struct<x:int>"), struct("o:struct<x:string>"), name="orders")
    assert raised.value.message == (
        "orders.o.x: string does not fit the table's int, and no type holds both without loss; "
        "give the column another name in the tap, or change the table"
    )


def test_columns_that_need_no_value_any_more_are_told():
    def field(name, nullable):
        return T.StructField(name, T.LongType(), nullable)

    table = T.StructType(
        [field("a", False), field("b", False), field("c", True), field("d", False)]
    )
    incoming = T.StructType([field("A", False), field("b", True), field("c", False)])
    assert relaxed(table, incoming) == [Relax(("b",)), Relax(("d",))]


def test_an_added_column_has_the_comment_of_its_description():
    after = T.StructType([T.StructField("a", T.LongType(), metadata={"comment": "what it is"})])
    assert changes(T.StructType(), after) == [AddColumn(("a",), T.LongType(), "what it is")]
