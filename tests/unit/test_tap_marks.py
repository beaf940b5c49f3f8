"""Bookmarks that stand as marks do: nothing is to be worked out."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from tap_spark_source.plan.key import Key
from tap_spark_source.plan.table import Column
from tap_spark_source.readers.marks import to_mark

NEVER = Mock(spec=[])  # a session that is asked for nothing


def key(datatype: str) -> Key:
    return Key(parts=(Column(name="k", datatype=datatype, schema={}),))


@pytest.mark.parametrize(
    ("datatype", "text"),
    [
        ("timestamp", "2024-02-29T23:59:59.000001+00:00"),
        ("timestamp_ntz", "0001-01-01T00:00:00.000000"),
        ("date", "9999-12-31"),
        ("string", "2024"),
    ],
)
@pytest.mark.parametrize("rounds_up", [True, False])
def test_a_mark_needs_no_spark(datatype, text, rounds_up):
    assert to_mark(NEVER, key(datatype), (text,), rounds_up=rounds_up) == (text,)


@pytest.mark.parametrize(
    ("datatype", "text"),
    [
        ("timestamp", "2024-02-29T23:59:59.000001+01:00"),
        ("timestamp", "2024-02-29T23:59:59.000001"),
        ("timestamp_ntz", "2024-02-29T24:00:00.000000"),
        ("timestamp_ntz", "2024-02-29 10:00:00.000000"),
        ("date", "2023-02-29"),
        ("date", "0000-01-01"),
        ("date", "2024-01-31T00:00:00"),
    ],
)
def test_other_times_are_worked_out_by_spark(datatype, text):
    with pytest.raises(AttributeError):
        to_mark(NEVER, key(datatype), (text,))
