"""One run per pipeline: a lock that its holder keeps alive and others may take once it is dead.

Invariant: the lock is only ever written over the version that was seen, so that of many who try
one wins, and a holder that lost it learns so at its next heartbeat.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import final

from singer_spark.errors import SingerSparkError, StateError, TransientError
from singer_spark.state.base import StateStore
from singer_spark.state.documents import key_of
from singer_spark.state.holder import EXPIRY_SECONDS, Holder, new_run_id
from singer_spark.state.objects import ConflictError, Expect, tag_of

BEAT_SECONDS = 30.0
BY_HAND = "by-hand-"  # begins the id of a holder that is no run
ATTEMPTS = 20  # each lost to another who came and went in between


class LockedError(TransientError):
    """Another run of the pipeline is active. Wait for it; it is safe to run again then."""

    def __init__(self, name: str, holder: Holder) -> None:
        self.holder = holder
        super().__init__(
            f"{name} is being run already ({holder}); wait for it to end. "
            f"If it is dead: singer-spark unlock {name}"
        )


class LostLockError(TransientError):
    """The run no longer holds its lock. Another may be active; run again once it has ended."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(
            f"{name}: this run lost its lock ({why}) and was stopped; the stored state is "
            "unchanged. See that only one run is active, then run again"
        )


@final
class RunLock:
    """The lock of one run: acquired once, renewed by a thread, released once."""

    def __init__(self, store: StateStore, name: str, run_id: str) -> None:
        self.name = name
        self.quiet = threading.Lock()  # held while a heartbeat is written; forking is safe within
        self._store, self._documents = store, store.documents
        self._key = key_of(name, "lock")
        self._holder = Holder.here(run_id)
        self._tag: str | Expect | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def held(self) -> bool:
        """Tell whether the lock was acquired and is not known to be lost."""
        return self._tag is not None

    def acquire(self) -> Holder | None:
        """Take the lock or raise LockedError; gives the dead holder it was taken from."""
        for _ in range(ATTEMPTS):
            found, tag = self._look()
            own = found is not None and found.run_id == self._holder.run_id
            if found and not own and not found.is_dead:
                raise LockedError(self.name, found)
            self._holder = self._holder.renewed()
            try:
                self._tag = self._documents.write(self._key, self._holder.to_dict(), tag)
            except ConflictError:
                continue
            return None if own else found
        raise TransientError(f"{self.name}: too many runs want its lock at once; run again")

    def keep(self, on_loss: Callable[[SingerSparkError], None]) -> None:
        """Renew the lock from now on; a loss is told once."""
        self._thread = threading.Thread(target=self._pulse, args=(on_loss,), daemon=True)
        self._thread.start()

    def confirm(self) -> None:
        """Renew the lock now; LostLockError where it is no longer ours."""
        with self.quiet:
            if self._tag is None:
                raise LostLockError(self.name, "it was taken over or ended")
            if not self._renew(self._tag) and not self._renew_own():
                self._tag = None
                raise LostLockError(self.name, "it was taken over or ended")

    def release(self) -> None:
        """End the heartbeat and remove the lock if it is still ours."""
        self._stop.set()
        if self._thread:
            self._thread.join()
        if self._tag is not None:
            tag, self._tag = self._tag, None
            self._documents.objects.delete(self._key, tag)

    def _pulse(self, on_loss: Callable[[SingerSparkError], None]) -> None:
        last = time.monotonic()
        while not self._stop.wait(BEAT_SECONDS):
            try:
                self.confirm()
                last = time.monotonic()
            except LostLockError as error:
                on_loss(error)
                return
            except StateError:
                if time.monotonic() - last > EXPIRY_SECONDS:
                    on_loss(LostLockError(self.name, "the state store is out of reach"))
                    return

    def _renew(self, tag: str | Expect) -> bool:
        self._holder = self._holder.renewed()
        try:
            self._tag = self._documents.write(self._key, self._holder.to_dict(), tag)
        except ConflictError:
            return False
        return True

    def _renew_own(self) -> bool:
        """Try again over a heartbeat of ours whose answer was lost on the way."""
        found, tag = self._look()
        return found is not None and found.run_id == self._holder.run_id and self._renew(tag)

    def _look(self) -> tuple[Holder | None, str | Expect]:
        found, tag = read_lock(self._store, self.name)
        if found is None and tag is not Expect.ABSENT:
            raise StateError(
                f"{self._documents.objects.locate(self._key)} is damaged; if no run is active, "
                f"end it: singer-spark unlock {self.name}"
            )
        return found, tag


def read_lock(store: StateStore, name: str) -> tuple[Holder | None, str | Expect]:
    """Look at a pipeline's lock and its version; the holder of a damaged lock is None."""
    key = key_of(name, "lock")
    stored = store.objects.read(key)
    if stored is None:
        return None, Expect.ABSENT
    try:
        return Holder.from_dict(store.documents.parse(key, stored)), tag_of(stored)
    except (StateError, ValueError):
        return None, tag_of(stored)


def end_lock(store: StateStore, name: str, tag: str | Expect) -> None:
    """Remove the lock that was looked at; a newer one is a ConflictError."""
    store.objects.delete(key_of(name, "lock"), tag)


@contextmanager
def locked(store: StateStore, name: str) -> Iterator[None]:
    """Hold a pipeline's lock for a moment, so that no run is changed under its feet."""
    lock = RunLock(store, name, BY_HAND + new_run_id())
    lock.acquire()
    try:
        yield
    finally:
        lock.release()
