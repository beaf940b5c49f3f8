"""The tap on a real database: windows, slices and bookmarks."""

from __future__ import annotations

import logging

import pytest

from singer_spark.errors import DataError, StateError
from tests.support.derby import STREAM, orders
from tests.support.tap import discover, run_tap


@pytest.fixture
def url(shop):
    return shop


def state_of(key: str, value) -> dict:
    bookmark = {"replication_key": key, "replication_key_value": value}
    return {"bookmarks": {STREAM: bookmark}}


def ids(output) -> list[int]:
    return sorted(record["ID"] for record in output.records(STREAM))


def test_a_first_incremental_run_reads_all_and_bookmarks_the_highest_key(url):
    output = run_tap(orders(url, replication_key="AT"))
    assert ids(output) == [1, 2, 3, 4]
    assert output.position["bookmarks"][STREAM] == {
        "replication_key": "AT",
        "replication_key_value": "2024-01-03T00:00:00.000000",
    }
    assert output.of("SCHEMA")[0]["bookmark_properties"] == ["AT"]


@pytest.mark.parametrize(
    ("key", "value", "next_value"),
    [
        ("AT", "2024-01-02T00:00:00.123456", "2024-01-03T00:00:00.000000"),
        ("ID", 2, 4),
        ("PRICE", "2.00", "3.00"),
        ("DAY", "2024-01-02", "2024-01-03"),
        ("CODE", "b", "c"),
    ],
)
def test_the_window_begins_at_the_bookmark_inclusively(url, key, value, next_value):
    options = {"replication_key": key, "null_replication_key": "exclude"}
    output = run_tap(orders(url, **options), state=state_of(key, value))
    assert ids(output) == ([2, 3, 4] if key == "ID" else [2, 3])
    assert output.bookmark(STREAM)["replication_key_value"] == next_value


def test_rows_without_a_key_are_read_in_every_run_unless_excluded(url):
    state = state_of("AT", "2024-01-03T00:00:00")
    assert ids(run_tap(orders(url, replication_key="AT"), state=state)) == [3, 4]
    options = {"replication_key": "AT", "null_replication_key": "exclude"}
    assert ids(run_tap(orders(url, **options), state=state)) == [3]


def test_rows_without_a_key_can_be_an_error(url):
    options = {"replication_key": "AT", "null_replication_key": "fail"}
    with pytest.raises(DataError, match="SHOP-ORDERS: 1 rows have no AT"):
        run_tap(orders(url, **options))


@pytest.mark.parametrize(
    ("key", "value", "lookback"),
    [
        ("AT", "2024-01-03T00:00:00", 86400),
        ("ID", 3, 1),
        ("PRICE", "3.00", 1.0),
        ("DAY", "2024-01-03", 86400),
    ],
)
def test_lookback_widens_the_query_and_never_the_bookmark(url, key, value, lookback):
    options = {"replication_key": key, "lookback": lookback, "null_replication_key": "exclude"}
    output = run_tap(orders(url, **options), state=state_of(key, value))
    assert ids(output)[:2] == [2, 3]
    again = run_tap(orders(url, **options), state=output.state)
    assert again.state == output.state


def test_a_bookmark_ahead_of_the_source_stays_and_is_warned_of(url, caplog):
    state = state_of("AT", "2030-01-01T00:00:00.000000")
    options = {"replication_key": "AT", "null_replication_key": "exclude"}
    with caplog.at_level(logging.WARNING):
        output = run_tap(orders(url, **options), state=state)
    assert ids(output) == []
    assert output.position == state
    assert "ahead of the source" in caplog.text


def test_an_empty_window_keeps_the_bookmark(url):
    state = state_of("ID", 4)
    options = {"replication_key": "ID", "where": "id > 100"}
    output = run_tap(orders(url, **options), state=state)
    assert ids(output) == []
    assert output.position == state


def test_a_bookmark_with_an_offset_is_the_same_instant(url):
    options = {"replication_key": "AT", "null_replication_key": "exclude"}
    output = run_tap(orders(url, **options), state=state_of("AT", "2024-01-03T05:00:00+05:00"))
    assert ids(output) == [3]


