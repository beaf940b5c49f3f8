"""Comparison of a table with what it held before: by its keys, or by whole rows."""

from __future__ import annotations

import os

import pytest
from deltalake import DeltaTable

from singer_spark.errors import DataError, SettingsError, StateError
from tests.support.tap import run_tap


@pytest.fixture
def write(spark, tmp_path):
    """Replace the table by the rows of a query."""

    def replace(query: str) -> None:
        spark.sql(query).write.mode("overwrite").parquet(f"{tmp_path}/lake/t")

    return replace


def config(tmp_path, mode: str, **options) -> dict:
    return {
        "source_url": f"parquet:{tmp_path}/lake",
        "snapshot_path": f"{tmp_path}/snapshots",
        "stream_options": {"t": {"snapshot": mode, "key_properties": ["id"], **options}},
    }


def told(output) -> dict:
    """Return what the records say: of each key its value, or that it is gone."""
    records = output.records("t")
    found = {
        record["id"]: "gone" if record.get("_sdc_deleted_at") else record["v"] for record in records
    }
    assert len(found) == len(records)
    return found


def versions(tmp_path) -> set[str]:
    return set(DeltaTable(f"{tmp_path}/snapshots/t").to_pyarrow_table()["version"].to_pylist())


def rows(*pairs: tuple[int, str | None]) -> str:
    values = ", ".join(f"({id_}, {'null' if v is None else repr(v)})" for id_, v in pairs)
    return f"select * from values {values} as t(id, v)"


def test_rows_tell_what_is_new_changed_and_gone_and_nothing_else(tmp_path, write):
    write(rows((1, "a"), (2, None), (3, "c"), (4, "")))
    first = run_tap(config(tmp_path, "rows"))
    assert told(first) == {1: "a", 2: None, 3: "c", 4: ""}
    write(rows((1, "a"), (2, ""), (4, None), (5, "e")))
    second = run_tap(config(tmp_path, "rows"), state=first.state)
    assert told(second) == {2: "", 3: "gone", 4: None, 5: "e"}
    gone = next(record for record in second.records() if record["id"] == 3)
    assert set(gone) == {"id", "_sdc_deleted_at"}
    # The run failed after all: its state is not known, and the old one gives the same again.
    assert told(run_tap(config(tmp_path, "rows"), state=first.state)) == told(second)
    third = run_tap(config(tmp_path, "rows"), state=second.state)
    assert third.records() == []
    assert third.bookmark("t")["snapshot"] != second.bookmark("t")["snapshot"]


@pytest.mark.parametrize("mode", ["rows", pytest.param("keys", marks=pytest.mark.slow)])
def test_what_a_lost_run_may_have_told_is_told_anew_or_taken_back(tmp_path, write, mode):
    write(rows((1, "a"), (2, "b")))
    first = run_tap(config(tmp_path, mode))
    write(rows((1, "changed"), (3, "new")))
    run_tap(config(tmp_path, mode), state=first.state)
    write(rows((1, "a"), (2, "b")))
    again = told(run_tap(config(tmp_path, mode), state=first.state))
    assert again == {1: "a", 2: "b", 3: "gone"}


def test_versions_that_no_state_names_any_more_are_removed(tmp_path, write):
    write(rows((1, "a")))
    state, seen = None, []
    for _ in range(4):
        state = run_tap(config(tmp_path, "rows"), state=state).state
        seen.append(state["bookmarks"]["t"]["snapshot"]["version"])
    assert versions(tmp_path) == set(seen[1:])
    files = list((tmp_path / "snapshots" / "t").glob("version=*/*.parquet"))
    assert {path.parent.name.removeprefix("version=") for path in files} == set(seen[1:])


def test_keys_tell_what_is_gone_after_the_rows_of_the_regular_read(tmp_path, write):
    options = {"replication_key": "id"}
    write(rows((1, "a"), (2, "b"), (3, "c")))
    first = run_tap(config(tmp_path, "keys", **options))
    assert told(first) == {1: "a", 2: "b", 3: "c"}
    write(rows((1, "changed"), (3, "c"), (4, "d")))
    second = run_tap(config(tmp_path, "keys", **options), state=first.state)
    assert told(second) == {2: "gone", 3: "c", 4: "d"}
    assert second.bookmark("t")["replication_key_value"] == 4
    assert second.records()[-1]["id"] == 2


