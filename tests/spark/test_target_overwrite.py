"""overwrite: staged beside the table, swapped in at the confirmed end of the stream."""

from __future__ import annotations

import json

import pytest
from deltalake import DeltaTable

from singer_spark.engine.session import isolated
from singer_spark.errors import ProtocolError, SchemaError
from singer_spark.report import REPORT_FILE, read_report
from tests.support.singer import batch, data, record, schema, state

OVERWRITE = {"load_method": "overwrite"}


def names(lake):
    return [(row["id"], row["name"]) for row in lake.rows("orders")]


def staged_files(lake):
    return [p for p in (lake.root / "_singer_spark").rglob("*.parquet") if p.stat().st_size > 2000]


def test_a_complete_stream_takes_the_tables_place_in_one_commit(lake, tmp_path, monkeypatch):
    told = tmp_path / "report"
    monkeypatch.setenv(REPORT_FILE, str(told))
    lake.load(data("methods/overwrite_first"), **OVERWRITE)
    assert [said["rows"] for said in lake.commits("orders")] == [3], "the table's making has none"
    before = lake.version("orders")
    states = lake.load(data("methods/overwrite_next"), batch_size_rows=1, **OVERWRITE)
    assert names(lake) == [(7, "z"), (8, "y")]
    assert lake.version("orders") == before + 1
    assert states == [{"bookmarks": {"orders": {}}}], "held back until the swap"
    assert lake.commits("orders")[-1]["rows"] == 3
    old = DeltaTable(str(lake.root / "orders"), version=before)
    assert old.to_pyarrow_table().num_rows == 3, "what was there stays in the history"
    assert not staged_files(lake)
    facts = [fact for _, fact in read_report(told) if fact["kind"] == "commit"]
    assert [(f["rows"], f["inserted"], f["deleted"]) for f in facts] == [(3, 3, 0), (3, 2, 3)]
    lake.load(data("methods/overwrite_next"), **OVERWRITE)
    assert lake.version("orders") == before + 1, "the same again is no commit"


@pytest.mark.parametrize(
    "end",
    [
        "overwrite_unfinished",
        "overwrite_syncing",
        "overwrite_cut_off",
        "overwrite_dead_before_records",
    ],
)
def test_without_a_confirmed_end_the_table_stays_and_no_state_is_released(lake, end):
    lake.load(data("methods/overwrite_first"), **OVERWRITE)
    before = lake.version("orders")
    with pytest.raises(ProtocolError, match="orders is complete") as raised:
        lake.load(data(f"methods/{end}"), **OVERWRITE)
    assert raised.value.exit_code == 76
    assert lake.version("orders") == before
    assert lake.states == ([{"bookmarks": {"orders": {}}}] if end == "overwrite_cut_off" else [])
    assert not staged_files(lake)


def test_an_activation_after_the_last_record_confirms_the_end_also_of_an_empty_stream(lake):
    lake.load(data("methods/overwrite_first"), **OVERWRITE)
    lake.load(data("methods/overwrite_activated"), **OVERWRITE)
    assert names(lake) == [(4, "d"), (5, "e")]
    lake.load(data("methods/overwrite_nothing_sent"), **OVERWRITE)
    assert names(lake) == [(4, "d"), (5, "e")], "a tap that sends nothing empties nothing"
    lake.load(data("methods/overwrite_emptied"), **OVERWRITE)
    assert names(lake) == []


def test_the_new_table_has_the_columns_of_the_stream_also_if_they_change_on_the_way(lake):
    lake.load(data("methods/overwrite_first"), **OVERWRITE)
    with pytest.raises(SchemaError, match="freeze"):
        lake.load(
            data("methods/overwrite_other_columns"),
            schema_changes="freeze",
            hard_delete=True,
            **OVERWRITE,
        )
    lake.load(data("methods/overwrite_other_columns"), hard_delete=True, **OVERWRITE)
    (row,) = lake.rows("orders")
    assert {name: str(value) for name, value in row.items()} == {
        "id": "2",
        "name": "b",
        "price": "2.50",
        "qty": "None",
    }


def test_partitions_that_the_stream_no_longer_has_go_whatever_sparks_overwrite_mode(
    lake, monkeypatch
):
    def dynamic():
        session = isolated()
        session.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
        return session

    monkeypatch.setattr("target_spark_delta.target.isolated", dynamic)
    chosen = {"stream_options": {"orders": {"partition_by": ["name"], **OVERWRITE}}}
    lake.load(data("methods/overwrite_first"), **chosen)
    lake.load(data("methods/overwrite_next"), **chosen)
    assert names(lake) == [(7, "z"), (8, "y")]
    by_name = {"stream_options": {"orders": {"partition_by": ["name"]}}}
    lake.load(data("methods/overwrite_wider"), **by_name)
    assert [(row["id"], str(row["qty"])) for row in lake.rows("orders")] == [
        (7, "None"),
        (8, "None"),
        (9, "1.50"),
    ]


def test_of_a_key_in_several_messages_the_last_wins_wherever_it_stands_in_its_file(lake, tmp_path):
    first, second = tmp_path / "1", tmp_path / "2"
    first.write_text("".join(f"{json.dumps({'id': n % 3, 'name': 'first'})}\n" for n in range(500)))
    second.write_text('{"id": 1, "name": "second"}\n')
    lake.load(
        schema("orders", {"id": {"type": "integer"}, "name": {"type": "string"}}, ["id"]),
        record("orders", {"id": 0, "name": "before"}),
        batch("orders", first.as_uri()),
        batch("orders", second.as_uri()),
        record("orders", {"id": 2, "name": "after"}),
        state({}),
        **OVERWRITE,
    )
    assert names(lake) == [(0, "first"), (1, "second"), (2, "after")]
