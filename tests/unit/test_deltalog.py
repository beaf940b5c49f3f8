"""What a table's log says, read without Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from singer_spark.deltalog import table_id, table_metadata, tables_in
from target_spark_delta.table.log import files_of


@pytest.fixture
def location(tmp_path):
    rows = pa.table({"id": [1, 2], "day": ["a", "b"]})
    properties = {"delta.appendOnly": "true"}
    write_deltalake(str(tmp_path), rows, partition_by=["day"], configuration=properties)
    write_deltalake(str(tmp_path), rows, mode="append")
    return str(tmp_path)


@pytest.mark.parametrize("where", ["commits", "checkpoint", "checkpoint alone"])
def test_partitions_and_properties_come_from_commits_or_a_checkpoint(tmp_path, location, where):
    table = DeltaTable(location)
    if where != "commits":
        table.create_checkpoint()
    if where == "checkpoint alone":
        (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    known = table_metadata(files_of(location))

    assert known.partition_columns == ("day",)
    assert known.properties == {"delta.appendOnly": "true"}
    assert known.id == str(table.metadata().id) == table_id(files_of(location))


def test_a_folder_without_a_log_says_nothing(tmp_path):
    assert table_metadata(files_of(str(tmp_path))) is None


def test_a_table_may_begin_with_an_underscore_where_it_is_none_of_our_folders(tmp_path):
    names = ["_events", "users"]
    for name in [*names, ".hidden", "_quarantine", "_singer_spark"]:
        write_deltalake(str(tmp_path / name), pa.table({"id": [1]}))
    assert [name for name, *_ in tables_in(files_of(str(tmp_path)))] == names
