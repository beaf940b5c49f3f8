"""How far watermarks lie behind a moment, where they are times."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d)?(?:\.(\d{1,9}))?\s?(Z|[+-]\d\d(?::?\d\d)?)?)?"
)


def watermarks(bookmarks: Any, streams: Iterable[str]) -> dict[str, datetime]:
    """Find the watermarks of streams that are times; those of other kinds have no lag."""
    if not isinstance(bookmarks, Mapping):
        return {}
    found = {stream: _latest(bookmarks.get(stream)) for stream in streams}
    return {stream: moment for stream, moment in found.items() if moment}


def lag_seconds(watermark: datetime, moment: datetime) -> float:
    """Tell how far a watermark lies behind; what lies ahead does not lag."""
    return round(max(0.0, (moment - watermark).total_seconds()), 3)


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


def _latest(bookmark: Any) -> datetime | None:
    return max(filter(None, map(parse_time, _values(bookmark))), default=None)


def _values(bookmark: Any) -> Iterator[Any]:
    """List where a watermark can stand: as such, under the SDK's name, or under its column's."""
    if not isinstance(bookmark, Mapping):
        yield bookmark
        return
    if "replication_key_value" not in bookmark:
        yield from bookmark.values()
        return
    value = bookmark["replication_key_value"]
    yield value[0] if isinstance(value, list) and value else value
