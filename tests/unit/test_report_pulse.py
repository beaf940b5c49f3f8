"""Signs of life: no more than one in ten seconds, and none where nothing moves."""

from __future__ import annotations

import time

import pytest

from singer_spark import report as report_module
from singer_spark.report import REPORT_FILE, read_report


@pytest.fixture
def report(tmp_path, monkeypatch):
    monkeypatch.setenv(REPORT_FILE, str(tmp_path / "report"))
    return tmp_path / "report"


def reported(report) -> list[str]:
    return [fact["doing"] for _, fact in read_report(report)] if report.exists() else []


def test_beats_are_reported_at_most_once_in_ten_seconds(report, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    pulse = report_module.Pulse("reading t")
    for _ in range(5):
        pulse.beat()
    assert reported(report) == ["reading t"]
    clock[0] += 10
    pulse.beat()
    assert reported(report) == ["reading t"] * 2


def test_a_folder_that_grows_is_a_sign_and_one_that_stands_still_is_none(
    report, tmp_path, monkeypatch
):
    monkeypatch.setattr(report_module, "INTERVAL_SECONDS", 0.02)
    folder = tmp_path / "files"
    with report_module.watch_folder(folder, "reading t"):
        time.sleep(0.2)
        assert reported(report) == []
        folder.mkdir()
        (folder / "part").write_text("x")
        deadline = time.monotonic() + 20
        while not reported(report) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.2)
        assert reported(report) == ["reading t"]
