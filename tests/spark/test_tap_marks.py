"""Values of bookmarks and windows as the source's literals want them, by Spark's calendar."""

from __future__ import annotations

import pytest

from tap_spark_source.plan.key import Key
from tap_spark_source.plan.table import Column
from tap_spark_source.readers.marks import looked_back, to_mark


def key(datatype: str) -> Key:
    return Key(parts=(Column(name="k", datatype=datatype, schema={}),))


@pytest.mark.parametrize(
    ("datatype", "value", "below", "above"),
    [
        ("date", "2024-01-31", "2024-01-31", "2024-01-31"),
        ("date", "2024-01-31T00:00:00Z", "2024-01-31", "2024-01-31"),
        ("date", "2024-01-31T12:00:00Z", "2024-01-31", "2024-02-01"),
        ("date", "2024-01-31T00:00:00.000001Z", "2024-01-31", "2024-02-01"),
        ("date", "2024-01-31T00:00:00.0000001Z", "2024-01-31", "2024-02-01"),
        (
            "timestamp_ntz",
            "2024-01-31T00:00:00.1234561",
            "2024-01-31T00:00:00.123456",
            "2024-01-31T00:00:00.123457",
        ),
        ("timestamp_ntz", "2024-01-31T00:00", *["2024-01-31T00:00:00.000000"] * 2),
        ("decimal(5,2)", "1.234", "1.23", "1.24"),
        ("decimal(5,2)", "-1.234", "-1.24", "-1.23"),
        ("bigint", 7, "7", "7"),
    ],
)
def test_a_bound_that_is_finer_than_the_key_can_go_either_way(spark, datatype, value, below, above):
    assert to_mark(spark, key(datatype), (value,)) == (below,)
    assert to_mark(spark, key(datatype), (value,), rounds_up=True) == (above,)


@pytest.mark.parametrize(
    ("datatype", "text"),
    [("timestamp", "12026-01-31T00:00:00.000000+00:00"), ("date", "12026-01-31")],
)
def test_years_of_five_digits_are_bookmarks_like_others(spark, datatype, text):
    by_time = key(datatype)
    for given in (text, f"+{text}"):
        assert to_mark(spark, by_time, by_time.from_json(given)) == (text,)


@pytest.mark.parametrize("lookback", [1e11, 1e12, 1e300])
@pytest.mark.parametrize(
    ("datatype", "text", "lowest"),
    [
        ("timestamp", "2024-01-31T00:00:00.000000+00:00", "0001-01-01T00:00:00.000000+00:00"),
        ("date", "2024-01-31", "0001-01-01"),
        ("int", "7", "-2147483648"),
        ("decimal(5,2)", "7.00", "-999.99"),
    ],
)
def test_a_lookback_ends_where_the_type_does(spark, datatype, text, lowest, lookback):
    assert looked_back(spark, key(datatype), (text,), lookback) == (lowest,)
