"""Numbers and times as the page says them."""

from __future__ import annotations

from datetime import datetime

from singer_spark.health.lag import parse_time
from singer_spark.health.words import tell_seconds

NOTHING = "—"
UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k"))


def tell_number(value: object) -> str:
    """Tell a count briefly; what nobody told is a dash."""
    if not isinstance(value, (int, float)):
        return NOTHING
    for size, unit in UNITS:
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
