"""State in a folder: a temporary file, synced, then renamed into place."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from singer_spark.errors import StateError
from singer_spark.storage.objects import ConflictError, Expect, Located, Stored, tag_of

WAIT_SECONDS = 30.0  # well below what a heartbeat may take
POLL_SECONDS = 0.01


class FolderObjects(Located):
    """Objects as files under a root; names with a leading dot are ours and never listed."""

    def __init__(self, root: Path) -> None:
        self.root, self.place = root, str(root)

    def read(self, key: str) -> Stored | None:
        """Read one file."""
        with self._explained():
            return _read(self._inside(self.root / key))

    def write(self, key: str, body: bytes, expected: str | Expect) -> str:
        """Replace one file, if it still is what the writer expects."""
        path = self.root / key
        with self._explained():
            self._inside(path.parent)
            _make_folder(path.parent)
            with self._locked():
                found = _read(path)
                if expected is not Expect.ANYTHING and expected != tag_of(found):
                    raise ConflictError(self.locate(key))
                replace_file(path, body)
        return hashlib.sha256(body).hexdigest()

    def delete(self, key: str, expected: str | Expect = Expect.ANYTHING) -> None:
        """Remove one file, if it still is what is expected."""
        path = self.root / key
        with self._explained():
            if not path.exists():
                return
            self._inside(path.parent)
            with self._locked():
                if expected not in (Expect.ANYTHING, tag_of(_read(path))):
                    raise ConflictError(self.locate(key))
                path.unlink(missing_ok=True)
                _sync(path.parent)

    def list(self, folder: str) -> list[str]:
        """List a folder; one that does not exist is empty, and an empty one is not listed."""
        path = self.root / folder
        with self._explained():
            if not path.exists():
                return []
            self._inside(path)
            return [
                entry.name + "/" * entry.is_dir()
                for entry in _visible(path)
                if not entry.is_dir() or any(_visible(entry))
            ]

    def _inside(self, path: Path) -> Path:
        """Refuse a link that leads out of the store, whoever may have put it there."""
        if not path.resolve().is_relative_to(self.root.resolve()):
            raise StateError(f"{path} is a link that leads out of the state store; remove it")
        return path

    @contextmanager
    def _locked(self) -> Iterator[None]:
        # Comparing and renaming are two steps; the lock makes them one among our own writers.
        path = self.root / ".write.lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            _take(descriptor, path)
            yield
        finally:
            os.close(descriptor)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StateError(
                f"{error.filename or self.root}: {error.strerror or error}; "
                "check that it is a folder that this user may write to"
            ) from error


def _take(descriptor: int, path: Path) -> None:
    """Take the lock of a file, which others hold for moments, unless one of them was stopped."""
    until = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise StateError(
                    f"{path} has been held for {WAIT_SECONDS:g} seconds by a process that may be "
                    f"stopped; find it, and let it go on or end it: lsof {path}"
                ) from None
            time.sleep(POLL_SECONDS)
        else:
            return


def _visible(folder: Path) -> Iterator[Path]:
    return (entry for entry in folder.iterdir() if not entry.name.startswith("."))


def _read(path: Path) -> Stored | None:
    try:
        body = path.read_bytes()
    except FileNotFoundError:
        return None
    return Stored(body, hashlib.sha256(body).hexdigest())


def replace_file(path: Path, body: bytes) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        # Not mkstemp: its 0600 would shut out the group that shares the folder.
        with temporary.open("xb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def _make_folder(path: Path) -> None:
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        _sync(folder.parent)


def _sync(folder: Path) -> None:
    """Make a rename or a removal in the folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
