"""Load methods that replace parts of a table, and which of several records of a key counts."""

from __future__ import annotations

import pytest

from singer_spark.errors import SettingsError
from tests.support.singer import data

SLOW_SIZES = [pytest.param(size, marks=pytest.mark.slow) for size in (1, 2)]


def options(stream, **chosen):
    return {"stream_options": {stream: chosen}}


def texts(lake, table, *columns, order="id"):
    rows = lake.rows(table, order=order)
    return sorted(tuple(str(row[name]) for name in columns) for row in rows)


def test_the_highest_value_wins_in_a_batch_and_an_older_record_never_overwrites_a_newer(lake):
    lake.load(data("methods/dedupe_in_batch"), **options("people", dedupe_by="at"))
    assert texts(lake, "people", "id", "name") == [
        ("1", "newer"),
        ("2", "last of equals"),
        ("3", "has one"),
    ]
    lake.load(data("methods/dedupe_older"), **options("people", dedupe_by="at"))
    assert texts(lake, "people", "id", "name") == [
        ("1", "newer"),
        ("2", "as old"),
        ("3", "has one"),
        ("4", "new"),
    ]


def test_only_older_records_make_no_commit(lake):
    lake.load(data("methods/dedupe_in_batch"), **options("people", dedupe_by="at"))
    before = lake.version("people")
    older = data("methods/dedupe_older").splitlines(keepends=True)[:2]
    lake.load(*older, skip_unchanged=False, **options("people", dedupe_by="at"))
    assert lake.version("people") == before


def test_partitions_of_the_batch_are_replaced_and_others_stay(lake):
    chosen = options("days", load_method="partition-overwrite", partition_by=["day"])
    lake.load(data("methods/partitions_first"), **chosen)
    before = lake.version("days")
    lake.load(data("methods/partitions_next"), **chosen)
    assert lake.version("days") == before + 1
    assert texts(lake, "days", "day", "id", "v") == [
        ("2024-01-01", "3", "h"),
        ("2024-01-01", "4", "f"),
        ("2024-01-01", "5", "i"),
        ("2024-01-02", "1", "g"),
        ("2024-01-03", "1", "d"),
    ]
    lake.load(data("methods/partitions_next"), **chosen)
    assert lake.version("days") == before + 1, "the same again is no commit"


@pytest.mark.parametrize("size", [*SLOW_SIZES, 3])
def test_a_partition_that_spans_batches_of_a_run_loses_no_row(lake, size):
    chosen = options("days", load_method="partition-overwrite", partition_by=["day"])
    lake.load(data("methods/partitions_first"), **chosen)
    lake.load(data("methods/partitions_next"), batch_size_rows=size, **chosen)
    assert texts(lake, "days", "day", "id", "v") == [
        ("2024-01-01", "3", "h"),
        ("2024-01-01", "4", "f"),
        ("2024-01-01", "5", "i"),
        ("2024-01-02", "1", "g"),
        ("2024-01-03", "1", "d"),
    ]


def test_without_a_key_every_record_of_a_partition_is_a_row(lake):
    chosen = options("days", load_method="partition-overwrite", partition_by=["day"])
    for _ in range(2):
        lake.load(data("methods/partitions_without_key"), batch_size_rows=2, **chosen)
    assert texts(lake, "days", "day", "id", "v") == [
        ("2024-01-01", "1", "a"),
        ("2024-01-01", "1", "a"),
        ("2024-01-01", "2", "c"),
        ("2024-01-02", "1", "b"),
    ]


@pytest.mark.parametrize("size", [*SLOW_SIZES, 10])
def test_the_range_of_a_batch_is_replaced_and_rows_of_the_run_survive(lake, size):
    chosen = options("events", load_method="delete-insert", range_column="at")
    lake.load(data("methods/range_first"), **chosen)
    lake.load(data("methods/range_next"), batch_size_rows=size, **chosen)
    assert texts(lake, "events", "id", "v") == [
        ("1", "a"),
        ("5", "e"),
        ("6", "f"),
        ("7", "g"),
        ("8", "h"),
    ]


@pytest.mark.parametrize("size", [SLOW_SIZES[1], 10])
def test_with_a_key_a_row_that_moves_within_or_into_the_range_is_not_doubled(lake, size):
    chosen = options("events", load_method="delete-insert", range_column="at")
    lake.load(data("methods/range_with_key_first"), **chosen)
    before = lake.version("events")
    lake.load(data("methods/range_with_key_next"), batch_size_rows=size, **chosen)
    assert texts(lake, "events", "id", "v") == [
        ("1", "moved"),
        ("2", "b"),
        ("4", "d"),
        ("6", "moved in the run"),
        ("7", "g"),
    ]
    assert lake.version("events") == before + (2 if size == 2 else 1)


def test_delete_insert_by_key_writes_rows_afresh_and_follows_deletions(lake):
    chosen = options("orders", load_method="delete-insert")
    lake.load(data("methods/delete_insert_first"), **chosen)
    lake.load(data("methods/delete_insert_next"), **chosen)
    assert lake.rows("orders") == [
        {"id": 1, "name": "new", "qty": None},
        {"id": 2, "name": "b", "qty": 2},
        {"id": 3, "name": "more", "qty": None},
    ]
    before = lake.version("orders")
    lake.load(data("methods/delete_insert_next"), **chosen)
    assert lake.version("orders") == before
    lake.load(data("methods/delete_insert_deletion"), hard_delete=True, **chosen)
    assert [row["id"] for row in lake.rows("orders")] == [1, 3]


def test_a_row_that_moves_to_another_partition_is_not_doubled(lake):
    chosen = options("days", partition_by=["day"])
    lake.load(data("methods/moves_partition"), **chosen)
    lake.load(data("methods/moves_partition_next"), **chosen)
    assert texts(lake, "days", "day", "id", "v") == [
        ("2024-01-02", "2", "b"),
        ("2024-01-03", "1", "moved"),
    ]


def test_a_merge_predicate_narrows_the_search_as_its_author_promised(lake):
    chosen = options("days", partition_by=["day"], merge_predicate="t.day = s.day")
    lake.load(data("methods/moves_partition"), **chosen)
    lake.load(data("methods/moves_partition_next"), **chosen)
    assert texts(lake, "days", "day", "id") == [
        ("2024-01-01", "1"),
        ("2024-01-02", "2"),
        ("2024-01-03", "1"),
    ], "a row that moves partition is not found, which is what was promised not to happen"
    condition = lake.table("days").history(1)[0]["operationParameters"]["predicate"]
    assert "day" in condition


@pytest.mark.parametrize(
    ("stream", "chosen", "message"),
    [
        ("days", {"load_method": "partition-overwrite"}, "needs partition_by"),
        ("days", {"partition_by": ["nope"]}, "partition_by: its SCHEMA does not declare nope"),
        ("days", {"partition_by": ["day"], "cluster_by": ["id"]}, "exclude each other"),
        ("days", {"range_column": "day"}, "range_column is for"),
        ("days", {"load_method": "scd2", "key_properties": []}, "scd2 needs a key"),
        ("days", {"load_method": "delete-insert", "key_properties": []}, "needs a key or"),
        ("days", {"load_method": "overwrite", "partial_records": True}, "takes whole records"),
    ],
)
def test_options_that_do_not_go_together_are_errors_of_the_settings(lake, stream, chosen, message):
    with pytest.raises(SettingsError, match=message):
        lake.load(data("methods/moves_partition"), **options(stream, **chosen))
