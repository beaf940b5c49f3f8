"""Slices, parallel reads and resuming on a real PostgreSQL, by keys of every type."""

from __future__ import annotations

import json

import pytest

from tests.support.tap import Postgres, run_tap

# Ties, gaps, a heap of one value, and rows without a key.
SCHEMA = """
create table many (
  id int primary key, part text not null, i bigint, d numeric(12,2), n numeric, day date,
  at timestamptz, ts timestamp, t text collate "C", loc text, raw bytea, u uuid, old timestamptz);
insert into many
select id, 'p' || id % 3, k, k + 0.25, k * 1e25, date '2024-01-01' + k,
  timestamptz '2024-01-01 00:00:00.000001+02' + k * interval '1 microsecond',
  timestamp '0999-12-31 23:59:59.999999' + k * interval '1 day',
  chr(65 + k) || 'x', case when k % 2 = 0 then 'a' else 'B' end || k,
  decode(lpad(to_hex(k * 40), 4, '0'), 'hex'),
  ('00000000-0000-0000-0000-' || lpad(k::text, 12, '0'))::uuid, '2020-01-01'::timestamptz
from (select id, case when id % 10 = 9 then null when id between 20 and 39 then 7
        else id / 2 end as k from generate_series(1, 60) id) x;
create table pairs (a int, b text, v int, primary key (b, a));
insert into pairs select n % 7, 'x' || n % 5, n from generate_series(1, 35) n;
create table heap (id int, v text);
insert into heap select n, 'v' from generate_series(1, 20) n;
"""
EVERY_ID = list(range(1, 61))


def config(database: Postgres, table: str, settings: dict | None = None, **options) -> dict:
    sizes = {"slice_rows": 7, "num_partitions": 3}
    return database.reads(table, settings={**sizes, **(settings or {})}, **options)


def ids(output) -> list[int]:
    return sorted(record["id"] for record in output.records())


@pytest.mark.parametrize(
    "key",
    [
        "i",
        "at",
        "loc",
        "raw",
        "coalesce(at, old)",
        ["at", "id"],
        *(pytest.param(key, marks=pytest.mark.slow) for key in ["d", "n", "day", "ts", "t", "u"]),
        *(pytest.param(key, marks=pytest.mark.slow) for key in ["i + 1", ["part", "i"]]),
    ],
    ids=str,
)
def test_slices_and_parallel_ranges_are_disjoint_and_complete(database, key):
    output = run_tap(config(database, "many", replication_key=key))
    assert ids(output) == EVERY_ID
    states = output.of("STATE")
    assert len(states) > 4
    half = states[len(states) // 2]["value"]
    rest = run_tap(config(database, "many", replication_key=key), state=half)
    seen = output.text[: output.text.index(json.dumps(half, separators=(",", ":"))[1:-1])]
    before = [json.loads(line)["record"]["id"] for line in seen.splitlines() if "RECORD" in line]
    assert set(before) | set(ids(rest)) == set(EVERY_ID)
    assert rest.state == output.state
    done = run_tap(config(database, "many", replication_key=key), state=output.state)
    assert done.state == output.state
    assert len(done.records()) < 30


def test_an_interrupted_full_load_goes_on_behind_the_last_slice(database):
    settings = {"emit_activate_version_messages": True}
    whole = run_tap(config(database, "pairs", settings))
    assert len(whole.records()) == len({r["v"] for r in whole.records()}) == 35
    assert whole.kinds[-2:] == ["ACTIVATE_VERSION", "STATE"]
    assert whole.kinds.count("ACTIVATE_VERSION") == 1
    assert whole.bookmark("public-pairs") == {}
    halfway = whole.of("STATE")[2]["value"]
    marker = halfway["bookmarks"]["public-pairs"]["full_table"]
    assert marker == {
        "version": whole.of("ACTIVATE_VERSION")[0]["version"],
        "key": ["x2", 6],
        "key_columns": ["b", "a"],
    }
    rest = run_tap(config(database, "pairs", settings), state=halfway)
    assert sorted({(r["b"], r["a"]) for r in rest.records()})[0] == ("x3", 0)
    assert len(rest.records()) == 14
    assert {m["version"] for m in rest.of("RECORD")} == {marker["version"]}
    assert rest.of("ACTIVATE_VERSION")[0]["version"] == marker["version"]
    assert rest.bookmark("public-pairs") == {}


def test_runs_of_limited_size_end_when_nothing_is_left(database):
    settings, state, seen, runs = {"max_rows": 20}, None, set(), 0
    while True:
        output = run_tap(config(database, "many", settings, replication_key="i"), state=state)
        seen |= set(ids(output))
        runs += 1
        if state == output.state:
            break
        state = output.state
    assert seen == set(EVERY_ID)
    assert runs == 3


def test_a_small_table_and_one_without_a_key_are_read_by_one_query(database):
    for table, rows in (("pairs", 35), ("heap", 20)):
        start = len(database.log())
        output = run_tap({**config(database, table), "slice_rows": 1000})
        assert len(output.records()) == rows
        asked = [line for line in database.asked(start) if f'"public"."{table}"' in line]
        assert len(asked) == 1


def test_any_column_can_cut_a_table_without_a_key(database):
    output = run_tap(config(database, "many", partition_column="i"))
    assert ids(output) == EVERY_ID
    assert len(output.of("STATE")) > 4


def test_a_given_window_is_read_again_and_leaves_the_state_alone(database):
    state = {"bookmarks": {"public-many": {"replication_key": "i", "replication_key_value": 99}}}
    settings = {"window_start": "5", "window_end": "7"}
    output = run_tap(config(database, "many", settings, replication_key="i"), state=state)
    assert ids(output) == [10, 11, 12, 13]
    assert output.state == state
    times = {"window_start": "2024-01-03", "window_end": "2024-01-04"}
    output = run_tap(config(database, "many", times, replication_key="day"))
    assert {record["day"] for record in output.records()} == {"2024-01-03"}
    assert output.state == {"bookmarks": {}}


def test_streams_without_a_key_are_left_out_of_a_window(database, caplog):
    output = run_tap(config(database, "heap", {"window_start": "5"}))
    assert output.messages == []
    assert "public-heap: left out" in caplog.text


@pytest.mark.parametrize("mode", [pytest.param("keys", marks=pytest.mark.slow), "rows"])
def test_a_comparison_reads_in_slices_along_the_primary_key(database, tmp_path, mode):
    database.run(
        "create table if not exists compared (id int primary key, at timestamptz not null); "
        "truncate compared; insert into compared "
        "select n, timestamptz '2024-01-01' + n * interval '1 s' from generate_series(1, 30) n"
    )
    settings = {"snapshot_path": str(tmp_path)}
    chosen = config(database, "compared", settings, replication_key="at", snapshot=mode)
    start = len(database.log())
    first = run_tap(chosen)
    assert ids(first) == list(range(1, 31))
    # Along the replication key a row that changes meanwhile would be in two ranges, or in none.
    ranges = [line for line in database.asked(start) if '"id" as "_key0"' in line]
    assert len(ranges) > 8
    database.run(
        "delete from compared where id in (1, 17, 30); "
        "update compared set at = at + interval '1 day' where id = 5; "
        "insert into compared values (31, '2024-02-01')"
    )
    second = run_tap(chosen, state=first.state)
    gone = {record["id"] for record in second.records() if record.get("_sdc_deleted_at")}
    assert gone == {1, 17, 30}
    assert {5, 31} <= set(ids(second)) <= {5, 31, *gone}
    third = run_tap(chosen, state=second.state)
    assert not [record for record in third.records() if record.get("_sdc_deleted_at")]
