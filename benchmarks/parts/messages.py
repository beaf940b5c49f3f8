"""The nine-column rows as a stream of messages."""

from __future__ import annotations

PROPERTIES = {
    "id": {"type": "integer"},
    "customer": {"type": ["string", "null"]},
    "amount": {"type": ["number", "null"], "multipleOf": 0.01},
    "qty": {"type": ["integer", "null"]},
    "ok": {"type": ["boolean", "null"]},
    "created_at": {"type": ["string", "null"], "format": "date-time"},
    "note": {"type": ["string", "null"]},
    "day": {"type": ["string", "null"], "format": "date"},
    "ratio": {"type": ["number", "null"]},
}
SCHEMA = {
    "type": "SCHEMA",
    "stream": "orders",
    "schema": {"type": "object", "properties": PROPERTIES},
    "key_properties": ["id"],
}
RECORD = (
    '{{"type": "RECORD", "stream": "orders", "record": {{"id": {n}, "customer": "customer {c}", '
    '"amount": {a}.{cents:02d}, "qty": {q}, "ok": {ok}, "created_at": '
    '"2024-01-{day:02d}T10:{minute:02d}:{minute:02d}.123456+00:00", "note": "some note text {n}", '
    '"day": "2024-03-{day:02d}", "ratio": 0.{n}}}, '
    '"time_extracted": "2024-01-01T00:00:00.000000+00:00"}}\n'
)


def line(n: int) -> str:
    """Return the message of one row."""
    return RECORD.format(
        n=n,
        c=n % 1000,
        a=n % 10_000,
        cents=n % 100,
        q=n % 50,
        ok="true" if n % 2 else "false",
        day=n % 28 + 1,
        minute=n % 60,
    )
