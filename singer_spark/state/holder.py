"""Who holds a pipeline's lock, and whether it still lives. Pure but for a look at /proc."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

from typing_extensions import override

from singer_spark.printable import one_line

# A clock that runs ahead of ours by less than this is an ordinary one.
SKEW_SECONDS = 30.0


def _pace() -> float:
    """Read how much faster than usual locks live, for tests of whole commands."""
    try:
        return float(os.environ.get("SINGER_SPARK_LOCK_PACE") or 1)
    except ValueError:
        return 1.0


PACE = _pace()
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
        try:
            known = {key: values[key] for key in ("host", "run_id", "started_at", "heartbeat_at")}
            more: dict[str, Any] = {key: values.get(key) for key in ("machine", "generation")}
            is_over = bool(values.get("is_over"))
            holder = cls(**known, pid=int(values["pid"]), is_over=is_over, **more)
            if not is_run_id(holder.run_id):
                raise ValueError("not the id of a run")
            _seconds_since(holder.started_at), _seconds_since(holder.heartbeat_at)
        except (KeyError, TypeError) as error:
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
        started, beat = _seconds_since(self.started_at), _seconds_since(self.heartbeat_at)
        return (
            f"process {self.pid} on {one_line(self.host)}, run {self.run_id}, started "
            f"{duration(started)} ago, last heartbeat {duration(beat)} ago"
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


def duration(seconds: float) -> str:
    """Write a duration in its largest unit."""
    for unit, name in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f}{name}"
    return f"{seconds:.0f}s"


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
