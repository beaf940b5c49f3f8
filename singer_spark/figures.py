"""Counts, sizes, durations and times, written for people; durations and taps' times, read."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Any

NOTHING = "-"  # where nobody has counted
COUNTS = ((1e12, "T"), (1e9, "G"), (1e6, "M"))
SIZES = ((2**30, " GB"), (2**20, " MB"), (2**10, " kB"))
DURATIONS = ((86_400, " d"), (3_600, " h"), (60, " min"))
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_UNITS = (86_400, 3_600, 60, 1)  # seconds
TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d)?(?:\.(\d{1,9}))?\s?(Z|[+-]\d\d(?::?\d\d)?)?)?"
)


def format_count(value: object) -> str:
    """Write a count: all of it below ten million, else the millions and so on."""
    if not isinstance(value, (int, float)):
        return NOTHING
    for size, unit in COUNTS:
        if value >= 10 * size:
            return f"{value / size:.1f}{unit}"
    return f"{value:,.0f}"


def format_bytes(value: object) -> str:
    """Write a size in the unit that fits."""
    if not isinstance(value, (int, float)):
        return NOTHING
    for size, unit in SIZES:
        if value >= size:
            return f"{value / size:.1f}{unit}"
    return f"{value:.0f} B"


def format_duration(seconds: object) -> str:
    """Write a duration in the unit that fits: 90 min, 2 h, 4.2 s."""
    if not isinstance(seconds, (int, float)):
        return NOTHING
    for size, unit in DURATIONS:
        if seconds >= 2 * size:
            return f"{seconds / size:.3g}{unit}"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"


def parse_duration(text: Any) -> int | None:
    """Turn a duration such as 6h, 90s or 1h30m into seconds; None where it is none."""
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    seconds = sum(int(n or 0) * unit for n, unit in zip(match.groups(), _UNITS, strict=True))
    return seconds or None


def format_milliseconds(value: object) -> str:
    """Write a duration that was measured in milliseconds."""
    return format_duration(value / 1000 if isinstance(value, (int, float)) else None)


def format_time(value: object) -> str:
    """Write a moment to the minute, in UTC."""
    moment = value if isinstance(value, datetime) else parse_time(value)
    return f"{moment.astimezone(timezone.utc):%Y-%m-%d %H:%M}" if moment else NOTHING


def format_distance(moment: datetime | None, now: datetime) -> str:
    """Write how long ago something was, or how soon it will be."""
    if moment is None:
        return NOTHING
    seconds = (now - moment).total_seconds()
    away = abs(seconds)
    size, unit = next((one for one in DURATIONS if away >= 2 * one[0]), DURATIONS[-1])
    told = f"{away / size:.0f}{unit}"
    if seconds < 0:
        return f"in {told}"
    return "just now" if seconds < DURATIONS[-1][0] else f"{told} ago"


def parse_time(value: object) -> datetime | None:
    """Read a time as taps write it; one without an offset is in UTC."""
    match = TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    day, minute, second, fraction, offset = match.groups()
    clock = f"{minute or '00:00'}{second or ':00'}.{(fraction or '')[:6].ljust(6, '0')}"
    zone = "+00:00" if offset in (None, "Z") else f"{offset[:3]}:{offset[3:].lstrip(':') or '00'}"
    try:
        return datetime.fromisoformat(f"{day}T{clock}{zone}").astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None
