"""Which STATE is true: one whose records, of every stream, are all committed."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Set
from dataclasses import dataclass, field
from typing import Any

from singer_spark import exact_json
from singer_spark.protocol import is_unfinished


@dataclass(frozen=True, slots=True)
class Received:
    """A STATE as it came."""

    value: bytes  # its value, which is passed on unchanged
    line: int  # its line of the input
    waits_for: Set[int] = frozenset()  # the segments whose records had come, and were not committed


@dataclass(slots=True)
class _Held:
    state: bytes
    waits_for: set[int]


@dataclass(slots=True)
class States:
    """Holds back each STATE until every segment that was pending when it came is committed.

    What counts as a segment, such as a version to activate, is pending like one. STATEs that wait
    for the same segments become true together, so only the last of them is kept: a tap that sends
    one after every record costs no memory.
    """

    newest: Received | None = None
    _pending: dict[int, str] = field(default_factory=dict)
    _held: deque[_Held] = field(default_factory=deque)

    def begin(self, segment: int, stream: str) -> None:
        """Note a segment of a stream that has records which are not yet committed."""
        self._pending[segment] = stream

    def take(self, state: bytes, line: int) -> Received | None:
        """Take a STATE that came after everything begun so far; return the one before."""
        before, self.newest = self.newest, Received(state, line, frozenset(self._pending))
        if self._held and self._held[-1].waits_for == self._pending.keys():
            self._held[-1].state = state
        else:
            self._held.append(_Held(state, set(self._pending)))
        return before

    def commit(self, segment: int) -> None:
        """Note that a segment's records are in a committed version."""
        self._pending.pop(segment, None)
        for held in self._held:
            held.waits_for.discard(segment)

    def release(self) -> bytes | None:
        """Return the newest STATE that has become true since the last call, if any."""
        released = None
        while self._held and not self._held[0].waits_for:
            released = self._held.popleft().state
        return released

    def shows_end(self, stream: str, line: int) -> bool:
        """Say whether the newest STATE came at a line or later, and tells that a stream is done."""
        if self.newest is None or self.newest.line < line:
            return False
        state = self.newest.value
        return not (is_unfinished(state_of(stream, state)) or is_syncing(stream, state))

    def rests_on(self, stream: str, state: Received | None) -> Collection[int]:
        """Return what must be committed of other streams before a commit may carry a STATE.

        What came before it of the stream itself is, or the commit is not made.
        """
        if state is None or names_streams(state.value):
            return ()
        return {one for one in state.waits_for if self._pending.get(one, stream) != stream}


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


def is_syncing(stream: str, state: bytes) -> bool:
    """Say whether a STATE tells that its tap is in the middle of a stream, as older taps do."""
    value = exact_json.loads(state)
    return isinstance(value, dict) and value.get("currently_syncing") == stream
