"""The nine-column rows that everything is measured on."""

from __future__ import annotations

import json
from pathlib import Path

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
TABLE = """
create table orders as
select n as id, 'customer ' || n % 1000 as customer, (n % 1000000 / 100.0)::numeric(20,2) as amount,
  (n % 50)::int as qty, n % 2 = 0 as ok,
  timestamptz '2024-01-01 00:00:00.123456+00' + n * interval '1 second' as created_at,
  'some note text ' || n as note, date '2024-01-01' + (n % 365)::int as day,
  n / 7.0::float8 as ratio
from generate_series(1, {rows}) n
"""


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


def write_messages(path: Path, rows: int) -> Path:
    """Write a stream of so many records, with a STATE after every 100,000."""
    with path.open("w") as file:
        file.write(json.dumps(SCHEMA) + "\n")
        for n in range(rows):
            file.write(line(n))
            if n % 100_000 == 99_999:
                bookmark = {"bookmarks": {"orders": {"replication_key_value": n}}}
                file.write(json.dumps({"type": "STATE", "value": bookmark}) + "\n")
    return path