def test_start_date_and_start_value_begin_the_first_run(url):
    options = {"replication_key": "AT", "null_replication_key": "exclude"}
    config = {**orders(url, **options), "start_date": "2024-01-02T00:00:00Z"}
    assert ids(run_tap(config)) == [2, 3]
    assert ids(run_tap(orders(url, replication_key="ID", start_value=3))) == [3, 4]


def test_another_replication_key_starts_afresh(url, caplog):
    with caplog.at_level(logging.INFO):
        output = run_tap(orders(url, replication_key="ID"), state=state_of("AT", "2024-01-03"))
    assert ids(output) == [1, 2, 3, 4]
    assert output.position["bookmarks"][STREAM] == {
        "replication_key": "ID",
        "replication_key_value": 4,
    }
    assert "the replication key was AT and is now ID" in caplog.text


def test_a_bookmark_that_is_no_time_is_a_state_error(url):
    with pytest.raises(StateError, match="SHOP-ORDERS: the bookmark is no timestamp_ntz"):
        run_tap(orders(url, replication_key="AT"), state=state_of("AT", "yesterday"))


def test_the_where_of_a_stream_limits_records_and_bookmark(url):
    output = run_tap(orders(url, replication_key="ID", where="id <= 2"))
    assert ids(output) == [1, 2]
    assert output.bookmark(STREAM)["replication_key_value"] == 2


def test_what_else_the_state_holds_survives(url):
    state = {"top": {"x": 1}, "bookmarks": {"other": {"lsn": 5}, STREAM: {"extra": 1}}}
    output = run_tap(orders(url, replication_key="ID"), state=state)
    bookmark = {"extra": 1, "replication_key": "ID", "replication_key_value": 4}
    assert output.position == {
        "top": {"x": 1},
        "bookmarks": {"other": {"lsn": 5}, STREAM: bookmark},
    }


def test_null_bookmarks_are_an_empty_state(url):
    output = run_tap(orders(url), state={"bookmarks": None})
    assert output.state == {"bookmarks": {STREAM: {}}}


def test_a_state_follows_every_stream_even_if_nothing_changed(url):
    first = run_tap(orders(url, replication_key="ID"))
    again = run_tap(orders(url, replication_key="ID"), state=first.state)
    assert again.kinds == ["STATE", "SCHEMA", "RECORD", "STATE"]
    assert again.state == first.state


@pytest.mark.parametrize("table", ["KINDS", "ORDERS"])
def test_slices_end_and_go_on_at_a_key(url, table):
    config = {"source_url": url, "tables": [f"SHOP.{table}"], "slice_rows": 1, "num_partitions": 2}
    whole = run_tap(config)
    first, *_ = whole.of("STATE")
    rest = run_tap(config, state=first["value"])
    assert len(rest.records()) == len(whole.records()) - 1
    assert rest.bookmark(f"SHOP-{table}") == {}


def test_a_list_is_a_key_also_by_way_of_the_catalog(url):
    config = {**orders(url, replication_key=["AT", "ID"]), "slice_rows": 1}
    catalog = discover(config)
    output = run_tap({"source_url": url, "slice_rows": 1}, catalog=catalog)
    assert ids(output) == [1, 2, 3, 4]
    assert output.position["bookmarks"][STREAM] == {
        "replication_key": ["AT", "ID"],
        "replication_key_value": ["2024-01-03T00:00:00.000000", 3],
    }
    again = run_tap({"source_url": url}, catalog=catalog, state=output.state)
    assert ids(again) == [3, 4]


def test_a_window_on_days_takes_them_by_their_first_moment(url, caplog):
    def days(start: str, end: str) -> list[int]:
        window = {"window_start": start, "window_end": end}
        return ids(run_tap({**orders(url, replication_key="DAY"), **window}))

    assert days("2024-01-01T12:00:00Z", "2024-01-02T12:00:00Z") == [2]
    assert days("2024-01-02", "2024-01-03") == [2]
    assert days("2024-01-02T08:00:00Z", "2024-01-02T12:00:00Z") == []
    assert "SHOP-ORDERS: left out, because no date lies between" in caplog.text
