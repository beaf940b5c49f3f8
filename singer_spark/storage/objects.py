"""The seam of the state backends: bytes under keys, written atomically and conditionally."""

from __future__ import annotations

from contextlib import suppress
from enum import Enum
from typing import NamedTuple, Protocol
from uuid import uuid4

from singer_spark.errors import StateError


class Expect(Enum):
    """What a write expects to find, where that is not one known version."""

    ABSENT = "absent"
    ANYTHING = "anything"


class Stored(NamedTuple):
    """The bytes under a key and the tag of that version."""

    body: bytes
    etag: str


def tag_of(stored: Stored | None) -> str | Expect:
    """Say what a writer expects to find again."""
    return Expect.ABSENT if stored is None else stored.etag


class ConflictError(StateError):
    """Another writer came first."""

    def __init__(self, place: str) -> None:
        super().__init__(
            f"{place} was changed by someone else since it was read; nothing was overwritten; "
            "see that no other run is active, then run again: singer-spark status"
        )


class ObjectStore(Protocol):
    """Bytes under keys such as `orders/state.json`; every write is atomic."""

    @property
    def place(self) -> str:
        """Name the store in messages, without secrets."""

    def locate(self, key: str) -> str:
        """Name one object in messages."""

    def read(self, key: str) -> Stored | None:
        """Read one object; None where there is none."""

    def write(self, key: str, body: bytes, expected: str | Expect) -> str:
        """Write one object over the expected version and return the new tag."""

    def delete(self, key: str, expected: str | Expect = Expect.ANYTHING) -> None:
        """Delete one object of the expected version; a missing one is no error."""

    def list(self, folder: str) -> list[str]:
        """List the names directly in a folder ('' is the top); folders end with '/'."""


class Located:
    """What is called in messages by the name of its place."""

    place: str

    def locate(self, key: str) -> str:
        """Name one object."""
        return f"{self.place}/{key}"


def resolve_lost_race(objects: ObjectStore, key: str, body: bytes) -> str:
    """Look whether a write that lost a race lost it to itself, and give its tag then.

    A put whose answer was lost is repeated by the client and meets its own success.
    """
    found = objects.read(key)
    if found is not None and found.body == body:
        return found.etag
    raise ConflictError(objects.locate(key))


def refuse_unconditional(objects: ObjectStore, folder: str) -> None:
    """Try two writes that must fail, on an object of our own: else two runs start together."""
    key = f"{folder}/probe-{uuid4().hex}"
    first = objects.write(key, b'{"try": 1}', Expect.ABSENT)
    try:
        objects.write(key, b'{"try": 2}', first)
        stale: tuple[str | Expect, ...] = (Expect.ABSENT, first)
        for number, expected in enumerate(stale):
            with suppress(ConflictError):
                objects.write(key, b'{"refuse": %d}' % number, expected)
                raise StateError(
                    f"{objects.place} ignores the conditions of writes, so nothing would keep two "
                    "runs apart; keep the state elsewhere, or set lock: none and start one run at "
                    f"a time, then: singer-spark check {folder}"
                )
    finally:
        with suppress(StateError):
            objects.delete(key)


def refuse_another_version(objects: ObjectStore, key: str, expected: str | Expect) -> None:
    """Look before a delete, where the server knows no condition; state never relies on it."""
    found = None if expected is Expect.ANYTHING else objects.read(key)
    if found is not None and found.etag != expected:
        raise ConflictError(objects.locate(key))
