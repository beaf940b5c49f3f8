"""State where Meltano keeps it: `STATE_ID/state.json`, written as Meltano does and under its lock.

A pipeline's name is Meltano's state id. What is ours alone (meta, checkpoint, runs, the lock of a
run) lies under `.singer-spark/STATE_ID/`, which Meltano neither reads nor clears. Meltano does not
know our lock, but a state that it changed during a run is not overwritten.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, final

from singer_spark import exact_json
from singer_spark.errors import StateError
from singer_spark.storage.objects import ConflictError, Expect, ObjectStore, Stored, tag_of

OURS = ".singer-spark"
LOCK_SECONDS = 10.0  # Meltano's own default; an older lock is dead
WAIT_SECONDS = 30.0
POLL_SECONDS = 0.1


@final
class MeltanoObjects:
    """The objects of another store, laid out as Meltano's state backends do."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self.place = objects.place  # as Meltano's state_backend.uri names it

    def locate(self, key: str) -> str:
        """Name one object."""
        return self._objects.locate(key if _is_state(key) else _ours(key))

    def read(self, key: str) -> Stored | None:
        """Read one object; of a state what Meltano would hand to a tap."""
        if not _is_state(key):
            return self._objects.read(_ours(key))
        found = self._objects.read(key)
        if found is not None and _parse(found.body) is None:
            # Meltano writes in place: what cannot be read may be half written.
            self._wait_for_meltano(key)
            found = self._objects.read(key)
        return None if found is None else Stored(_unwrapped(found.body), found.etag)

    def write(self, key: str, body: bytes, expected: str | Expect) -> str:
        """Write one object over the expected version."""
        if not _is_state(key):
            return self._objects.write(_ours(key), body, expected)
        wrapped = {"completed": {"singer_state": exact_json.loads(body)}, "partial": {}}
        with self._locked_as_meltano(key):
            return self._objects.write(key, exact_json.dumps(wrapped).encode(), expected)

    def delete(self, key: str, expected: str | Expect = Expect.ANYTHING) -> None:
        """Delete one object of the expected version."""
        if not _is_state(key):
            self._objects.delete(_ours(key), expected)
        elif self._objects.read(key) is not None:
            with self._locked_as_meltano(key):
                self._objects.delete(key, expected)

    def list(self, folder: str) -> list[str]:
        """List what is Meltano's and what is ours as one."""
        ours = self._objects.list(f"{OURS}/{folder}".rstrip("/"))
        theirs = self._objects.list(folder)
        if folder:
            theirs = [name for name in theirs if name == "state.json"]
        return sorted({name for name in (*ours, *theirs) if name != f"{OURS}/"})

    @contextmanager
    def _locked_as_meltano(self, key: str) -> Iterator[None]:
        """Hold the lock that Meltano holds while it writes a state."""
        lock = _lock_of(key)
        until = time.monotonic() + WAIT_SECONDS
        while True:
            found = self._wait_for_meltano(key)
            with suppress(ConflictError):
                held = self._objects.write(lock, str(time.time()).encode(), tag_of(found))
                break
            if time.monotonic() > until:
                raise StateError(
                    f"{self._objects.locate(lock)}: too many want Meltano's lock; run again"
                )
        try:
            yield
        finally:
            # One that we held for too long is another's by now.
            with suppress(ConflictError):
                self._objects.delete(lock, held)

    def _wait_for_meltano(self, key: str) -> Stored | None:
        """Wait until nobody holds Meltano's lock; gives the dead lock that is still there."""
        until = time.monotonic() + WAIT_SECONDS
        while True:
            found = self._objects.read(_lock_of(key))
            if found is None or time.time() - _locked_at(found.body) > LOCK_SECONDS:
                return found
            if time.monotonic() > until:
                where = self._objects.locate(_lock_of(key))
                raise StateError(
                    f"{where}: Meltano keeps changing this state; run again, or delete this lock "
                    "if no Meltano is active"
                )
            time.sleep(POLL_SECONDS)


def _is_state(key: str) -> bool:
    return key.endswith("/state.json") and key.count("/") == 1


def _ours(key: str) -> str:
    return f"{OURS}/{key}"


def _lock_of(key: str) -> str:
    return key.removesuffix("state.json") + "lock"


def _locked_at(body: bytes) -> float:
    """Read the moment a lock was made; one that is being written is new."""
    try:
        return float(body)
    except ValueError:
        return time.time()


def _parse(body: bytes) -> dict[str, Any] | None:
    try:
        value = exact_json.loads(body)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _unwrapped(body: bytes) -> bytes:
    """Take the Singer state out of Meltano's document; out of anything else, nothing readable."""
    document = _parse(body)
    if document is None or (document and not document.keys() & {"completed", "partial"}):
        return b""
    partial, completed = (document.get(key) or {} for key in ("partial", "completed"))
    if not isinstance(partial, dict) or not isinstance(completed, dict):
        return b""
    return exact_json.dumps(_merged(partial, completed).get("singer_state") or {}).encode()


def _merged(source: dict[str, Any], into: dict[str, Any]) -> dict[str, Any]:
    """Lay a partial state over a completed one, at every depth, as Meltano does."""
    result = dict(into)
    for key, value in source.items():
        below = result.get(key)
        if isinstance(value, dict):
            value = _merged(value, below if isinstance(below, dict) else {})
        result[key] = value
    return result
