"""Durations as people write them."""

from __future__ import annotations

import re
from typing import Any

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_UNITS = (86_400, 3_600, 60, 1)  # seconds


def parse_duration(text: Any) -> int | None:
    """Turn a duration such as 6h, 90s or 1h30m into seconds; None where it is none."""
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    seconds = sum(int(n or 0) * unit for n, unit in zip(match.groups(), _UNITS, strict=True))
    return seconds or None
