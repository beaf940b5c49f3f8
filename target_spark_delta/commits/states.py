"""Which STATE has become true: one whose records, of every stream, are all committed."""

from __future__ import annotations

from collections import deque
from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any

from singer_spark import exact_json


@dataclass(frozen=True, slots=True)
class Received:
    """A STATE as it came.

    Args:
        value: Its value, which is passed on unchanged.
        line: Its line of the input.
        waits_for: The segments whose records had come, and were not committed.
    """

    value: bytes
    line: int
    waits_for: Set[int] = frozenset()


@dataclass(slots=True)
class _Held:
    state: bytes
    waits_for: set[int]


@dataclass(slots=True)
class States:
    """Holds back each STATE until every segment that was pending when it came is committed.

    STATEs that wait for the same segments become true together, so only the last of them is kept:
    a tap that sends one after every record costs no memory.
    """

    _pending: set[int] = field(default_factory=set)
    _held: deque[_Held] = field(default_factory=deque)

    @property
    def pending(self) -> Set[int]:
        """Return the segments whose records are not yet committed."""
        return self._pending

    def begin(self, segment: int) -> None:
        """Note a segment that has records which are not yet committed."""
        self._pending.add(segment)

    def hold(self, state: bytes) -> None:
        """Take a STATE that came after everything begun so far."""
        if self._held and self._held[-1].waits_for == self._pending:
            self._held[-1].state = state
        else:
            self._held.append(_Held(state, set(self._pending)))

    def commit(self, segment: int) -> None:
        """Note that a segment's records are in a committed version."""
        self._pending.discard(segment)
        for held in self._held:
            held.waits_for.discard(segment)

    def release(self) -> bytes | None:
        """Return the newest STATE that has become true since the last call, if any."""
        released = None
        while self._held and not self._held[0].waits_for:
            released = self._held.popleft().state
        return released


def state_of(stream: str, state: bytes | None) -> Any:
    """Return what a STATE says of one stream."""
    if state is None:
        return None
    value = exact_json.loads(state)
    bookmarks = value.get("bookmarks") if isinstance(value, dict) else None
    return bookmarks.get(stream) if isinstance(bookmarks, dict) else value


def names_streams(state: bytes) -> bool:
    """Say whether a STATE has a bookmark for each stream, so that one can be true before others."""
    if b"bookmarks" not in state:
        return False
    value = exact_json.loads(state)
    return isinstance(value, dict) and isinstance(value.get("bookmarks"), dict)


def is_syncing(stream: str, state: bytes | None) -> bool:
    """Say whether a STATE tells that its tap is in the middle of a stream, as older taps do."""
    value = exact_json.loads(state) if state else None
    return isinstance(value, dict) and value.get("currently_syncing") == stream
