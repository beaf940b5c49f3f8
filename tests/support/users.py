"""A stream of users, as most tests of loading need it."""

from __future__ import annotations

from tests.support.singer import record, schema

PROPERTIES = {
    "id": {"type": ["integer", "null"]},
    "name": {"type": ["string", "null"]},
    "qty": {"type": ["integer", "null"]},
}
USERS = schema("users", PROPERTIES, ["id"])
GONE = "2024-05-01T00:00:00.000001+00:00"


def user(id_, name=None, qty=None, **more):
    return record("users", {"id": id_, "name": name, "qty": qty}, **more)


def deletion(id_, **carried):
    return record("users", {"id": id_, "_sdc_deleted_at": GONE, **carried})
