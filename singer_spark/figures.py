"""Counts, sizes, durations and times as people read them."""

from __future__ import annotations

import re
from datetime import datetime, timezone

UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def tell_seconds(seconds: float) -> str:
    """Tell a duration in the unit that fits: 90 min, 2 h, 4.2 s."""
    for unit, name in UNITS:
        if seconds >= 2 * unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"


NOTHING = "—"
COUNT_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k"))


def tell_number(value: object) -> str:
    """Tell a count briefly; what nobody told is a dash."""
    if not isinstance(value, (int, float)):
        return NOTHING
    for size, unit in COUNT_UNITS:
        if value >= size:
            scale = 1e3 if unit == "k" else size
            return f"{value / scale:.1f}{unit}"
    return f"{value:,.0f}"


def tell_bytes(value: object) -> str:
    """Tell a size in the unit that fits."""
    if not isinstance(value, (int, float)):
        return NOTHING
    for size, unit in ((2**30, "GB"), (2**20, "MB"), (2**10, "kB")):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return f"{value:.0f} B"


def tell_milliseconds(value: object) -> str:
    """Tell a duration."""
    return tell_seconds(value / 1000) if isinstance(value, (int, float)) else NOTHING


def tell_lag(value: object) -> str:
    """Tell how far something lies behind."""
    return tell_seconds(value) if isinstance(value, (int, float)) else NOTHING


def tell_time(value: object) -> str:
    """Tell a moment to the minute."""
    moment = value if isinstance(value, datetime) else parse_time(value)
    return moment.strftime("%Y-%m-%d %H:%M") if moment else NOTHING


def tell_age(value: object, now: datetime) -> str:
    """Tell how long ago something was."""
    moment = parse_time(value)
    if moment is None:
        return NOTHING
    seconds = (now - moment).total_seconds()
    return "just now" if seconds < 60 else f"{_roughly(seconds)} ago"


def tell_until(moment: datetime, now: datetime) -> str:
    """Tell how long something will take to come."""
    return f"in {_roughly((moment - now).total_seconds())}"


def _roughly(seconds: float) -> str:
    for unit, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * unit or unit == 60:
            return f"{seconds / unit:.0f} {name}"
    return ""


TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d)?(?:\.(\d{1,9}))?\s?(Z|[+-]\d\d(?::?\d\d)?)?)?"
)


def parse_time(value: object) -> datetime | None:
    """Read a time as taps write it; one without an offset is in UTC."""
    match = TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    day, minute, second, fraction, offset = match.groups()
    clock = f"{minute or '00:00'}{second or ':00'}.{(fraction or '')[:6].ljust(6, '0')}"
    try:
        return datetime.fromisoformat(f"{day}T{clock}{_zone(offset)}").astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None


def _zone(offset: str | None) -> str:
    if offset in (None, "Z"):
        return "+00:00"
    return f"{offset[:3]}:{offset[3:].lstrip(':') or '00'}"
