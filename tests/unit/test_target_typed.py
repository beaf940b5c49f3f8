"""SQL that makes typed values of texts: none where the text is the value."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T

from target_spark_delta.rows.values import typed

TEXT, NUMBER = T.StringType(), T.LongType()


def struct(**members: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in members.items()])


@pytest.mark.parametrize(
    ("declared", "target"),
    [
        (struct(a=TEXT, b=struct(c=TEXT)), struct(a=TEXT, b=struct(c=TEXT))),
        (T.ArrayType(struct(a=TEXT)), T.ArrayType(struct(a=TEXT))),
        (struct(a=NUMBER), TEXT),
        (T.MapType(TEXT, TEXT), T.MapType(TEXT, TEXT)),
    ],
)
def test_texts_to_any_depth_stay_as_they_are(declared, target):
    assert typed("x", declared, target, "x", "line") == "x"


@pytest.mark.parametrize(
    ("declared", "target"),
    [
        (struct(a=TEXT, b=NUMBER), struct(a=TEXT, b=NUMBER)),
        (struct(a=TEXT), struct(a=TEXT, b=TEXT)),
        (struct(a=TEXT, b=TEXT), struct(b=TEXT, a=TEXT)),
        (struct(A=TEXT), struct(a=TEXT)),
        (T.ArrayType(NUMBER), T.ArrayType(NUMBER)),
        (T.MapType(TEXT, NUMBER), T.MapType(TEXT, NUMBER)),
    ],
)
def test_what_has_another_form_in_the_table_is_made(declared, target):
    assert typed("x", declared, target, "x", "line") != "x"
