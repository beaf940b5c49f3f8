"""One run per pipeline: a lock that its holder keeps alive and others may take once it is dead.

Invariant: the lock is only ever written over the version that was seen, so that of many who try
one wins, and a holder that lost it learns so at its next heartbeat.

No two clocks are compared to decide. A holder that cannot confirm its heartbeat stops itself after
STOP_SECONDS of its own clock; whoever wants a lock that looks dead watches its heartbeat stand
still for WATCH_SECONDS of its own, which is longer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, NamedTuple, final

from singer_spark.assignment import Attempt
from singer_spark.errors import SingerSparkError, StateError, TransientError
from singer_spark.figures import format_duration
from singer_spark.state.generation import Generation, read_generation, write_generation
from singer_spark.state.holder import (
    PACE,
    Holder,
    LockedError,
    LostLockError,
    new_run_id,
    read_lock,
)
from singer_spark.state.store import StateStore, key_of
from singer_spark.storage.objects import ConflictError, Expect, refuse_unconditional

Tell = Callable[[SingerSparkError], None]
Say = Callable[[str], None]
Pause = Callable[[float], None]
BEAT_SECONDS = 30.0 * PACE
STOP_SECONDS = 180.0 * PACE
WATCH_SECONDS = 240.0 * PACE  # beyond STOP_SECONDS by what it takes to end all processes of a run
POLL_SECONDS = 5.0 * PACE
TICK_SECONDS = 1.0 * PACE
BY_HAND = "by-hand-"  # begins the id of a holder that is no run
ATTEMPTS = 20  # each lost to another who came and went in between


class Claims(NamedTuple):
    """What a run has done about tables that a holder before it may still commit to."""

    made: Set[str] = frozenset()  # the streams whose tables it has claimed
    owed: Set[str] = frozenset()  # those whose tables must be claimed, by this run or a later one


@final
class RunLock:
    """The lock of one run: acquired once, renewed by a thread, released once."""

    def __init__(self, store: StateStore, name: str, run_id: str) -> None:
        self.name = name
        self.quiet = threading.Lock()  # held while a heartbeat is written; forking is safe within
        self.claims = False
        self.claimed: tuple[str, ...] = ()  # by runs since the one that is feared
        self.before = Generation()  # what the last holder left
        self._store, self._documents = store, store.documents
        self._key = key_of(name, "lock")
        self._holder = Holder.here(run_id)
        self._tag: str | Expect | None = None
        self._generation_tag: str | Expect = Expect.ABSENT
        self._current: Generation | None = None  # since `begin`
        self._confirmed = 0.0
        self._expired = False
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    @property
    def held(self) -> bool:
        """Tell whether the lock was acquired and is not known, or feared, to be lost."""
        return self._tag is not None and not self._expired

    @property
    def generation(self) -> int | None:
        """The number of this holder, higher than that of every one before it."""
        return self._holder.generation

    def acquire(self, say: Say = lambda _: None, pause: Pause | None = time.sleep) -> Holder | None:
        """Take the lock or raise LockedError; gives the dead holder it was taken from.

        Args:
            say: Is told when a lock that looks dead is watched.
            pause: Waits while it is watched, and may raise; None refuses such a lock at once.
        """
        for _ in range(ATTEMPTS):
            found, tag = self._look()
            own = found is not None and found.run_id == self._holder.run_id
            if found and not own and not found.is_gone:
                if pause is None or found.is_fresh:
                    raise LockedError(self.name, found)
                if not self._watch(found, tag, say, pause):
                    continue
            if not self._holder.run_id.startswith(BY_HAND):
                self._count_on(found)
            if self._renew(tag):
                return None if own else found
        raise TransientError(f"{self.name}: too many runs want its lock at once; run again")

    def begin(self, state: Mapping[str, Any], attempt: Attempt | None = None) -> None:
        """Write the number of this holder down, before anything is started in its name.

        A run that lies aside of the stored state makes no attempt.
        """
        # If this holder dies, nothing is claimed from it.
        known = self._current or replace(
            self.before, number=self.generation or 0, claims=True, claimed=()
        )
        if attempt:
            known = known.with_attempt(state, self._holder.run_id, attempt)
        self._current, tag = known, self._generation_tag
        try:
            self._generation_tag = write_generation(self._store, self.name, known, tag)
        except ConflictError:
            self._tag = None
            raise LostLockError(self.name) from None

    def keep(self, on_loss: Tell) -> None:
        """Renew the lock from now on; a loss is told once."""
        told = threading.Lock()

        def tell(error: SingerSparkError) -> None:
            if told.acquire(blocking=False):
                on_loss(error)

        for work in (self._pulse, self._count_down):
            thread = threading.Thread(target=work, args=(tell,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def confirm(self) -> None:
        """Renew the lock now; LostLockError where it is no longer ours."""
        with self.quiet:
            if self._tag is None or self._expired:
                raise LostLockError(self.name)
            if not self._renew(self._tag) and not self._renew_own():
                self._tag = None
                raise LostLockError(self.name)

    def release(
        self,
        *,
        settle: Callable[[Generation], Generation] = lambda left: left,
        claims: Claims | None = None,
        left_by: Holder | None = None,
    ) -> None:
        """End the heartbeat and remove the lock if it is still ours.

        Args:
            settle: Changes what is left for the next holder, once it is known how this one ended.
            claims: What it has claimed; None where that is unknown, and all is still owed.
            left_by: The dead run that the lock was taken from, if the next run is to know of it.
        """
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self._tag is None:
            return
        if self._current and not self._expired:
            left = self._after_claims(settle(self._current), claims)
            with suppress(ConflictError):
                # The lock goes last: a holder that dies in between has not ended in order.
                write_generation(self._store, self.name, left, self._generation_tag)
        tag, self._tag = self._tag, None
        if left_by:
            self._documents.write(self._key, replace(left_by, is_over=True).to_dict(), tag)
        else:
            self._documents.objects.delete(self._key, tag)

    def _after_claims(self, left: Generation, claims: Claims | None) -> Generation:
        """Note which tables a holder before this one may still commit to."""
        claimed = {*self.claimed, *(claims.made if claims else ())}
        if not self.claims or (claims and not claims.owed - claimed):
            return replace(left, claims=False, claimed=())
        return replace(left, claims=True, claimed=tuple(sorted(claimed)))

    def _watch(self, found: Holder, tag: str | Expect, say: Say, pause: Pause) -> bool:
        """Say whether a heartbeat stands still for longer than its holder may live without one."""
        say(
            f"Watching the lock of {found} for {format_duration(WATCH_SECONDS)}: "
            "it is taken over if its heartbeat stands still"
        )
        # Time asleep does not count: what sleeps on the same machine has had no time to stop.
        until = time.monotonic() + WATCH_SECONDS
        while time.monotonic() < until:
            pause(min(POLL_SECONDS, WATCH_SECONDS))
            now, now_tag = self._look()
            if now is None:
                return False
            if now_tag != tag:
                raise LockedError(self.name, now)
        return True

    def _count_on(self, found: Holder | None) -> None:
        """Choose the number of this holder, and see whether it must claim the tables."""
        self.before, self._generation_tag = read_generation(self._store, self.name)
        # Runs without a lock leave a generation too, but have not tried.
        if self._generation_tag is Expect.ABSENT or not self.before.number:
            refuse_unconditional(self._store.objects, self.name)
        number = self.before.next_number(found.generation if found else None)
        self._holder = replace(self._holder, generation=number)
        was_a_run = found is not None and not found.run_id.startswith(BY_HAND)
        self.claims = self.before.claims or was_a_run
        self.claimed = () if was_a_run else self.before.claimed

    def _pulse(self, tell: Tell) -> None:
        while not self._stop.wait(BEAT_SECONDS):
            try:
                self.confirm()
            except LostLockError as error:
                tell(error)
                return
            except StateError:
                continue  # _count_down knows how long that can be borne

    def _count_down(self, tell: Tell) -> None:
        """Stop the run well before others may take over, however long a heartbeat hangs."""
        while not self._stop.wait(TICK_SECONDS):
            if _clock() - self._confirmed > STOP_SECONDS:
                self._expired = True
                why = f"no heartbeat for {format_duration(STOP_SECONDS)}: "
                why += "the state store is out of reach, or all slept"
                tell(LostLockError(self.name, why))
                return

    def _renew(self, tag: str | Expect) -> bool:
        self._holder = self._holder.renewed()
        sent = _clock()
        try:
            self._tag = self._documents.write(self._key, self._holder.to_dict(), tag)
        except ConflictError:
            return False
        self._confirmed = sent
        return True

    def _renew_own(self) -> bool:
        """Try again over a heartbeat of ours whose answer was lost on the way."""
        found, tag = self._look()
        is_own = found and found.run_id == self._holder.run_id and not found.is_over
        return bool(is_own) and self._renew(tag)

    def _look(self) -> tuple[Holder | None, str | Expect]:
        found, tag = read_lock(self._store, self.name)
        if found is None and tag is not Expect.ABSENT:
            raise StateError(
                f"{self._documents.objects.locate(self._key)} is damaged; if no run is active, "
                f"end it: singer-spark unlock {self.name}"
            )
        return found, tag


def _clock() -> float:
    """Read a clock that counts on while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@contextmanager
def locked(
    store: StateStore, name: str, say: Say = lambda _: None, pause: Pause | None = time.sleep
) -> Iterator[None]:
    """Hold a pipeline's lock for a moment, so that no run is changed under its feet.

    The lock of a run that died is left for the next run, which records that.
    """
    lock = RunLock(store, name, BY_HAND + new_run_id())
    dead = lock.acquire(say, pause)
    was_a_run = dead is not None and not dead.run_id.startswith(BY_HAND)
    try:
        yield
    finally:
        lock.release(left_by=dead if was_a_run else None)
