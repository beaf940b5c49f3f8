"""What SCHEMA messages say of a read, by runs of the tap on a real database."""

from __future__ import annotations

import pytest

from singer_spark.assignment import RUN_FILE, Assignment
from singer_spark.errors import SettingsError
from tap_spark_source.readers import chunks
from tests.support.derby import STREAM, orders
from tests.support.tap import run_tap


def read_of(output, stream: str = STREAM) -> dict:
    (message,) = output.of("SCHEMA", stream)
    return message["singer_spark"]["read"]


def state_of(value, key: str = "AT") -> dict:
    return {"bookmarks": {STREAM: {"replication_key": key, "replication_key_value": value}}}


def test_every_schema_says_what_was_read(shop):
    assert read_of(run_tap(orders(shop))) == {"rows": "all"}
    assert read_of(run_tap(orders(shop, where="id > 1"))) == {"rows": "some", "why": "where"}
    first = run_tap(orders(shop, replication_key="AT"))
    assert read_of(first) == {"rows": "all"}
    again = run_tap(orders(shop, replication_key="AT", lookback=86400), state=first.state)
    # As bookmarks write values.
    known = {"rows": "range", "column": "AT", "nulls": True, "from": "2024-01-02T00:00:00.000000"}
    below = {"column": "AT", "below": "2024-01-03T00:00:00.000000"}
    assert read_of(again) == {**known, "again": below}


def test_a_start_date_and_a_window_are_written_as_bookmarks_write_values(shop):
    config = {**orders(shop, replication_key="AT"), "start_date": "2024-01-02"}
    assert read_of(run_tap(config))["from"] == "2024-01-02T00:00:00.000000"
    window = {"window_start": "2024-01-01T12:00:00Z", "window_end": "2024-01-03"}
    found = read_of(run_tap({**orders(shop, replication_key="DAY"), **window}))
    assert found == {
        "rows": "range", "column": "DAY", "from": "2024-01-02", "to": "2024-01-03", "nulls": False
    }  # fmt: skip


def test_rows_that_move_while_others_are_read_come_where_a_target_may_replace_them(
    shop, tmp_path, monkeypatch
):
    """A row that is changed leaves its slice for one beyond the highest key of then."""
    plans = []

    def seen(source, plan, **more):
        plans.append(plan)
        return chunks(source, plan, **more)

    monkeypatch.setattr("tap_spark_source.stream.chunks", seen)

    def reads_on(config, **options):
        run_tap(config, **options)
        return plans[-1].reads_on

    state = state_of("2024-01-02T00:00:00")
    by_at = orders(shop, replication_key="AT")
    assert not reads_on(by_at, state=state), "in a plain pipe nobody says that rows are replaced"
    loads = {"load_method": "delete-insert", "range_column": "AT"}
    (tmp_path / "run").write_text(Assignment(run_id="r", loads={"*": loads}).to_json())
    monkeypatch.setenv(RUN_FILE, str(tmp_path / "run"))
    assert reads_on(by_at, state=state)
    assert reads_on(by_at), "the whole"
    assert not reads_on({**by_at, "max_rows": 2}, state=state)


def test_a_stream_with_another_name_says_that_of_its_bookmark(shop):
    output = run_tap({**orders(shop), "stream_maps": {STREAM: {"__alias__": "sales"}}})
    (message,) = output.of("SCHEMA", "sales")
    assert message["singer_spark"] == {"read": {"rows": "all"}, "stream": STREAM}


def test_late_rows_say_their_own_range(shop):
    options = {"replication_key": "AT", "lookback": 86400, "late_stream": True}
    output = run_tap(orders(shop, **options), state=state_of("2024-01-03T00:00:00"))
    known = {"rows": "range", "column": "AT"}
    bookmark = "2024-01-03T00:00:00.000000"
    assert read_of(output) == {**known, "from": bookmark, "nulls": True}
    late = {"from": "2024-01-02T00:00:00.000000", "to": bookmark, "nulls": False}
    assert read_of(output, f"{STREAM}__late") == {**known, **late}


@pytest.mark.parametrize(
    "settings",
    [
        {"stream_maps": {STREAM: {"CODE": None}}},
        {"flattening_enabled": True, "flattening_max_depth": 1},
    ],
)
def test_the_sdks_path_says_it_too(shop, settings):
    config = {**orders(shop, replication_key=["AT", "ID"]), **settings}
    output = run_tap(config, state=state_of(["2024-01-02T00:00:00", 0], ["AT", "ID"]))
    (message,) = output.of("SCHEMA")
    assert message["bookmark_properties"] == ["AT", "ID"]
    known = {"rows": "range", "column": "AT", "nulls": True}
    assert read_of(output) == {**known, "from": "2024-01-02T00:00:00.000000"}
    filtered = {"stream_maps": {STREAM: {"__filter__": "ID > 1"}}}
    assert read_of(run_tap({**config, **filtered}))["rows"] == "some"


@pytest.mark.parametrize(
    ("key", "maps"),
    [
        ('coalesce("AT", current_timestamp)', {}),
        ("AT", {STREAM: {"changed": "AT", "AT": None, "__key_properties__": []}}),
        ("AT", {STREAM: {"ID": "ID", "__else__": None, "__key_properties__": []}}),
    ],
)
def test_without_a_key_the_replication_key_must_arrive(shop, key, maps):
    config = {
        "source_url": shop,
        "tables": ["SHOP.ORDERS" if maps else "SHOP.SOME_ORDERS"],
        "stream_options": {"*": {"replication_key": key}},
        "stream_maps": maps,
    }
    with pytest.raises(SettingsError, match="needs a replication key that arrives as a column"):
        run_tap(config)
    with_key = {"stream_options": {"*": {"replication_key": key, "key_properties": ["ID"]}}}
    kept = {name: {**one, "__key_properties__": ["ID"]} for name, one in maps.items()}
    run_tap({**config, **with_key, "stream_maps": {name: dict(one) for name, one in kept.items()}})


def test_a_limited_read_retires_nothing(shop, caplog):
    config = {**orders(shop, where="id < 3"), "emit_activate_version_messages": True}
    output = run_tap(config)
    assert output.of("ACTIVATE_VERSION") == []
    assert output.of("RECORD")[0]["version"]
    warnings = [line for line in caplog.messages if "no ACTIVATE_VERSION" in line]
    assert warnings == [
        f"{STREAM}: no ACTIVATE_VERSION is written, because the read is limited by where; rows "
        "that are gone at the source stay in the target"
    ]
    # Runs that end at max_rows are one load of one version.
    small = {**orders(shop), "emit_activate_version_messages": True, "max_rows": 3}
    first = run_tap(small)
    assert first.of("ACTIVATE_VERSION") == []
    rest = run_tap(small, state=first.state)
    versions = {message["version"] for message in [*first.of("RECORD"), *rest.of("RECORD")]}
    assert [message["version"] for message in rest.of("ACTIVATE_VERSION")] == [*versions]
