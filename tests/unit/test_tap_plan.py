"""The plan of a read, decided without Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from singer_spark.errors import SettingsError, SourceError, StateError
from tap_spark_source.plan.read_plan import plan_read
from tap_spark_source.plan.replication import Replication, plan_replication, read_catalog
from tap_spark_source.plan.table import Column, Table
from tap_spark_source.settings import Settings

COLUMNS = {
    "id": "bigint",
    "at": "timestamp",
    "price": "decimal(10,2)",
    "f": "double",
    "n": "string",
}
TABLE = Table(
    stream="s-t",
    schema="s",
    name="t",
    columns=tuple(Column(name=name, datatype=kind, schema={}) for name, kind in COLUMNS.items()),
    keys=("id",),
)


def settings(**config) -> Settings:
    return Settings.from_config({"source_url": "jdbc:derby:x", **config})


def entry(metadata: dict | None = None, **fields):
    document = {"tap_stream_id": "s-t", "schema": {}, **fields}
    if metadata is not None:
        document["metadata"] = [{"breadcrumb": [], "metadata": metadata}]
    return read_catalog({"streams": [document]})["s-t"]


def replication(config: dict | None = None, given=None) -> Replication:
    return plan_replication("s-t", settings(**(config or {})), columns=COLUMNS, entry=given)


def read(*, key=None, bookmark=None, keys=("id",), selected=lambda _: True, method=None, **config):
    method = method or ("INCREMENTAL" if key else "FULL_TABLE")
    return plan_read(
        TABLE,
        settings(**config),
        replication=Replication(method=method, key=(key,) if key else ()),
        key_properties=keys,
        is_selected=selected,
        bookmark=bookmark or {},
    )


OPTIONS = {"stream_options": {"s-*": {"replication_key": "id"}}}
DEFAULTS = {"default_replication_method": "INCREMENTAL", "default_replication_key": "at"}


@pytest.mark.parametrize(
    ("config", "given", "expected"),
    [
        ({}, None, ("FULL_TABLE", None)),
        (DEFAULTS, None, ("INCREMENTAL", "at")),
        ({**DEFAULTS, "default_replication_key": "nope"}, None, ("FULL_TABLE", None)),
        ({**DEFAULTS, **OPTIONS}, None, ("INCREMENTAL", "id")),
        (OPTIONS, entry(replication_key="at"), ("INCREMENTAL", "at")),
        (OPTIONS, entry(replication_method="FULL_TABLE"), ("FULL_TABLE", None)),
        (OPTIONS, entry({"replication-method": "FULL_TABLE"}), ("FULL_TABLE", None)),
        (
            {},
            entry(
                {"replication-method": "INCREMENTAL", "replication-key": "id"},
                replication_method="FULL_TABLE",
                replication_key="at",
            ),
            ("INCREMENTAL", "id"),
        ),
        (OPTIONS, entry({"replication-method": "INCREMENTAL"}), ("INCREMENTAL", "id")),
        (
            {"stream_options": {"s-t": {"replication_method": "FULL_TABLE"}}, **DEFAULTS},
            None,
            ("FULL_TABLE", None),
        ),
    ],
)
def test_metadata_beats_fields_beat_options_beat_defaults(config, given, expected):
    found = replication(config, given)
    assert (found.method, found.name) == expected


def test_reading_the_catalog_does_not_deselect_a_stream_without_metadata():
    given = entry()
    replication({}, given)
    assert given.metadata == {}


def test_incremental_without_any_key_is_refused():
    with pytest.raises(SettingsError, match="s-t: INCREMENTAL needs"):
        replication({}, entry({"replication-method": "INCREMENTAL"}))


def test_an_unknown_method_is_refused():
    with pytest.raises(SettingsError, match="LOG_BASED"):
        replication({}, entry({"replication-method": "LOG_BASED"}))


def test_only_selected_columns_are_read_but_keys_always():
    plan = read(key="at", selected=lambda name: name == "n")
    assert [column.name for column in plan.columns] == ["id", "at", "n"]


def test_a_key_that_is_no_column_is_named():
    with pytest.raises(SourceError, match=r"s-t: replication key nope is no column of s\.t"):
        read(key="nope")
    with pytest.raises(SourceError, match="no column pk"):
        read(keys=("pk",))


def test_a_double_is_no_replication_key():
    with pytest.raises(SettingsError, match="f of type double"):
        read(key="f")


def test_a_bookmark_of_the_same_key_is_the_start():
    plan = read(key="id", bookmark={"replication_key": "id", "replication_key_value": 7})
    assert (plan.window.start, plan.window.from_bookmark) == ((7,), True)


def test_a_bookmark_of_another_key_is_no_start():
    plan = read(key="id", bookmark={"replication_key": "at", "replication_key_value": "2024"})
    assert (plan.window.start, plan.window.from_bookmark) == (None, False)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", "7"),
        ("id", 7.5),
        ("id", True),
        ("at", 5),
        ("at", "now"),
        ("price", True),
        ("price", {}),
        ("n", 1),
    ],
)
def test_a_bookmark_of_another_type_is_a_state_error(key, value):
    with pytest.raises(StateError, match=f"s-t: the bookmark is no .* {key} is") as caught:
        read(key=key, bookmark={"replication_key": key, "replication_key_value": value})
    assert caught.value.exit_code == 74


def test_start_date_is_for_time_keys_and_start_value_for_any():
    start = {"start_date": "2024-01-01T00:00:00Z"}
    assert read(key="at", **start).window.start == ("2024-01-01T00:00:00Z",)
    assert read(key="id", **start).window.start is None
    options = {"stream_options": {"*": {"start_value": 100}}}
    assert read(key="id", **start, **options).window.start == (100,)
    bookmark = {"replication_key": "id", "replication_key_value": 7}
    assert read(key="id", bookmark=bookmark, **options).window.start == (7,)


def test_the_options_of_a_stream_win_over_the_general_ones():
    options = {"lookback": 0, "null_replication_key": "fail", "where": "x > 1"}
    plan = read(key="id", lookback=9, stream_options={"s-t": options})
    assert plan.window.lookback == 0
    assert plan.window.null_keys == "fail"
    assert plan.where == "x > 1"
    unset = {"s-t": {"lookback": None}}
    for others in ({}, {"stream_options": unset}):
        found = read(key="id", lookback=9, **others)
        assert (found.window.lookback, found.lookback) == (9, 9)


@pytest.mark.parametrize(("key", "value"), [("id", "7"), ("at", "yesterday")])
def test_a_start_value_of_another_type_is_a_settings_error(key, value):
    with pytest.raises(SettingsError, match="s-t: start_value or start_date is no"):
        read(key=key, stream_options={"*": {"start_value": value}})


@pytest.mark.parametrize(
    ("method", "options", "problem"),
    [
        ("LOG_BASED", {"sample": 0.5}, "sample draws other rows in each run"),
        ("FULL_TABLE", {"sample": 0.5, "snapshot": "keys"}, "sample draws other rows in each run"),
        ("LOG_BASED", {"deleted_flag": "id"}, "deleted_flag does not go with LOG_BASED"),
    ],
)
def test_options_that_would_tell_changes_that_are_none_are_refused(method, options, problem):
    with pytest.raises(SettingsError, match=f"s-t: {problem}"):
        read(method=method, stream_options={"s-t": options}, snapshot_path="/x")


def test_the_whole_table_is_cut_along_its_key_whatever_the_replication_key():
    by_time = read(key="at")
    assert (by_time.key.name, by_time.whole_key.name) == ("at", "id")
    log = read(method="LOG_BASED", keys=("n", "price"))
    assert log.key.name == ["n", "price"]
    assert read(method="LOG_BASED", keys=("f",)).key is None


def test_what_its_source_sorts_otherwise_than_it_compares_is_no_key():
    odd = Column(name="kind", datatype="string", schema={}, has_order=False)
    table = replace(TABLE, columns=(*TABLE.columns, odd), keys=("kind",))
    options = {"key_properties": ("kind",), "is_selected": lambda _: True, "bookmark": {}}
    by_kind = Replication(method="INCREMENTAL", key=("kind",))
    with pytest.raises(SettingsError, match=r"s-t: .* use an expression such as cast\(kind as"):
        plan_read(table, settings(), replication=by_kind, **options)
    assert plan_read(table, settings(), replication=Replication(), **options).key is None


def test_a_topic_needs_no_snapshot():
    config = {"source_url": "kafka:h:1", "snapshot_path": "/x"}
    config["stream_options"] = {"*": {"snapshot": "keys"}}
    with pytest.raises(SettingsError, match="s-t: a topic tells deletions itself; remove snapshot"):
        read(method="LOG_BASED", **config)


def test_the_lookback_holds_for_new_files():
    options = {"replication_method": "INCREMENTAL", "new_files": True, "lookback": 60}
    found = read(method="INCREMENTAL", source_url="csv:/x", stream_options={"*": options})
    assert (found.new_files, found.lookback) == (True, 60)


NEW_FILES = {"source_url": "csv:/x", "stream_options": {"*": {"new_files": True}}}


@pytest.mark.parametrize("defaults", [DEFAULTS, {"default_replication_key": "f"}])
def test_new_files_stand_in_the_place_of_a_default_key(defaults):
    assert replication({**NEW_FILES, **defaults}) == Replication(method="INCREMENTAL", key=())


def test_new_files_beside_a_key_of_the_catalog_are_refused():
    with pytest.raises(SettingsError, match=r"s-t: new_files .* place of a replication key in the"):
        replication(NEW_FILES, entry({"replication-key": "at"}))
    full = entry({"replication-key": "at", "replication-method": "FULL_TABLE"})
    assert replication(NEW_FILES, full).method == "FULL_TABLE"
