"""LOG_BASED on Delta tables: a snapshot, then the change data feed in the order of the commits."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from urllib.parse import urlparse

import pytest

from singer_spark.errors import SettingsError, SourceError, StateError
from singer_spark.report import REPORT_FILE, read_report
from tests.support.tap import previews, run_tap

FEED = "tblproperties ('delta.enableChangeDataFeed' = 'true')"


@pytest.fixture
def table(spark, tmp_path):
    """A table of three rows, and the settings that follow it."""
    name = f"delta.`{tmp_path}/t`"
    spark.sql(f"create table {name} (id int, v string, n int) using delta {FEED}")
    spark.sql(f"insert into {name} values (1, 'a', 1), (2, 'b', 2), (3, null, 3)")
    return name


def config(tmp_path, **options) -> dict:
    options = {"replication_method": "LOG_BASED", "key_properties": ["id"], **options}
    return {"source_url": f"delta:{tmp_path}", "stream_options": {"t": options}}


def told(output) -> list[tuple]:
    """Return what each record says: the key, and the value or that it is gone."""
    return [
        (record["id"], "gone" if record.get("_sdc_deleted_at") else record["v"])
        for record in output.records("t")
    ]


def test_by_default_the_tables_are_followed_that_record_their_changes(spark, tmp_path, table):
    spark.sql("select 9 as id").write.format("delta").save(f"{tmp_path}/plain")
    settings = {"source_url": f"delta:{tmp_path}", "default_replication_method": "LOG_BASED"}
    settings["emit_activate_version_messages"] = True
    first = run_tap(settings)
    assert first.records("plain") == [{"id": 9}]
    assert [one["stream"] for one in first.of("ACTIVATE_VERSION")] == ["plain"]
    assert first.bookmark("t")["delta_version"] == 1
    assert "delta_version" not in first.bookmark("plain")
    spark.sql(f"insert into {table} values (4, 'd', 4)")
    second = run_tap(settings, state=first.state)
    assert (told(second), second.records("plain")) == ([(4, "d")], [{"id": 9}])
    followed = {"bookmarks": {"plain": {"delta_version": 0}}}
    with pytest.raises(SourceError, match="plain: plain records no changes"):
        run_tap({**settings, "tables": ["plain"]}, state=followed)


def test_changes_follow_the_first_snapshot_in_the_order_of_their_commits(spark, tmp_path, table):
    first = run_tap(config(tmp_path))
    assert sorted(told(first), key=str) == [(1, "a"), (2, "b"), (3, None)]
    assert first.bookmark("t")["delta_version"] == 1
    assert "_sdc_deleted_at" in first.of("SCHEMA")[0]["schema"]["properties"]
    spark.sql(f"update {table} set v = 'x' where id = 1")
    spark.sql(f"insert into {table} values (4, 'd', 4)")
    spark.sql(f"delete from {table} where id = 2")
    spark.sql(f"update {table} set v = 'y' where id = 1")
    spark.sql(f"insert into {table} values (2, 'again', 2)")
    second = run_tap(config(tmp_path), state=first.state)
    assert told(second) == [(1, "x"), (4, "d"), (2, "gone"), (1, "y"), (2, "again")]
    gone = next(record for record in second.records() if record.get("_sdc_deleted_at"))
    assert set(gone) == {"id", "_sdc_deleted_at"}
    assert second.bookmark("t")["delta_version"] == 6
    third = run_tap(config(tmp_path), state=second.state)
    assert third.kinds[-2:] == ["SCHEMA", "STATE"]
    assert third.records() == []
    assert third.state == second.state


def many(spark, tmp_path) -> str:
    """A table of twenty rows, one of them without a key."""
    name = f"delta.`{tmp_path}/t`"
    spark.sql(f"create table {name} (id int, v string) using delta {FEED}")
    spark.sql(f"insert into {name} select nullif(id, 19), 'a' from range(20)")
    return name


def test_an_interrupted_first_read_goes_on_at_the_same_version(spark, tmp_path, monkeypatch):
    table = many(spark, tmp_path)
    settings = config(tmp_path)
    with monkeypatch.context() as told_to:
        told_to.setenv(REPORT_FILE, str(tmp_path / "report"))
        limited = run_tap({**settings, "max_rows": 8})
    assert {"kind": "limited", "stream": "t"} in [f for _, f in read_report(tmp_path / "report")]
    before = {id_ for id_, _ in told(limited)}
    assert 8 <= len(told(limited)) == len(before) < 20
    assert set(limited.bookmark("t")) == {"delta_snapshot", "delta_table"}
    assert limited.bookmark("t")["delta_snapshot"]["version"] == 1
    # What happens meanwhile comes in its turn, also a column that the version did not have.
    spark.sql(f"update {table} set v = 'b' where id in (0, 18)")
    spark.sql(f"delete from {table} where id = 17")
    spark.sql(f"alter table {table} add columns (n int)")
    rest = run_tap({**settings, "slice_rows": 8}, state=limited.state)
    assert {id_ for id_, _ in told(rest)} == {*range(19), None} - before
    assert {value for _, value in told(rest)} == {"a"}
    assert rest.bookmark("t")["delta_version"] == 1
    assert "delta_snapshot" not in rest.bookmark("t")
    third = run_tap(settings, state=rest.state)
    assert sorted(told(third)) == [(0, "b"), (17, "gone"), (18, "b")]


def test_a_first_read_cannot_go_on_at_a_version_that_is_gone(spark, tmp_path):
    table = many(spark, tmp_path)
    for marker in ({"version": 1}, {"version": "x", "key": 1}, 5):
        bad = {"bookmarks": {"t": {"delta_snapshot": marker}}}
        with pytest.raises(StateError, match="t: the bookmark's delta_snapshot"):
            run_tap(config(tmp_path), state=bad)
    spark.sql(f"alter table {table} set tblproperties ('delta.checkpointInterval' = '1')")
    spark.sql(f"update {table} set v = 'x' where id = 1")
    for version in range(3):
        (tmp_path / "t" / "_delta_log" / f"{version:020}.json").unlink()
    halfway = {"bookmarks": {"t": {"delta_snapshot": {"version": 1, "key": 9}}}}
    with pytest.raises(SourceError, match=r"t: version 1 of t, at which .*; remove the stream's"):
        run_tap(config(tmp_path), state=halfway)


def test_changes_are_read_some_commits_at_a_time(spark, tmp_path, table):
    state = run_tap(config(tmp_path)).state
    for number in range(10, 16):
        spark.sql(f"insert into {table} values ({number}, 'a', 1), ({number + 10}, 'a', 1)")
    (found,) = previews(config(tmp_path), state=state)
    assert (found["method"], found["low"], found["high"], found["rows"]) == ("LOG_BASED", 1, 7, 12)
    output = run_tap({**config(tmp_path), "slice_rows": 4}, state=state)
    assert len(told(output)) == 12
    versions = [m["value"]["bookmarks"]["t"]["delta_version"] for m in output.of("STATE")]
    assert [version for version in dict.fromkeys(versions) if version > 1] == [3, 5, 7]
    some = run_tap({**config(tmp_path), "max_rows": 3}, state=state)
    assert sorted(id_ for id_, _ in told(some)) == [10, 11, 20, 21]
    assert some.bookmark("t")["delta_version"] == 3


def test_a_row_that_leaves_its_key_is_gone_unless_the_same_commit_fills_it(spark, tmp_path, table):
    state = run_tap(config(tmp_path)).state
    spark.sql(f"update {table} set id = 9 where id = 1")
    spark.sql(
        f"merge into {table} t using (select 2 as id union all select 3) s on t.id = s.id "
        "when matched and t.id = 2 then update set id = 3 when matched then delete"
    )
    assert told(run_tap(config(tmp_path), state=state)) == [
        (1, "gone"),
        (9, "a"),
        (2, "gone"),
        (3, "b"),
    ]


def test_a_row_that_no_longer_fulfils_the_condition_is_gone(spark, tmp_path, table):
    chosen = config(tmp_path, where="n < 3")
    first = run_tap(chosen)
    assert len(first.records()) == 2
    spark.sql(f"update {table} set n = n + 1")
    assert told(run_tap(chosen, state=first.state)) == [(2, "gone"), (1, "a")]


def test_a_table_of_the_catalog_has_a_log_too(spark):
    spark.sql("create schema if not exists logs")
    try:
        spark.sql(f"create table logs.t (id int) using delta {FEED}")
        spark.sql("create table logs.p using parquet as select 1 as id")
        options = {"replication_method": "LOG_BASED", "key_properties": ["id"]}
        settings = {
            "source_url": "catalog:spark_catalog.logs",
            "tables": ["logs.t"],
            "stream_options": {"*": options},
        }
        first = run_tap(settings)
        assert first.records() == []
        spark.sql("insert into logs.t values (1)")
        assert run_tap(settings, state=first.state).records() == [{"id": 1}]
        with pytest.raises(SettingsError, match=r"logs-p: LOG_BASED needs a Delta table"):
            run_tap({**settings, "tables": ["logs.p"]})
    finally:
        spark.sql("drop schema logs cascade")


def test_without_a_key_insertions_are_told_and_nothing_else(spark, tmp_path, table):
    keyless = config(tmp_path, key_properties=[])
    first = run_tap(keyless)
    spark.sql(f"insert into {table} values (4, 'd', 4)")
    second = run_tap(keyless, state=first.state)
    assert told(second) == [(4, "d")]
    spark.sql(f"delete from {table} where id = 4")
    with pytest.raises(SettingsError, match=r"t: .*no key to tell which; set key_properties"):
        run_tap(keyless, state=second.state)


def test_a_log_that_cannot_be_followed_says_how_to_start_again(spark, tmp_path, table):
    state = run_tap(config(tmp_path)).state
    spark.sql(f"alter table {table} set tblproperties ('delta.enableChangeDataFeed' = 'false')")
    with pytest.raises(SourceError, match=r"t: .*set its property delta.enableChangeDataFeed"):
        run_tap(config(tmp_path), state=state)
    spark.sql(f"insert into {table} values (5, 'e', 5)")
    spark.sql(f"alter table {table} set tblproperties ('delta.enableChangeDataFeed' = 'true')")
    with pytest.raises(SourceError, match=r"t: the changes of versions 2 to 4 .*remove the"):
        run_tap(config(tmp_path), state=state)
    old = {"bookmarks": {"t": {"delta_version": 99}}}
    with pytest.raises(StateError, match="t: the bookmark's delta_version 99 is of another table"):
        run_tap(config(tmp_path), state=old)
    with pytest.raises(StateError, match="t: the bookmark's delta_version is no version"):
        run_tap(config(tmp_path), state={"bookmarks": {"t": {"delta_version": "x"}}})


def test_versions_that_were_cleaned_up_say_how_to_start_again(spark, tmp_path, table):
    state = run_tap(config(tmp_path)).state
    spark.sql(f"alter table {table} set tblproperties ('delta.checkpointInterval' = '1')")
    spark.sql(f"update {table} set v = 'x' where id = 1")
    spark.sql(f"update {table} set v = 'y' where id = 1")
    for version in range(4):
        (tmp_path / "t" / "_delta_log" / f"{version:020}.json").unlink()
    with pytest.raises(SourceError, match="remove the stream's bookmark"):
        run_tap(config(tmp_path), state=state)


def test_a_table_that_marks_rows_deleted_by_itself_is_followed(spark, tmp_path):
    name = f"delta.`{tmp_path}/t`"
    spark.sql(
        f"create table {name} (id int, v string, _sdc_deleted_at timestamp) using delta {FEED}"
    )
    spark.sql(f"insert into {name} values (1, 'a', null), (2, 'b', null), (3, 'c', null)")
    first = run_tap(config(tmp_path))
    spark.sql(f"update {name} set _sdc_deleted_at = timestamp'2024-01-01 00:00:00Z' where id = 2")
    spark.sql(f"update {name} set v = 'x' where id = 1")
    spark.sql(f"delete from {name} where id = 3")
    second = run_tap(config(tmp_path), state=first.state)
    assert told(second) == [(2, "gone"), (1, "x"), (3, "gone")]
    assert second.records()[0]["_sdc_deleted_at"] == "2024-01-01T00:00:00.000000+00:00"


def test_files_tell_what_records_would_and_nothing_leaves_none(spark, tmp_path, table):
    first = run_tap(config(tmp_path))
    spark.sql(f"delete from {table} where id = 2")
    folder = tmp_path / "files"

    def batched(kind: str, **options) -> list[dict]:
        storage = {"encoding": {"format": kind}, "storage": {"root": str(folder)}}
        settings = {**config(tmp_path, **options), "tables": ["t"], "batch_config": storage}
        return run_tap(settings, state=first.state).of("BATCH")

    assert batched("parquet", where="id > 100") == []
    assert not folder.exists() or not list(folder.iterdir())
    (message,) = batched("parquet")
    assert message["encoding"] == {"format": "jsonl", "compression": "gzip"}
    text = gzip.decompress(Path(urlparse(message["manifest"][0]).path).read_bytes())
    assert set(json.loads(text)) == {"id", "_sdc_deleted_at"}
