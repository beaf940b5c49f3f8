"""Where a run goes on: markers of interrupted loads, changed keys and methods, and heaps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from singer_spark.assignment import Loaded
from singer_spark.errors import StateError
from tap_spark_source.plan.bookmark import without_stale_markers
from tap_spark_source.plan.key import Key
from tap_spark_source.plan.read_plan import KeyForm, Snapshot
from tap_spark_source.plan.window import Window
from tap_spark_source.readers import delta_log
from tests.support.memory import MemorySource
from tests.support.readers import BY_AT, BY_AT_AND_ID, BY_ID, TABLE, Run, incremental, plan, rows


def test_a_load_that_is_cut_along_other_columns_begins_anew(caplog):
    source, by_code = MemorySource(rows(*range(6))), Key(parts=(TABLE.column("code"),))
    first = Run(source, plan({}, key=BY_ID, max_rows=3))
    assert first.bookmark["full_table"] == {"version": 7, "key": 2, "key_columns": ["id"]}
    again = Run(source, plan(first.bookmark, key=by_code))
    assert (again.ids, again.bookmark) == ([0, 1, 2, 3, 4, 5], {})
    assert "t: an interrupted load was cut along ['id'], and the table is now cut" in caplog.text
    of_before = {"full_table": {"version": 7, "key": 2}}
    assert Run(source, plan(of_before, key=BY_ID)).ids == [3, 4, 5]


@pytest.mark.parametrize("marker", [{}, {"version": 1}, {"version": 1, "key": "x"}, 5, []])
def test_a_resume_marker_that_does_not_fit_is_a_state_error(marker):
    with pytest.raises(StateError, match="t: the bookmark's full_table does not fit the key id"):
        Run(MemorySource(rows(1)), plan({"full_table": marker}, key=BY_ID))


def test_an_incremental_read_forgets_a_full_one_that_was_interrupted():
    bookmark = {"full_table": {"version": 1, "key": 2}, "kept": 1}
    read = plan(bookmark, key=BY_AT, window=Window())
    assert Run(MemorySource(rows(5)), read).bookmark == {
        "kept": 1,
        "replication_key": "at",
        "replication_key_value": 5,
    }
    assert Run(MemorySource([]), read).bookmark == {"kept": 1}


@pytest.mark.parametrize("method", ["LOG_BASED", "INCREMENTAL"])
def test_what_another_method_left_half_done_is_forgotten(method):
    half = {"version": 1, "key": 2}
    bookmark = {"full_table": half, "delta_snapshot": half, "kept": 1}
    found = without_stale_markers(plan(bookmark, method=method)).bookmark
    assert found == {"kept": 1, **({"delta_snapshot": half} if method == "LOG_BASED" else {})}


FAR = {
    "files": {"modified": "2026-01-01T00:00:00.000000+00:00", "names": ["a"]},
    "delta_version": 5,
    "delta_table": "x",
    "offsets": {"0": 7},
    "snapshot": {"version": "20260101T000000000000Z"},
}


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, set()),
        ({"key": BY_AT, "window": Window(), "method": "INCREMENTAL"}, set()),
        ({"new_files": True, "method": "INCREMENTAL"}, {"files"}),
        ({"method": "LOG_BASED"}, {"delta_version", "delta_table", "offsets"}),
    ],
    ids=["full", "by key", "new files", "log"],
)
def test_how_far_another_method_came_is_forgotten_or_rows_would_come_twice(options, kept):
    """What this run tells, a later one of that method would tell once more from there."""
    read = replace(plan({**FAR, "kept": 1}, **options), key_properties=())
    assert without_stale_markers(read).bookmark.keys() == {*kept, "kept"}
    compared = Snapshot(mode="keys", path="/x", form=KeyForm(source="s", key=()))
    assert "snapshot" in without_stale_markers(replace(read, snapshot=compared)).bookmark


def test_a_log_is_followed_on_where_a_key_tells_that_rows_are_one():
    """Only its changes tell what was deleted while the stream was read by another method."""
    log = {"delta_version", "delta_table"}
    assert without_stale_markers(plan(FAR)).bookmark.keys() == log
    merged = plan(FAR, loaded=Loaded(by_key=True))
    assert without_stale_markers(merged).bookmark.keys() == log
    assert not without_stale_markers(plan(FAR, loaded=Loaded())).bookmark


@pytest.mark.parametrize("key", [Key(parts=(TABLE.column("code"),)), None], ids=["code", "none"])
def test_a_first_read_without_a_key_never_begins_anew(key):
    """What it has told would be appended once more."""
    halfway = {"delta_snapshot": {"version": 1, "key": 3, "key_columns": ["id"]}}
    read = replace(plan(halfway, method="LOG_BASED", key=key), key_properties=())
    with pytest.raises(StateError, match=r"t: its first read was cut .* or run with --refresh t$"):
        list(delta_log.chunks(None, read))
    appended = replace(read, key_properties=("id",), loaded=Loaded())
    with pytest.raises(StateError, match="or remove the table if its rows are appended, then run"):
        list(delta_log.chunks(None, appended))


def test_a_comparison_of_rows_forgets_a_full_read_that_was_interrupted():
    bookmark = {"full_table": {"version": 1, "key": 2}, "kept": 1}
    rows_mode = Snapshot(mode="rows", path="/x", form=KeyForm(source="s", key=()))
    compared = plan(bookmark, snapshot=rows_mode)
    assert without_stale_markers(compared).bookmark == {"kept": 1}
    keys = replace(compared, snapshot=replace(rows_mode, mode="keys"))
    assert without_stale_markers(keys).bookmark == bookmark


def test_a_window_that_is_read_again_leaves_every_marker_alone():
    bookmark = {"full_table": {"version": 1, "key": 2}}
    window = Window(start=(1,), end=(9,), is_fixed=True)
    run = Run(MemorySource(rows(5)), plan(bookmark, key=BY_AT, window=window))
    assert (run.ids, run.bookmark) == ([0], bookmark)


@pytest.mark.parametrize("slice_rows", [7, 20, 1000])
def test_limited_runs_do_not_read_a_heap_of_a_list_key_again_and_again(slice_rows):
    source, bookmark, seen, runs = MemorySource(rows(*[5] * 600, 6)), {}, [], 0
    while True:
        read = incremental(bookmark, BY_AT_AND_ID, max_rows=20, slice_rows=slice_rows)
        run = Run(source, read)
        seen += run.rows
        bookmark, runs = run.bookmark, runs + 1
        if runs == 3:
            # Read before, and changed once more at the very time of the bookmark.
            source.rows[7] = {"id": 7, "at": 5, "code": "changed"}
        if run.is_complete:
            break
    assert bookmark["replication_key_value"] == [6, 600]
    # Once in chunks, and once more by the run that comes beyond them.
    assert len(seen) <= 2 * 600 + 20
    assert runs <= 32
    assert {"id": 7, "at": 5, "code": "changed"} in seen
    assert {row["id"] for row in seen} == set(range(601))


def test_a_list_keys_bookmark_stays_where_its_row_is_gone(caplog):
    bookmark = {"replication_key": ["at", "id"], "replication_key_value": [5, 9]}
    source = MemorySource([{"id": 3, "at": 5}])
    run = Run(source, incremental(bookmark, BY_AT_AND_ID))
    assert (run.ids, run.bookmark, run.is_complete) == ([3], bookmark, True)
    assert "the bookmark … is ahead of the source, whose highest at, id is …" in caplog.text
    source.rows.append({"id": 9, "at": 5})
    caplog.clear()
    assert Run(source, incremental(bookmark, BY_AT_AND_ID)).bookmark == bookmark
    assert not caplog.records