def test_a_comparison_of_rows_never_retires_those_that_it_leaves_out(tmp_path, write):
    settings = {**config(tmp_path, "rows"), "emit_activate_version_messages": True}
    write(rows((1, "a"), (2, "b")))
    first = run_tap(settings)
    write(rows((1, "a"), (2, "c")))
    second = run_tap(settings, state=first.state)
    assert told(second) == {2: "c"}
    assert not first.of("ACTIVATE_VERSION")
    assert not second.of("ACTIVATE_VERSION")
    # A full read is numbered as ever, and what the comparison adds does not number it again.
    full = run_tap({**config(tmp_path, "keys"), "emit_activate_version_messages": True})
    assert full.kinds.count("ACTIVATE_VERSION") == 1


def test_a_row_that_is_marked_deleted_is_told_once(tmp_path, write):
    settings = config(tmp_path, "rows", deleted_flag="v = 'x'")
    write(rows((1, "a"), (2, "x")))
    first = run_tap(settings)
    assert told(first) == {1: "a", 2: "gone"}
    again = run_tap(settings, state=first.state)
    assert again.records() == []
    write(rows((1, "x"), (2, "x")))
    assert told(run_tap(settings, state=again.state)) == {1: "gone"}


def test_comparisons_can_be_rarer_than_runs(tmp_path, write):
    options = {"replication_key": "id", "snapshot_every": "1h"}
    write(rows((1, "a"), (2, "b")))
    first = run_tap(config(tmp_path, "keys", **options))
    write(rows((2, "b"), (3, "told between two comparisons")))
    second = run_tap(config(tmp_path, "keys", **options), state=first.state)
    assert told(second) == {2: "b", 3: "told between two comparisons"}
    assert second.bookmark("t")["snapshot"] == first.bookmark("t")["snapshot"]
    write(rows((2, "b")))
    due = run_tap(config(tmp_path, "keys", replication_key="id"), state=second.state)
    assert told(due) == {1: "gone", 3: "gone"}
    again = run_tap(config(tmp_path, "keys", replication_key="id"), state=due.state)
    assert again.records() == []
    full = run_tap(config(tmp_path, "rows", snapshot_every="1h"), state=second.state)
    assert full.records() == []


def test_a_comparison_of_rows_moves_the_bookmark_that_runs_in_between_start_from(tmp_path, write):
    options = {"replication_key": "id", "snapshot_every": "1h"}
    write(rows((1, "a"), (2, "b")))
    first = run_tap(config(tmp_path, "rows", **options))
    assert first.bookmark("t")["replication_key_value"] == 2
    write(rows((1, "changed"), (2, "b"), (3, "c")))
    second = run_tap(config(tmp_path, "rows", **options), state=first.state)
    assert told(second) == {2: "b", 3: "c"}
    write(rows((1, "changed"), (2, "b")))
    due = run_tap(config(tmp_path, "rows", replication_key="id"), state=second.state)
    # What was told in between is told again, since nobody knows whether it is still the same.
    assert told(due) == {1: "changed", 2: "b", 3: "gone"}
    assert due.bookmark("t")["replication_key_value"] == 3


def test_what_a_run_told_that_failed_before_it_compared_is_taken_back(tmp_path, write):
    write(rows((1, "a")))
    first = run_tap(config(tmp_path, "keys"))
    write(rows((1, "a"), (2, "b"), (3, "c"), (3, "d")))
    lost = run_tap(config(tmp_path, "keys"), state=first.state, fails=DataError)
    assert {record["id"] for record in lost.records()} == {1, 2, 3}
    write(rows((1, "a")))
    again = run_tap(config(tmp_path, "keys"), state=first.state)
    assert told(again) == {1: "a", 2: "gone", 3: "gone"}


def test_the_order_of_the_columns_and_wider_types_change_no_key(tmp_path, write):
    settings = config(tmp_path, "rows", key_properties=["id", "v"])
    write("select * from values (1, 'a'), (2, 'b') as t(id, v)")
    first = run_tap(settings)
    write("select v, cast(id as bigint) as id from values (2, 'b'), (3, 'c') as t(id, v)")
    # Whole rows are compared by their text, and told once more; no key is taken for another.
    assert told(run_tap(settings, state=first.state)) == {1: "gone", 2: "b", 3: "c"}


