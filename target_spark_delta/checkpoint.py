"""Which STATE has become true: one whose records, of every stream, are all committed."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Held:
    state: bytes
    waits_for: set[int]


@dataclass(slots=True)
class Checkpoints:
    """Holds back each STATE until every segment that was pending when it came is committed.

    STATEs that wait for the same segments become true together, so only the last of them is kept:
    a tap that sends one after every record costs no memory.
    """

    _pending: set[int] = field(default_factory=set)
    _held: deque[_Held] = field(default_factory=deque)

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


def state_of(stream: str, state: bytes | None) -> object:
    """Return what a STATE says of one stream."""
    if state is None:
        return None
    value = json.loads(state)
    bookmarks = value.get("bookmarks") if isinstance(value, dict) else None
    return bookmarks.get(stream) if isinstance(bookmarks, dict) else value


def is_syncing(stream: str, state: bytes | None) -> bool:
    """Say whether a STATE tells that its tap is in the middle of a stream, as older taps do."""
    value = json.loads(state) if state else None
    return isinstance(value, dict) and value.get("currently_syncing") == stream
