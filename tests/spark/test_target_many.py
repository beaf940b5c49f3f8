"""Many streams and many rows into real tables."""

from __future__ import annotations

import pytest

from tests.support.singer import record, schema, state

COLUMNS = {"id": {"type": "integer"}, "of": {"type": "string"}}


@pytest.mark.slow
def test_a_hundred_interleaved_streams_fill_a_hundred_tables(lake):
    names = [f"stream-{number}" for number in range(100)]
    rounds = [
        message
        for turn in range(6)
        for message in (
            *(record(name, {"id": turn % 5, "of": f"{name} {turn}"}) for name in names),
            state({"bookmarks": dict.fromkeys(names, turn)}),
        )
    ]
    states = lake.load(*(schema(name, COLUMNS, ["id"]) for name in names), *rounds)
    assert states[-1] == {"bookmarks": dict.fromkeys(names, 5)}
    for name in names:
        table = name.replace("-", "_")
        assert [(row["id"], row["of"]) for row in lake.rows(table)] == [
            (number, f"{name} {5 if number == 0 else number}") for number in range(5)
        ]
        assert {said["stream"] for said in lake.commits(table)} == {name}


def test_a_merge_of_more_rows_than_a_vectorised_batch_finds_every_key_once(lake):
    many = range(20_000)
    columns = schema("s", COLUMNS, ["id"])
    lake.load(columns, *(record("s", {"id": number, "of": "old"}) for number in many))
    lake.load(columns, *(record("s", {"id": number, "of": "new"}) for number in many[5_000:]))
    rows = lake.rows("s")
    assert [row["id"] for row in rows] == list(many)
    assert [row["of"] for row in rows].count("new") == 15_000
    assert lake.table("s").history(1)[0]["operation"] == "MERGE"


def test_a_session_is_tuned_for_small_commits_and_batches_are_large(spark, lake):
    partitions = int(spark.conf.get("spark.databricks.delta.snapshotPartitions"))
    assert partitions <= 16, "a snapshot of Delta's log in 50 tasks would take longer than a merge"
    lake.load(
        schema("s", COLUMNS, ["id"]), *(record("s", {"id": number}) for number in range(100_000))
    )
    assert [said["rows"] for said in lake.commits("s")] == [100_000], "one commit"
