"""Others remove a table and make it anew while a run loads it."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from singer_spark.errors import StateError
from target_spark_delta.commits import queue, segment_commit
from tests.support.singer import record, schema, state

KEYED = schema("s", {"id": {"type": "integer"}}, ["id"])


@pytest.mark.parametrize("options", [{}, {"load_method": "append-only"}], ids=["upsert", "append"])
def test_between_two_batches(lake, monkeypatch, options):
    load, batches = segment_commit.load_segment, []

    def load_segment(*given, **named):
        load(*given, **named)
        batches.append(1)
        shutil.rmtree(lake.root / "s")
        for number in (7, 8, 9):
            rows = pa.table({"id": pa.array([number], pa.int64())})
            write_deltalake(lake.root / "s", rows, mode="append")

    monkeypatch.setattr(queue, "load_segment", load_segment)
    lake.config |= {"batch_size_rows": 1, "stream_options": {"s": options}}
    rows = [line for i in (1, 2) for line in (record("s", {"id": i}), state({"at": i}))]
    with pytest.raises(StateError, match="made anew while the run loaded it"):
        lake.load(KEYED, *rows)
    assert batches == [1]
    assert [row["id"] for row in lake.rows("s")] == [7, 8, 9], "theirs stays as it is"
