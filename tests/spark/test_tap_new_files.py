"""Folders whose new files alone are read."""

from __future__ import annotations

import json
import os
import time

import pytest

from singer_spark.errors import SourceError, StateError
from tap_spark_source import planned_stream
from tests.support.singer import Loaded
from tests.support.tap import discover, previews, run_tap


def config(tmp_path, kind: str = "csv", **more) -> dict:
    options = {"new_files": True, "replication_method": "INCREMENTAL"}
    return {"source_url": f"{kind}:{tmp_path}", "stream_options": {"t": options}, **more}


def put(tmp_path, name: str, text: str, modified: float) -> None:
    path = tmp_path / "t" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (modified, modified))


def ids(output) -> list[int]:
    return sorted(record["id"] for record in output.records("t"))


def test_only_files_that_were_not_read_before_are_read(tmp_path):
    put(tmp_path, "a.csv", "id,v\n1,x\n", 1000)
    put(tmp_path, "b.csv", "id,v\n2,x\n", 2000)
    first = run_tap(config(tmp_path))
    assert ids(first) == [1, 2]
    assert first.bookmark("t")["files"] == {
        "modified": "1970-01-01T00:33:20.000000+00:00",
        "names": ["b.csv"],
    }
    put(tmp_path, "tie.csv", "id,v\n3,x\n", 2000)
    put(tmp_path, "c.csv", "id,v\n4,\n", 3000)
    put(tmp_path, "d.csv.tmp", "id,v\n5,", 4000)
    put(tmp_path, "_temporary/0/e.csv", "id,v\n6,x\n", 4000)
    second = run_tap(config(tmp_path), state=first.state)
    assert ids(second) == [3, 4]
    third = run_tap(config(tmp_path), state=second.state)
    assert third.kinds[-2:] == ["SCHEMA", "STATE"]
    assert third.records() == []
    assert third.state == second.state
    put(tmp_path, "a.csv", "id,v\n1,changed\n", 5000)
    assert ids(run_tap(config(tmp_path), state=third.state)) == [1]


def test_files_that_a_full_read_has_told_meanwhile_are_not_told_once_more(tmp_path):
    settings, lake, state = config(tmp_path, "json", tables=["t"]), Loaded(tmp_path / "lake"), None
    for number, one in enumerate((settings, {**settings, "stream_options": {}}, settings)):
        put(tmp_path, f"{number}.json", json.dumps({"id": number}), 1000 + number)
        output = run_tap(one, state=state)
        lake.load(output.text)
        state = output.state
    assert [row["id"] for row in lake.rows("t")] == [0, 1, 2]


def test_a_file_of_the_future_hides_no_later_one(tmp_path, caplog):
    now = time.time()
    put(tmp_path, "a.csv", "id,v\n1,x\n", now + 86400)
    put(tmp_path, "b.csv", "id,v\n2,x\n", now - 60)
    first = run_tap(config(tmp_path))
    assert ids(first) == [1, 2]
    assert caplog.text.count("have a time of modification in the future") == 1
    put(tmp_path, "c.csv", "id,v\n3,x\n", now)
    second = run_tap(config(tmp_path), state=first.state)
    assert ids(second) == [3]
    assert ids(run_tap(config(tmp_path), state=second.state)) == []
    assert caplog.text.count("have a time of modification in the future") == 1


def test_folders_between_the_table_and_its_files_are_columns(tmp_path):
    put(tmp_path, "day=1/a.json", '{"id": 1}\n', 1000)
    put(tmp_path, "day=2/a.json", '{"id": 2, "v": "x"}\n', 2000)
    first = run_tap(config(tmp_path, "json"))
    assert sorted(first.records(), key=lambda row: row["id"]) == [
        {"id": 1, "v": None, "day": 1},
        {"id": 2, "v": "x", "day": 2},
    ]
    assert first.bookmark("t")["files"]["names"] == ["day=2/a.json"]
    put(tmp_path, "day=2/b.json", '{"id": 3}\n', 3000)
    settings = config(tmp_path, "json")
    second = run_tap(settings, state=first.state, catalog=discover(settings))
    assert second.records() == [{"id": 3, "v": None, "day": 2}]


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_new_files_of_every_format(spark, tmp_path, kind):
    spark.sql("select 1 as id").write.format(kind).save(f"{tmp_path}/t")
    first = run_tap(config(tmp_path, kind))
    assert ids(first) == [1]
    spark.sql("select 2 as id").write.format(kind).mode("append").save(f"{tmp_path}/t")
    assert ids(run_tap(config(tmp_path, kind), state=first.state)) == [2]


def test_new_files_of_plain_text(tmp_path):
    put(tmp_path, "a.txt", "one\n\ntwo, and more\n", 1000)
    first = run_tap(config(tmp_path, "text"))
    assert [row["value"] for row in first.records("t")] == ["one", "", "two, and more"]
    put(tmp_path, "b.log", "three", 2000)
    put(tmp_path, "c.txt.tmp", "not yet", 3000)
    second = run_tap(config(tmp_path, "text"), state=first.state)
    assert second.records("t") == [{"value": "three"}]
    assert second.bookmark("t")["files"]["names"] == ["b.log"]


