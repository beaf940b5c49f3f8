from __future__ import annotations

import pytest

from singer_spark.protocol import is_unfinished


@pytest.mark.parametrize(
    "bookmark",
    [
        {"full_table": {}},
        {"delta_snapshot": {"version": 1, "key": 9}, "delta_table": "x"},
        {"progress_markers": {}},
        {"partitions": [{"context": {}}, {"progress_markers": {}}]},
    ],
)
def test_a_mark_says_that_a_stream_is_not_complete(bookmark):
    assert is_unfinished(bookmark)


@pytest.mark.parametrize(
    "bookmark", [{"partitions": [{"context": {}}]}, {"replication_key_value": 1}, {}, None, 5]
)
def test_without_one_it_is(bookmark):
    assert not is_unfinished(bookmark)
