"""Who holds a pipeline's lock, whether it still lives, and whether it is this run."""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
from typing_extensions import override

from singer_spark.assignment import STATE_URL, Assignment
from singer_spark.errors import StateError, TransientError
from singer_spark.figures import format_duration
from singer_spark.state.store import StateStore, create_state_store, key_of
from singer_spark.storage.objects import Expect, tag_of
from singer_spark.text import one_line

# A clock that runs ahead of ours by less than this is an ordinary one.
SKEW_SECONDS = 30.0


# How much faster than usual locks live, for tests of whole commands.
PACE = float(os.environ.get("SINGER_SPARK_LOCK_PACE") or 1)
EXPIRY_SECONDS = 300.0 * PACE  # without a heartbeat

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The run that holds a lock; `machine` tells whether `pid` can be looked up here."""

    host: str
    pid: int
    run_id: str
    started_at: str
    heartbeat_at: str
    machine: str | None = None
    generation: int | None = None
    is_over: bool = False  # somebody has seen that it is dead, and left its lock for the next run

    @classmethod
    def here(cls, run_id: str) -> Holder:
        """Describe this process."""
        now = _now().isoformat(timespec="milliseconds")
        return cls(
            host=socket.gethostname(),
            pid=os.getpid(),
            run_id=run_id,
            started_at=now,
            heartbeat_at=now,
            machine=_machine(),
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Holder:
        """Read a lock's document; ValueError where it is none."""
        holder = msgspec.convert(values, cls)
        if not is_run_id(holder.run_id):
            raise ValueError("not the id of a run")
        try:
            _seconds_since(holder.started_at), _seconds_since(holder.heartbeat_at)
        except TypeError as error:  # a moment without its zone
            raise ValueError("not a lock") from error
        return holder

    def to_dict(self) -> dict[str, Any]:
        """Give the lock's document."""
        return asdict(self)

    def renewed(self) -> Holder:
        """Give the holder with a heartbeat of now."""
        return replace(self, heartbeat_at=_now().isoformat(timespec="milliseconds"))

    @property
    def is_dead(self) -> bool:
        """Tell that the heartbeat looks old, or that the process is known to be gone.

        Good enough to show; nobody takes a lock by it, for clocks differ.
        """
        return _seconds_since(self.heartbeat_at) > EXPIRY_SECONDS or self.is_gone

    @property
    def is_gone(self) -> bool:
        """Tell that its process ran on this machine and is there no more, or that it was dead."""
        is_here = self.machine is not None and self.machine == _machine()
        return self.is_over or (is_here and not _exists(self.pid))

    @property
    def is_fresh(self) -> bool:
        """Tell that the heartbeat looks like one of a moment ago, neither old nor to come."""
        age = (_now() - datetime.fromisoformat(self.heartbeat_at)).total_seconds()
        return -SKEW_SECONDS <= age <= EXPIRY_SECONDS

    @override
    def __str__(self) -> str:
        moments = (self.started_at, self.heartbeat_at)
        started, beat = (format_duration(round(_seconds_since(one))) for one in moments)
        return (
            f"process {self.pid} on {one_line(self.host)}, run {self.run_id}, "
            f"started {started} ago, last heartbeat {beat} ago"
        )


def is_run_id(value: object) -> bool:
    """Say whether a text can be the id of a run, which names a file of the store."""
    return isinstance(value, str) and _RUN_ID.fullmatch(value) is not None


def new_run_id() -> str:
    """Make a UUID of version 7: ids sort by time, so that the newest runs are found by name."""
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10), "big")
    value = (milliseconds & (1 << 48) - 1) << 80 | random
    value = value & ~(0xF << 76) | 0x7 << 76
    return str(UUID(int=value & ~(0x3 << 62) | 0x2 << 62))


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _seconds_since(moment: str) -> float:
    then = datetime.fromisoformat(moment)
    # Clocks differ a little between machines; nothing has happened in the future.
    return max(0.0, (_now() - then).total_seconds())


def _machine() -> str | None:
    """Name the space in which process ids mean something: this boot, this container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return None


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def confirm_lock(assignment: Assignment) -> None:
    """Look at the lock, right before a change that Delta's own check does not fence.

    A run without a number holds no lock, and nothing is looked at.
    """
    if _holds_lock(assignment) is False:
        raise LostLockError(assignment.pipeline or "")


def is_sole_holder(assignment: Assignment) -> bool:
    """Say whether a run is known to hold its lock, so that no other can have overtaken it."""
    try:
        return _holds_lock(assignment) is True
    except StateError:
        return False


def _holds_lock(assignment: Assignment) -> bool | None:
    """Look at the lock; None where the run has none."""
    url = os.environ.get(STATE_URL)
    if assignment.generation is None or assignment.pipeline is None or not url:
        return None
    holder, _ = read_lock(_open(url), assignment.pipeline)
    found = holder and (holder.run_id, holder.generation)
    return found == (assignment.run_id, assignment.generation)


@lru_cache(maxsize=1)
def _open(url: str) -> StateStore:
    return create_state_store(json.loads(url))


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

    def __init__(self, name: str, why: str = "it was taken over or ended") -> None:
        super().__init__(
            f"{name}: this run lost its lock ({why}) and was stopped; the stored state is "
            f"unchanged; once no other run is active: singer-spark run {name}"
        )


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
