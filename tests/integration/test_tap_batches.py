"""BATCH messages of the tap: the same rows reach the same tables as by RECORD messages."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlparse

import pytest

from singer_spark.errors import SettingsError
from singer_spark.report import REPORT_FILE, read_report
from tests.integration.test_tap_postgres_types import SCHEMA as TYPES
from tests.support.singer import Loaded
from tests.support.tap import run_tap

SCHEMA = f"""{TYPES};
create table events (id int primary key, at timestamptz not null, gone bool, note text);
insert into events select n, timestamptz '2024-01-01' + n * interval '1 hour', n = 2, 'note ' || n
  from generate_series(1, 20) n;
create table small (id int primary key, note text);
insert into small values (1, 'a'), (2, 'b');
"""
ENCODINGS = [
    {"format": "parquet"},
    pytest.param({"format": "jsonl", "compression": "gzip"}, marks=pytest.mark.slow),
    pytest.param({"format": "parquet", "compression": "gzip"}, marks=pytest.mark.slow),
    pytest.param({"format": "jsonl", "compression": "none"}, marks=pytest.mark.slow),
]


def batched(folder: Path, **encoding: str) -> dict:
    return {"batch_config": {"encoding": encoding, "storage": {"root": str(folder)}}}


def both_ways(tmp_path: Path, config: dict, settings: dict, *, state=None, **target):
    """Load by records and by files; return the outputs of the tap and the lakes."""
    outputs, lakes = [], []
    for name, more in {"records": {}, "files": settings}.items():
        lake = Loaded(tmp_path / name, add_record_metadata=False, **target)
        output = run_tap({**config, **more}, state=state)
        lake.load(output.text)
        outputs.append(output)
        lakes.append(lake)
    return outputs, lakes


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda one: "-".join(one.values()))
def test_every_type_arrives_as_it_does_by_records(database, tmp_path, encoding):
    config = database.reads("kinds", "events")
    folder = tmp_path / "a place for 100%"
    settings = batched(folder, **encoding)
    cleaned = {"clean_up_batch_files": True, "batch_roots": [str(folder)]}
    (plain, files), (wanted, got) = both_ways(tmp_path, config, settings, **cleaned)
    assert files.of("RECORD") == []
    assert plain.state == files.state
    for stream, count in {"public-kinds": 2, "public-events": 20}.items():
        (message,) = files.of("BATCH", stream)
        assert message["encoding"]["format"] == encoding["format"]
        table = stream.replace("-", "_")
        assert len(got.rows(table)) == count
        assert got.rows(table) == wanted.rows(table)
        assert got.table(table).schema() == wanted.table(table).schema()
    assert [path for path in folder.rglob("*") if path.is_file()] == [], "the target cleans up"


def test_each_slice_is_a_message_of_its_own_followed_by_its_state(database, tmp_path, monkeypatch):
    monkeypatch.setenv(REPORT_FILE, str(tmp_path / "report"))
    settings = {**batched(tmp_path / "files", format="parquet"), "slice_rows": 5}
    output = run_tap(database.reads("events", replication_key="at", settings=settings))
    kinds = [kind for kind in output.kinds if kind != "SCHEMA"]
    assert kinds == ["BATCH", "STATE"] * 4
    told = [fact["rows"] for _, fact in read_report(tmp_path / "report") if fact["kind"] == "batch"]
    assert told == [5, 5, 5, 5]
    for message in output.of("BATCH"):
        assert all(Path(unquote(urlparse(url).path)).exists() for url in message["manifest"])


def test_deletions_and_versions_mean_the_same(database, tmp_path):
    settings = {"emit_activate_version_messages": True}
    config = database.reads("events", deleted_flag="gone", settings=settings)
    (plain, files), (wanted, got) = both_ways(
        tmp_path, config, batched(tmp_path / "batches", format="parquet")
    )
    assert files.of("BATCH")[0]["version"] == files.of("ACTIVATE_VERSION")[0]["version"]
    rows = got.rows("public_events")
    assert [row["id"] for row in rows if row["_sdc_deleted_at"]] == [2]
    drop = ("_sdc_table_version", "_sdc_deleted_at")

    def told(lake):
        return [
            {k: v for k, v in row.items() if k not in drop} for row in lake.rows("public_events")
        ]

    assert told(got) == told(wanted)
    assert plain.kinds.count("ACTIVATE_VERSION") == files.kinds.count("ACTIVATE_VERSION")


def test_a_deletion_that_knows_the_key_alone_leaves_the_rest_of_the_row(database, tmp_path):
    settings = {
        "snapshot_path": str(tmp_path / "snapshots"),
        **batched(tmp_path / "files", format="parquet"),
    }
    config = database.reads("small", snapshot="rows", settings=settings)
    lake = Loaded(tmp_path / "lake", add_record_metadata=False)
    first = run_tap(config)
    lake.load(first.text)
    database.run("delete from small where id = 2; insert into small values (3, null)")
    second = run_tap(config, state=first.state)
    lake.load(second.text)
    assert second.of("BATCH")
    rows = [
        (row["id"], row["note"], bool(row["_sdc_deleted_at"])) for row in lake.rows("public_small")
    ]
    assert rows == [(1, "a", False), (2, "b", True), (3, None, False)]


def test_rows_go_as_messages_where_files_would_fill_the_disk(database, tmp_path, monkeypatch):
    settings = {**batched(tmp_path / "files", format="parquet"), "slice_rows": 5}
    config = database.reads("events", replication_key="at", settings=settings)
    free = iter([10**9, 0, 10**9])
    monkeypatch.setattr(
        shutil, "disk_usage", lambda _: SimpleNamespace(free=next(free)), raising=True
    )
    output = run_tap(config)
    assert [kind for kind in output.kinds if kind != "SCHEMA"] == [
        *("BATCH", "STATE", "BATCH", "STATE"),
        *("RECORD",) * 5,
        *("STATE", "BATCH", "STATE"),
    ]


def test_nothing_to_send_makes_no_message(database, tmp_path):
    bookmark = {"replication_key": "at", "replication_key_value": "2030-01-01T00:00:00+00:00"}
    config = database.reads(
        "events", replication_key="at", settings=batched(tmp_path / "files", format="parquet")
    )
    output = run_tap(config, state={"bookmarks": {"public-events": bookmark}})
    assert output.of("BATCH") == []
    assert output.position["bookmarks"]["public-events"] == bookmark


def test_stream_maps_need_records(database, tmp_path, caplog):
    settings = {
        **batched(tmp_path / "files", format="parquet"),
        "stream_maps": {"public-events": {"note": "note.upper()"}},
    }
    output = run_tap(database.reads("events", settings=settings))
    assert {record["note"] for record in output.records()} >= {"NOTE 1"}
    assert output.of("BATCH") == []


def test_files_need_a_place(database):
    settings = {"batch_config": {"encoding": {"format": "parquet"}}}
    with pytest.raises(SettingsError, match=r"batch_config: storage.root is missing; name a"):
        run_tap(database.reads("events", settings=settings))
