"""The number of a pipeline's holder, which grows with each run, and what its last runs left.

`PIPELINE/generation.json` outlives the lock. It is written by the holder of the lock alone: before
the first process of a run starts, and again when the run ends. A holder that is killed, paused or
unlocked by hand does not get to the second write, so its successor knows that it may still live.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Any

import msgspec

from singer_spark import exact_json
from singer_spark.assignment import Attempt
from singer_spark.state.store import Checkpoint, DamagedError, StateStore, key_of
from singer_spark.storage.objects import Expect, tag_of

FILE = "generation.json"
ATTEMPTS_KEPT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """What the last holder of a pipeline's lock left."""

    number: int = 0  # its number
    # Whether the next holder must claim the tables, because this one, or one before it, has not
    # ended in order and may still commit.
    claims: bool = False
    claimed: tuple[str, ...] = ()  # the streams whose tables need not be claimed any more
    base: str | None = None  # the digest of the stored state that there was during `attempts`
    # The runs that have not succeeded since that state was stored.
    attempts: Mapping[str, Attempt] = field(default_factory=dict)

    def next_number(self, *others: int | None) -> int:
        """Count on; a store that was lost starts above every number that tables may know."""
        return max(int(time.time()), *((one or 0) + 1 for one in (self.number, *others)))

    def outnumbered(self) -> Generation:
        """Let the next holder begin far above this one; a clock may have run ahead by decades."""
        return replace(self, number=2 * self.number)

    def attempts_from(self, state: Mapping[str, Any]) -> Mapping[str, Attempt]:
        """Return the runs that have not succeeded since a state was stored."""
        return self.attempts if self.base == digest(state) else {}

    def with_attempt(self, state: Mapping[str, Any], run_id: str, attempt: Attempt) -> Generation:
        """Add a run, or what became known of it; `state` is the stored one."""
        known = {**self.attempts_from(state), run_id: attempt}
        kept = dict([*known.items()][-ATTEMPTS_KEPT:])
        return replace(self, base=digest(state), attempts=kept)

    def without_attempt(self, run_id: str) -> Generation:
        """Forget a run that has committed nothing."""
        kept = {one: attempt for one, attempt in self.attempts.items() if one != run_id}
        return replace(self, attempts=kept) if kept else self.without_attempts()

    def after_success(
        self, run_id: str, state: Mapping[str, Any], unread: Collection[str]
    ) -> Generation:
        """Forget the runs before one that has succeeded, but for streams that it did not read."""
        kept = {
            one: replace(attempt, owes=owes)
            for one, attempt in self.attempts.items()
            if one != run_id and (owes := tuple(filter(attempt.counts_for, sorted(unread))))
        }
        return replace(self, base=digest(state) if kept else None, attempts=kept)

    def without_attempts(self) -> Generation:
        """Forget the runs that failed: the state has moved on, or someone has set it."""
        return replace(self, base=None, attempts={})

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        values = asdict(self)
        return {"generation": values.pop("number"), **values}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Generation:
        """Read what `to_dict` wrote; ValueError where it is something else."""
        needed = {"number": values.get("generation"), "claims": values.get("claims")}
        return msgspec.convert({**values, **needed}, cls)


def read_generation(store: StateStore, name: str) -> tuple[Generation, str | Expect]:
    """Read what the last holder left, and its version; what is damaged is refused."""
    key = key_of(name, FILE)
    stored = store.objects.read(key)
    if stored is None:
        return Generation(), Expect.ABSENT
    try:
        return Generation.from_dict(store.documents.parse_own(key, stored)), tag_of(stored)
    except ValueError:
        store.documents.refuse(key)


def write_generation(
    store: StateStore, name: str, generation: Generation, expected: str | Expect
) -> str:
    """Write it over the expected version; only the holder of the lock may."""
    return store.documents.write_own(key_of(name, FILE), generation.to_dict(), expected)


def change_generation(
    store: StateStore, name: str, change: Callable[[Generation], Generation]
) -> None:
    """Change what the last holder left; where there is a lock, only its holder may."""
    known, tag = read_generation(store, name)
    changed = change(known)
    if changed != known:
        write_generation(store, name, changed, tag)


def has_attempts(store: StateStore, name: str) -> bool:
    """Say whether there are runs that have not succeeded since the state was stored."""
    return bool(read_generation(store, name)[0].attempts)


def forget_attempts(store: StateStore, name: str) -> None:
    """Make the commits of failed runs useless as a start, for the state is set by hand.

    Of what is damaged the rest is assumed to be the worst: that a holder may still commit.
    """
    try:
        change_generation(store, name, Generation.without_attempts)
    except DamagedError:
        write_generation(store, name, Generation(claims=True), Expect.ANYTHING)


def settle_attempts(
    store: StateStore,
    name: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    streams: Iterable[str],
) -> None:
    """Make them useless for some streams, whose bookmarks are set by hand."""

    def settled(known: Generation) -> Generation:
        attempts = {
            run_id: replace(one, settled=tuple({*one.settled, *streams}))
            for run_id, one in known.attempts_from(before).items()
        }
        return replace(known, base=digest(after) if attempts else None, attempts=attempts)

    change_generation(store, name, settled)


def accept_attempts(store: StateStore, name: str) -> None:
    """Let the commits of failed runs belong to whatever source the next run finds."""

    def accepted(known: Generation) -> Generation:
        attempts = {run_id: replace(one, source=None) for run_id, one in known.attempts.items()}
        return replace(known, attempts=attempts)

    change_generation(store, name, accepted)


def read_failed(store: StateStore, name: str, state: Mapping[str, Any]) -> Checkpoint | None:
    """Read how far a failed run got; one that led on from another state counts no more."""
    failed = store.read_checkpoint(name)
    return failed if failed and failed.base in (None, digest(state)) else None


def digest(state: Mapping[str, Any]) -> str:
    """Name a state by its content, digit by digit."""
    return sha256(exact_json.canonical(state).encode()).hexdigest()
