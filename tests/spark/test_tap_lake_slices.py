"""Lake tables in slices: cut where statistics help, in one chunk where they cannot."""

from __future__ import annotations

import pytest

from tap_spark_source.readers import chunks
from tap_spark_source.tap import TapSparkSource
from tests.support.tap import discover, entry_of, metadata_of, run_tap

ROWS = """
select cast(id as int) as id, if(id % 10 = 9, null, timestamp_micros(id div 3)) as at,
  concat('k', id div 2) as code, cast(concat('b', id) as binary) as raw from range(60)
"""


def config(folder, kind: str, key) -> dict:
    return {
        "source_url": f"{kind}:{folder}",
        "slice_rows": 10,
        "stream_options": {"t": {"replication_key": key}},
    }


SLOW = [
    pytest.param(key, marks=pytest.mark.slow) for key in ("raw", "coalesce(at, date'2024-01-01')")
]


@pytest.mark.parametrize("key", ["at", ["code", "id"], *SLOW])
def test_a_lake_table_is_cut_along_any_key(spark, tmp_path, key):
    spark.sql(ROWS).write.parquet(f"{tmp_path}/t")
    output = run_tap(config(tmp_path, "parquet", key))
    assert sorted(record["id"] for record in output.records()) == list(range(60))
    states = output.of("STATE")
    assert len(states) > 3
    rest = run_tap(config(tmp_path, "parquet", key), state=states[2]["value"])
    assert 10 <= len(rest.records()) < 60
    assert rest.state == output.state


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_unselected_columns_and_rows_are_left_in_the_files(spark, tmp_path, kind):
    spark.sql(ROWS).write.format(kind).save(f"{tmp_path}/t")
    settings = config(tmp_path, kind, "id")
    settings["stream_options"]["t"]["where"] = "code = 'k7'"
    catalog = discover(settings)
    for column in ("at", "raw"):
        metadata_of(entry_of(catalog, "t"), "properties", column)["selected"] = False
    bookmark = {"replication_key": "id", "replication_key_value": 15}
    tap = TapSparkSource(config=settings, catalog=catalog, state={"bookmarks": {"t": bookmark}})
    stream = tap.streams["t"]
    (chunk,) = chunks(tap.source, stream.plan, version=1)
    assert [row["id"] for row in chunk.frame.toArrow().to_pylist()] == [15]
    read = chunk.frame._explain_string(extended=True)
    assert "ReadSchema: struct<id:int,code:string>" in read
    pushed = read.partition("PushedFilters: [")[2].partition("]")[0]
    assert "EqualTo(code,k7)" in pushed
    assert "GreaterThanOrEqual(id,15)" in pushed


def test_text_files_are_read_in_one_piece(spark, tmp_path):
    spark.sql(ROWS).drop("raw").write.json(f"{tmp_path}/t")
    output = run_tap(config(tmp_path, "json", "code"))
    assert len(output.records()) == 60
    assert len(output.of("STATE")) == 1
    assert output.bookmark("t")["replication_key_value"] == "k9"
