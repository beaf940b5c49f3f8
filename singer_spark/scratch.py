"""Private folders of a process, which the next one removes where their owner was killed.

The owner holds a lock on the file `.owner` for as long as it lives. The kernel ends the lock with
the process, however it dies, so whoever gets the lock has proof that nobody uses the folder.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

_OWNER = ".owner"
# Open as long as the process lives: closing one would end its lock.
_held: dict[Path, int] = {}


def make_scratch(prefix: str, parent: str | os.PathLike[str] | None = None) -> Path:
    """Make a folder that only this user can enter; it goes with the process.

    Args:
        prefix: How its name begins, which tells whose it is: `target-spark-delta-`.
        parent: Where it is made; the system's temporary folder if None.
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


def remove_scratch(folder: Path) -> None:
    """Remove a folder of this process, if it is still there."""
    descriptor = _held.pop(folder, None)
    if descriptor is not None:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def sweep(prefix: str, parent: str | os.PathLike[str] | None = None) -> list[Path]:
    """Remove the folders of this user whose owner is dead, and return them."""
    root = Path(parent or tempfile.gettempdir())
    swept = []
    with suppress(OSError):
        for folder in root.glob(f"{prefix}*"):
            if folder.is_dir() and not folder.is_symlink() and _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)
                swept.append(folder)
    return swept


def _is_abandoned(folder: Path) -> bool:
    """Say whether nobody lives who made a folder; one without an owner's file is left alone."""
    try:
        if folder.stat().st_uid != os.getuid():
            return False
        descriptor = os.open(folder / _OWNER, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)
