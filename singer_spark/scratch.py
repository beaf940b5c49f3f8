"""Private folders of a process, which the next one removes where their owner was killed.

The owner holds a lock on the file `.owner` for as long as it lives. The kernel ends the lock with
the process, however it dies, so whoever gets the lock has proof that nobody uses the folder.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

RUN, JVM, DEMO = "singer-spark-run-", "singer-spark-jvm-", "singer-spark-demo-"
TAP, TARGET = "tap-spark-source-", "target-spark-delta-"
# Whatever a run makes in a temporary folder.
OURS = (RUN, JVM, DEMO, TAP, TARGET)
_OWNER = ".owner"
_STILLBORN_SECONDS = 3600
_LOOK_SECONDS = 0.05
# Open as long as the process lives: closing one would end its lock.
_held: dict[Path, int] = {}


def make_scratch(prefix: str, parent: str | os.PathLike[str] | None = None) -> Path:
    """Make a folder that only this user can enter; it goes with the process.

    The prefix tells whose it is. Without a parent it is made in the system's temporary folder.
    """
    sweep(prefix, parent)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        descriptor = os.open(folder / _OWNER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            break
        os.close(descriptor)  # swept by another process before it had its lock
    _held[folder] = descriptor
    atexit.register(remove_scratch, folder)
    return folder


def owner_of(folder: Path) -> int:
    """Return the descriptor that holds a folder of this process; a child that inherits it holds on.

    The folder then counts as used until both are dead.
    """
    return _held[folder]


def await_owner(folder: Path, seconds: float) -> bool:
    """Wait until nobody holds a folder any more; say whether that came to be in time."""
    deadline = time.monotonic() + seconds
    while folder.exists():
        descriptor = _lock_of_dead(folder)
        if descriptor is not None:
            os.close(descriptor)
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def remove_scratch(folder: Path) -> None:
    """Remove a folder of this process, if it is still there."""
    descriptor = _held.pop(folder, None)
    if descriptor is not None:
        _remove(folder)
        os.close(descriptor)


def leave_scratch(folder: Path) -> None:
    """Leave a folder of this process to whoever finds it after the process has ended."""
    _held.pop(folder, None)


def folders_of_dead(prefix: str, parent: Path) -> Iterator[Path]:
    """Yield the folders whose owner is dead, each for this process alone, and remove it then."""
    for folder in sorted(parent.glob(f"{prefix}*")):
        descriptor = _lock_of_dead(folder)
        if descriptor is not None:
            try:
                yield folder
                _remove(folder)
            finally:
                os.close(descriptor)


def sweep(
    prefixes: str | tuple[str, ...], parent: str | os.PathLike[str] | None = None
) -> list[Path]:
    """Remove the folders of this user whose owner is dead, and return them."""
    swept = []
    with suppress(OSError, RuntimeError):  # nobody's home
        root = Path(parent or tempfile.gettempdir()).expanduser()
        for folder in [one for one in root.iterdir() if one.name.startswith(prefixes)]:
            descriptor = _lock_of_dead(folder)
            if descriptor is not None:
                # Locked meanwhile: whoever makes a folder must not take this one for its own.
                _remove(folder)
                os.close(descriptor)
                swept.append(folder)
    return swept


def _lock_of_dead(folder: Path) -> int | None:
    """Take the lock of a folder whose owner is dead; one without an owner's file is left alone."""
    try:
        if not _is_ours(folder.lstat()):
            return None
        descriptor = os.open(folder / _OWNER, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        _remove_stillborn(folder)
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _is_ours(known: os.stat_result) -> bool:
    return stat.S_ISDIR(known.st_mode) and known.st_uid == os.getuid()


def _remove(folder: Path) -> None:
    """Remove a folder, the owner's file last: what is left half-way is swept another time."""
    for entry in _entries(folder):
        if entry.name == _OWNER:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            with suppress(OSError):
                entry.unlink()
    # A process that the owner started may write for some moments more than its owner lived.
    if all(entry.name == _OWNER for entry in _entries(folder)):
        shutil.rmtree(folder, ignore_errors=True)


def _remove_stillborn(folder: Path) -> None:
    """Remove an empty folder, made long ago by a process that died before it could own it."""
    with suppress(OSError):
        known = folder.lstat()
        if time.time() - known.st_mtime > _STILLBORN_SECONDS and _is_ours(known):
            folder.rmdir()


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
