"""Schedules: what is one, when it is due, and the same for systemd."""

from __future__ import annotations

import shutil
import subprocess
from datetime import datetime, timezone

import pytest

from singer_spark.pipeline.cron import is_cron, last_due, next_due, to_calendar

NOON = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)  # a Saturday
CALENDARS = [
    ("*/15 * * * *", ["*-*-* *:00/15:00"]),
    ("0 4 * * *", ["*-*-* 04:00:00"]),
    ("30 8-10 * * MON-FRI", ["Mon,Tue,Wed,Thu,Fri *-*-* 08,09,10:30:00"]),
    ("5 0 * 8 *", ["*-08-* 00:05:00"]),
    ("0 0 1,15 * *", ["*-*-01,15 00:00:00"]),
    ("0 0 13 * 5", ["*-*-13 00:00:00", "Fri *-*-* 00:00:00"]),
    ("0 22 * * 0,7", ["Sun *-*-* 22:00:00"]),
    ("0 22 * * 5-7", ["Sun,Fri,Sat *-*-* 22:00:00"]),
    ("*/7 */6 * * *", ["*-*-* 00/6:00/7:00"]),
    ("10-20/5 3 * * *", ["*-*-* 03:10,15,20:00"]),
    ("@hourly", ["*-*-* *:00:00"]),
    ("@weekly", ["Sun *-*-* 00:00:00"]),
    ("@monthly", ["*-*-01 00:00:00"]),
]


@pytest.mark.parametrize(
    "text",
    ["* * * *", "61 * * * *", "* * * * MOON", "@reboot", "@every 5m", "0 0 L * *", "0 0 * * 5L",
     "0 0 * * * *", "", "0 0 30 2 *"],
)  # fmt: skip
def test_what_cron_does_not_know_is_refused(text):
    assert not is_cron(text)


@pytest.mark.parametrize(("cron", "lines"), CALENDARS)
def test_systemd_gets_the_same_times(cron, lines):
    assert is_cron(cron)
    assert to_calendar(cron) == lines


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not here")
@pytest.mark.parametrize(("cron", "lines"), CALENDARS)
def test_systemd_understands_them_and_agrees_on_the_next_time(cron, lines):
    nexts = []
    for line in lines:
        command = ["systemd-analyze", "calendar", "--base-time=2026-01-31 12:00:00 UTC", line]
        done = subprocess.run(command, capture_output=True, text=True, check=False,
                              env={"TZ": "UTC", "LANG": "C"})  # fmt: skip
        assert done.returncode == 0, done.stderr
        (told,) = [text for text in done.stdout.splitlines() if "Next elapse:" in text]
        nexts.append(told.split()[3:5])
    assert min(nexts) == f"{next_due(cron, NOON):%Y-%m-%d %H:%M:%S}".split()


def test_a_time_that_is_due_now_is_the_last_and_not_the_next():
    assert last_due("0 * * * *", NOON) == NOON
    assert next_due("0 * * * *", NOON).hour == 13
    assert last_due("@daily", NOON).hour == 0
