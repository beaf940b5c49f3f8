"""Schedules: the five fields of a crontab line, when they are due, and what systemd calls them.

Times are those of this machine, as in a crontab.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from cronsim import CronSim, CronSimError

FIELDS = re.compile(r"[0-9A-Za-z*/,-]+(?: +[0-9A-Za-z*/,-]+){4}")
WORDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
WEEKDAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")


def is_cron(text: str) -> bool:
    """Say whether a text is a schedule that both cron and systemd know."""
    fields = WORDS.get(text, text)
    if not FIELDS.fullmatch(fields) or "L" in _days(fields):
        return False
    try:
        CronSim(fields, datetime(2000, 1, 1))  # noqa: DTZ001, only parsed
    except CronSimError:
        return False
    return True


def last_due(cron: str, moment: datetime) -> datetime:
    """Find the latest time, not after the moment, at which a run was due."""
    # The library gives what lies strictly before.
    after = moment.astimezone() + timedelta(seconds=1)
    return next(CronSim(_fields(cron), after, reverse=True)).astimezone(moment.tzinfo)


def next_due(cron: str, moment: datetime) -> datetime:
    """Find the first time after the moment at which a run is due."""
    return next(CronSim(_fields(cron), moment.astimezone())).astimezone(moment.tzinfo)


def to_calendar(cron: str) -> list[str]:
    """Write a schedule as systemd's OnCalendar lines.

    Where both kinds of days are limited, cron means either of them and systemd both: two lines.
    """
    parsed = CronSim(_fields(cron), datetime(2000, 1, 1))  # noqa: DTZ001, only parsed
    time = f"{_list(parsed.hours, range(24))}:{_list(parsed.minutes, range(60))}:00"
    weekdays = _weekdays({day % 7 for day in parsed.weekdays if isinstance(day, int)})
    months, days = _list(parsed.months, range(1, 13)), _list(parsed.days, range(1, 32))
    if parsed.day_and or not weekdays:
        return [f"{weekdays}*-{months}-{days} {time}"]
    return [f"*-{months}-{days} {time}", f"{weekdays}*-{months}-* {time}"]


def _days(fields: str) -> str:
    """Take the fields of days, in which other programs than cron allow more letters."""
    return (fields.split()[2] + fields.split()[4]).upper()


def _fields(cron: str) -> str:
    return WORDS.get(cron, cron)


def _list(values: set[int], every: Sequence[int]) -> str:
    """Write a set of numbers as briefly as systemd reads it."""
    numbers = sorted(values)
    if numbers == list(every):
        return "*"
    steps = {b - a for a, b in pairwise(numbers)}
    if len(numbers) > 2 and len(steps) == 1 and numbers[-1] + min(steps) > every[-1]:
        return f"{numbers[0]:02}/{min(steps)}"
    return ",".join(f"{number:02}" for number in numbers)


def _weekdays(days: set[int]) -> str:
    if len(days) == len(WEEKDAYS):
        return ""
    return ",".join(WEEKDAYS[day] for day in sorted(days)) + " "