def test_a_table_that_is_one_file_is_read_again_when_it_was_replaced(tmp_path):
    settings = config(tmp_path / "t", max_rows=5)
    put(tmp_path, "t.csv", "id\n1\n", 1000)
    first = run_tap(settings)
    assert ids(first) == [1]
    assert first.bookmark("t")["files"]["names"] == ["t.csv"]
    assert run_tap(settings, state=first.state).records() == []
    put(tmp_path, "t.csv", "id\n2\n", 2000)
    assert ids(run_tap(settings, state=first.state)) == [2]


def test_a_file_that_appears_while_the_table_is_described_is_left_to_the_next_run(
    tmp_path, monkeypatch
):
    put(tmp_path, "a.json", '{"id": 1}\n', 1000)
    plan_read = planned_stream.plan_read

    def interfere(*given, **options):
        put(tmp_path, "b.json", '{"id": 2, "v": "x"}\n', 2000)
        return plan_read(*given, **options)

    monkeypatch.setattr(planned_stream, "plan_read", interfere)
    settings = config(tmp_path, "json")
    first = run_tap(settings)
    assert first.records("t") == [{"id": 1}]
    assert run_tap(settings, state=first.state).records("t") == [{"id": 2, "v": "x"}]


def test_a_state_follows_each_group_of_files(tmp_path, monkeypatch):
    monkeypatch.setattr("tap_spark_source.readers.new_files._CHUNK_FILES", 2)
    for number in range(5):
        put(tmp_path, f"{number}.csv", f"id\n{number}\n", 1000)
    output = run_tap(config(tmp_path))
    assert ids(output) == [0, 1, 2, 3, 4]
    names = [message["value"]["bookmarks"]["t"]["files"]["names"] for message in output.of("STATE")]
    assert [len(seen) for seen in names[:3]] == [2, 4, 5]
    rest = run_tap(config(tmp_path), state=output.of("STATE")[0]["value"])
    assert ids(rest) == [2, 3, 4]


def test_runs_of_limited_size_end_with_a_file_until_nothing_is_left(tmp_path):
    for number in range(6):
        rows = "".join(f"{10 * number + row}\n" for row in range(number))
        put(tmp_path, f"day=1/a file{number}%20.csv", f"id\n{rows}", 1000 + number // 3)
    settings, state, runs = config(tmp_path, max_rows=3), None, []
    (found,) = previews(settings)
    assert (found["method"], found["low"]) == ("INCREMENTAL", None)
    assert found["high"] == "1970-01-01T00:16:41.000000+00:00"
    while True:
        output = run_tap(settings, state=state)
        if output.state == state:
            break
        runs.append(ids(output))
        state = output.state
    # Empty, one and two rows; three; four; five.
    assert runs == [[10, 20, 21], [30, 31, 32], [40, 41, 42, 43], [50, 51, 52, 53, 54]]
    assert output.records() == []


def test_a_condition_holds_for_new_files_too(tmp_path):
    put(tmp_path, "a.csv", "id,v\n1,x\n2,y\n", 1000)
    put(tmp_path, "b.csv", "id,v\n3,x\n", 2000)
    settings = config(tmp_path, max_rows=2)
    settings["stream_options"]["t"]["where"] = "v = 'x'"
    assert ids(run_tap(settings)) == [1, 3]


def test_a_file_of_another_format_is_named(tmp_path, spark):
    spark.sql("select 1 as id").write.parquet(f"{tmp_path}/t")
    state = run_tap(config(tmp_path, "parquet")).state
    catalog = discover(config(tmp_path, "parquet"))
    put(tmp_path, "odd.parquet", "no parquet at all", 4_000_000_000)
    with pytest.raises(SourceError, match=r"t .*odd\.parquet"):
        run_tap(config(tmp_path, "parquet"), state=state, catalog=catalog)


def test_a_folder_without_files_and_a_bookmark_of_another_shape_are_errors(tmp_path):
    put(tmp_path, "a.csv.tmp", "id\n", 1000)
    with pytest.raises(SourceError, match=r"t: .* holds no complete file yet"):
        run_tap(config(tmp_path, tables=["t"]))
    put(tmp_path, "a.csv", "id\n1\n", 1000)
    with pytest.raises(StateError, match="t: the bookmark's files must hold modified and names"):
        run_tap(config(tmp_path), state={"bookmarks": {"t": {"files": {"names": 1}}}})


def test_lines_of_new_text_files_are_read_and_a_window_leaves_them_out(tmp_path, caplog):
    settings = config(tmp_path, "text", default_replication_key="value")
    put(tmp_path, "a.txt", "one\ntwo\n", 1000)
    first = run_tap(settings)
    assert sorted(record["value"] for record in first.records("t")) == ["one", "two"]
    assert set(first.bookmark("t")) == {"files"}
    assert not first.of("SCHEMA")[0].get("bookmark_properties")
    put(tmp_path, "b.txt", "three\n", 2000)
    window = run_tap({**settings, "window_start": "a"}, state=first.state)
    assert (window.records(), window.state) == ([], first.state)
    assert "t: left out, because it has no replication key" in caplog.text
    second = run_tap(settings, state=first.state)
    assert [record["value"] for record in second.records("t")] == ["three"]