def test_a_key_that_is_written_otherwise_begins_anew_and_deletes_nothing(tmp_path, write, caplog):
    settings = config(tmp_path, "rows")
    prices = "select cast(id as decimal(9,1)) as id, v from values {} as t(id, v)"
    write(prices.format("(1, 'a'), (2, 'b')"))
    first = run_tap(settings)
    write(prices.format("(1, 'a'), (3, 'c')"))
    as_texts = {**settings, "use_singer_decimal": True}
    second = run_tap(as_texts, state=first.state)
    assert told(second) == {"1.0": "a", "3.0": "c"}
    assert "t: the key was written otherwise in an earlier comparison" in caplog.text
    write(prices.format("(3, 'c')"))
    third = run_tap(as_texts, state=second.state)
    assert told(third) == {"1.0": "gone"}
    # The run before the last one again: what it told in the new form is known.
    assert told(run_tap(as_texts, state=first.state)) == {"1.0": "gone", "3.0": "c"}


def test_sources_never_share_their_comparisons(tmp_path, write, spark):
    write(rows((1, "a")))
    first = run_tap(config(tmp_path, "rows"))
    spark.sql(rows((2, "b"))).write.parquet(f"{tmp_path}/other/t")
    other = {**config(tmp_path, "keys"), "source_url": f"parquet:{tmp_path}/other"}
    for state in (None, first.state):
        with pytest.raises(SettingsError, match=r"t: .*/t holds comparisons of another source"):
            run_tap(other, state=state)
    assert run_tap(config(tmp_path, "rows"), state=first.state).records() == []


def test_a_comparison_of_rows_refuses_a_missing_replication_key_where_asked_to(tmp_path, write):
    settings = config(tmp_path, "rows", replication_key="v", null_replication_key="fail")
    write(rows((1, "a"), (2, None)))
    with pytest.raises(DataError, match="t: 1 rows have no v"):
        run_tap(settings)


def test_a_window_is_read_without_a_comparison(tmp_path, write):
    write(rows((1, "a"), (2, "b")))
    first = run_tap(config(tmp_path, "keys", replication_key="id"))
    write(rows((2, "c"), (3, "d")))
    for mode in ("keys", "rows"):
        settings = {**config(tmp_path, mode, replication_key="id"), "window_start": "2"}
        window = run_tap({**settings, "window_end": "3"}, state=first.state)
        assert told(window) == {2: "c"}
        assert window.state == first.state


def test_an_emptied_table_is_compared_too(tmp_path, write):
    write(rows((1, "a")))
    first = run_tap(config(tmp_path, "rows"))
    write("select * from values (1, 'a') as t(id, v) where id > 1")
    relative = os.path.relpath(tmp_path / "snapshots")
    second = run_tap({**config(tmp_path, "rows"), "snapshot_path": relative}, state=first.state)
    assert told(second) == {1: "gone"}
    third = run_tap(config(tmp_path, "rows"), state=second.state)
    assert third.records() == []


def test_what_cannot_be_compared_is_named(tmp_path, write):
    write(rows((1, "a"), (1, "b")))
    with pytest.raises(SettingsError, match="t: snapshot rows compares by key"):
        run_tap(config(tmp_path, "rows", key_properties=[]))
    with pytest.raises(
        DataError, match=r"t .*one id is the key of several rows; set key_properties"
    ):
        run_tap(config(tmp_path, "rows"))
    with pytest.raises(SettingsError, match="t: snapshot keys needs snapshot_path"):
        run_tap({**config(tmp_path, "keys"), "snapshot_path": None})
    with pytest.raises(SettingsError, match="t: snapshot_every must be a duration"):
        run_tap(config(tmp_path, "keys", snapshot_every="soon"))
    state = {"bookmarks": {"t": {"snapshot": {"version": "20240101T000000000000Z"}}}}
    with pytest.raises(StateError, match=r"t: snapshot 20240101T000000000000Z, .* is not in"):
        run_tap(config(tmp_path, "rows"), state=state)
    with pytest.raises(StateError, match="t: the bookmark's snapshot names no version"):
        run_tap(config(tmp_path, "rows"), state={"bookmarks": {"t": {"snapshot": {}}}})
