"""A MERGE reads only files that can have rows of its batch: what it must not read is taken away."""

from __future__ import annotations

import pyarrow as pa
import pytest

from singer_spark.errors import SingerSparkError
from tests.support.singer import data

BY_LAND, BY_DAY = {"partition_by": ["land"]}, {"partition_by": ["day"]}
TIED = "t.day = s.day and t.day >= date'2024-01-01'"


def load_without_the_second_row(lake, *, keys, validate_records=True, **chosen):
    """Load three rows, remove the file of the second, and load changes of the others."""
    options = {"stream_options": {"sales": {**chosen, "key_properties": keys}}}
    one_file_each = {} if "partition_by" in chosen else {"batch_size_rows": 1}
    lake.load(data("methods/sales_first"), **options, **one_file_each)
    (gone,) = [
        add["path"]
        for add in pa.table(lake.table("sales").get_add_actions(flatten=True)).to_pylist()
        if 50 in (add["min.id"], add["max.id"])
    ]
    (lake.root / "sales" / gone).unlink()
    lake.load(data("methods/sales_next"), validate_records=validate_records, **options)


@pytest.mark.parametrize(
    "chosen",
    [
        pytest.param({"keys": ["id"]}, id="few keys, noted while spooling"),
        pytest.param({"keys": ["land", "id"], **BY_LAND}, id="partitions by a part of the key"),
        pytest.param(
            {"keys": ["land", "id"], **BY_LAND, "validate_records": False},
            id="partitions by a part of the key, looked up by Spark",
        ),
        pytest.param(
            {"keys": ["id"], **BY_DAY, "merge_predicate": TIED, "validate_records": False},
            id="partitions that the predicate ties",
        ),
    ],
)
def test_files_between_the_ends_of_the_batch_are_not_read(lake, chosen):
    load_without_the_second_row(lake, **chosen)
    added = lake.table("sales").history(1)[0]["operationMetrics"]
    told = {name: int(added[f"numTargetRows{name}"]) for name in ("Inserted", "Updated")}
    assert told == {"Inserted": 1, "Updated": 2}


def test_partitions_outside_the_key_are_all_read_because_a_row_may_move(lake):
    with pytest.raises(SingerSparkError, match="sales"):
        load_without_the_second_row(lake, keys=["id"], **BY_DAY, validate_records=False)
