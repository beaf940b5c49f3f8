"""Settings that have no effect are told, and those that have one are not."""

from __future__ import annotations

import re

import pytest

from tap_spark_source.plan.read_plan import plan_read
from tap_spark_source.plan.replication import plan_replication
from tap_spark_source.plan.table import Column, Table
from tap_spark_source.plan.warnings import setting_warnings
from tap_spark_source.settings import Settings

KINDS = {"id": "bigint", "at": "timestamp", "code": "string"}
COLUMNS = tuple(Column(name=name, datatype=kind, schema={}) for name, kind in KINDS.items())
TABLE = Table(stream="t", name="t", columns=COLUMNS, keys=("id",))
START = "2024-01-01T00:00:00Z"


def told(options: dict, *, bookmark: dict | None = None, **config) -> str:
    settings = Settings.from_config(
        {
            "source_url": "delta:/x",
            "snapshot_path": "/snapshots",
            "stream_options": {"t": options},
            **config,
        }
    )
    plan = plan_read(
        TABLE,
        settings,
        replication=plan_replication("t", settings, columns=KINDS),
        key_properties=("id",),
        is_selected=lambda _: True,
        bookmark=bookmark or {},
    )
    return " ".join(setting_warnings(plan, settings))


def test_a_text_has_no_distances_and_is_no_time():
    assert "lookback has no effect: replication key code" in told(
        {"replication_key": "code"}, lookback=60
    )
    assert "start_date has no effect" in told({"replication_key": "code"}, start_date=START)
    for name in ("at", "id"):
        assert told({"replication_key": name, "lookback": 60}) == ""
    assert told({"replication_key": "at"}, start_date=START) == ""
    assert told({"replication_key": "code", "start_value": "b"}, start_date=START) == ""
    begun = {"replication_key": "code", "replication_key_value": "b"}
    assert told({"replication_key": "code"}, bookmark=begun, start_date=START) == ""


def test_a_comparison_leaves_nothing_out():
    by_time = {"replication_key": "at", "snapshot": "rows"}
    no_start = "start_value and start_date have no effect"
    assert no_start in told(by_time, start_date=START)
    assert no_start in told({**by_time, "start_value": START})
    assert "exclude has no effect" in told({**by_time, "null_replication_key": "exclude"})
    keys = {**by_time, "snapshot": "keys"}
    assert "tells the deletion of rows that were never told" in told(keys, start_date=START)
    assert told(keys) == told(by_time) == ""


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"snapshot_every": "6h"}, "snapshot_every has no effect without snapshot"),
        ({"replication_key": "at", "late_stream": True}, "late_stream has no effect"),
        ({"replication_method": "LOG_BASED", "lookback": 60}, "lookback without effect"),
        ({"start_value": 5}, "start_value without effect: .* \\(FULL_TABLE\\)"),
    ],
)
def test_options_without_what_they_belong_to_are_told(options, word):
    assert re.search(word, told(options))


def test_options_that_work_and_windows_are_silent():
    assert told({"snapshot": "keys", "snapshot_every": "6h"}) == ""
    late = {"replication_key": "at", "late_stream": True, "lookback": 60}
    assert told(late) == ""
    assert told({"replication_key": "code", "lookback": 60}, window_start="a") == ""
    files = {"new_files": True, "lookback": 60}
    assert told(files, source_url="csv:/x") == ""
