"""The number of a pipeline's holder, which grows with each run, and what its last runs left.

`PIPELINE/generation.json` outlives the lock. It is written by the holder of the lock alone: before
the first process of a run starts, and again when the run ends. A holder that is killed, paused or
unlocked by hand does not get to the second write, so its successor knows that it may still live.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from singer_spark import digits
from singer_spark.errors import StateError
from singer_spark.state.base import StateStore
from singer_spark.state.documents import NewerSchemaError, key_of
from singer_spark.state.objects import Expect, tag_of

FILE = "generation.json"
ATTEMPTS_KEPT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """What the last holder of a pipeline's lock left.

    Args:
        number: Its number.
        claims: Whether the next holder must claim the tables, because this one, or one before it,
            has not ended in order and may still commit.
        base: The digest of the stored state that `attempts` began from.
        attempts: The runs that began from that state and have not succeeded, each with the streams
            that it read afresh.
    """

    number: int = 0
    claims: bool = False
    base: str | None = None
    attempts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def next_number(self, *others: int | None) -> int:
        """Count on; a store that was lost starts above every number that tables may know."""
        return max(int(time.time()), *((one or 0) + 1 for one in (self.number, *others)))

    def with_attempt(self, base: str, run_id: str, fresh: tuple[str, ...]) -> Generation:
        """Add a run that begins from the stored state."""
        known = dict(self.attempts) if self.base == base else {}
        kept = dict([*known.items(), (run_id, fresh)][-ATTEMPTS_KEPT:])
        return replace(self, base=base, attempts=kept)

    def without_attempts(self) -> Generation:
        """Forget the runs that failed: the state has moved on, or someone has set it."""
        return replace(self, base=None, attempts={})

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        attempts = {run_id: list(fresh) for run_id, fresh in self.attempts.items()}
        return {
            "generation": self.number,
            "claims": self.claims,
            "base": self.base,
            "attempts": attempts,
        }


def read_generation(store: StateStore, name: str) -> tuple[Generation, str | Expect]:
    """Read what the last holder left, and its version.

    What is damaged tells nothing, so the worst is assumed: that a holder may still commit.
    """
    key = key_of(name, FILE)
    stored = store.objects.read(key)
    if stored is None:
        return Generation(), Expect.ABSENT
    try:
        return _parse(store.documents.parse_own(key, stored)), tag_of(stored)
    except NewerSchemaError:
        raise
    except (StateError, AttributeError, KeyError, TypeError, ValueError):
        return Generation(claims=True), tag_of(stored)


def write_generation(
    store: StateStore, name: str, generation: Generation, expected: str | Expect
) -> str:
    """Write it over the expected version; only the holder of the lock may."""
    return store.documents.write_own(key_of(name, FILE), generation.to_dict(), expected)


def forget_attempts(store: StateStore, name: str) -> None:
    """Make the commits of failed runs useless as a start, for the state is set by hand."""
    known, tag = read_generation(store, name)
    if known.attempts:
        write_generation(store, name, known.without_attempts(), tag)


def digest(state: Mapping[str, Any]) -> str:
    """Name a state by its content, digit by digit."""
    return sha256(digits.canonical(state).encode()).hexdigest()


def _parse(values: Mapping[str, Any]) -> Generation:
    return Generation(
        number=int(values["generation"]),
        claims=bool(values["claims"]),
        base=values.get("base"),
        attempts={
            run_id: tuple(map(str, fresh))
            for run_id, fresh in dict(values.get("attempts") or {}).items()
        },
    )
