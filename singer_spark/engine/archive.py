"""Archives of classes that Java has loaded and checked before: they make a start faster.

Java itself refuses one of another Java or of other jars. One that was cut or damaged it may not
notice, so the name of each says what is in it.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from singer_spark.engine.java import Java

_KEPT = 6
_KEPT_SECONDS = 30 * 86400
_STILLBORN_SECONDS = 3600
_SAMPLES, _SAMPLE_BYTES = 64, 4096
_NEW, _DONE = ".new", ".jsa"


class Archive(NamedTuple):
    """The archive of one Java and one class path, in a folder of archives."""

    folder: Path
    key: str

    @classmethod
    def of(cls, java: Java, class_path: Sequence[str], folder: Path) -> Archive:
        """Name the archive of a class path."""
        content = "\0".join([java.command, java.version, *map(_stamp, class_path)])
        return cls(folder, hashlib.sha256(content.encode()).hexdigest()[:16])

    @property
    def path(self) -> Path | None:
        """Return the archive, None if there is none; one that was changed is removed."""
        for path in self.folder.glob(f"{self.key}-*{_DONE}"):
            with suppress(OSError):
                if path.name == self._name(path):
                    return path
                path.unlink()
        return None

    def options(self, engine: str) -> list[str]:
        """Return Java's options: to use the archive, or to make one at an orderly end."""
        silent = ["-Xshare:auto", "-Xlog:disable"]
        path = self.path
        if path is not None:
            with suppress(OSError):
                os.utime(path)  # those that are used are kept
            return [f"-XX:SharedArchiveFile={path}", *silent]
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return [f"-XX:ArchiveClassesAtExit={self._made(engine)}", *silent]
        return silent

    def keep(self, engine: str) -> None:
        """Keep the archive that the Java of an engine has made, if it did, and few others."""
        made = self._made(engine)
        with suppress(OSError):
            if made.is_file() and self.path is None:
                made.chmod(0o600)
                with made.open("rb") as file:
                    os.fsync(file.fileno())
                made.replace(self.folder / self._name(made))
        self.drop_made(engine)
        self._prune()

    def drop_made(self, engine: str) -> None:
        """Remove what the Java of an engine has begun to make."""
        with suppress(OSError):
            self._made(engine).unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the archive, which Java did not survive."""
        with suppress(OSError):
            for path in self.folder.glob(f"{self.key}-*{_DONE}"):
                path.unlink(missing_ok=True)

    def _made(self, engine: str) -> Path:
        return self.folder / f"{engine}{_NEW}"

    def _name(self, path: Path) -> str:
        return f"{self.key}-{_digest(path)}{_DONE}"

    def _prune(self) -> None:
        """Remove what was not used for long, beyond a few, and what killed engines began."""
        now = time.time()
        with suppress(OSError):
            known = sorted(
                ((path.stat().st_mtime, path) for path in self.folder.iterdir()), reverse=True
            )
            done = [one for one in known if one[1].suffix != _NEW]
            old = [one for one in done if now - one[0] > _KEPT_SECONDS]
            begun = [one for one in known if one[1].suffix == _NEW]
            stillborn = [one for one in begun if now - one[0] > _STILLBORN_SECONDS]
            for _, path in {*done[_KEPT:], *old, *stillborn}:
                path.unlink(missing_ok=True)


def _digest(path: Path) -> str:
    """Sum up a file by its size and parts of it from everywhere: it has hundreds of megabytes."""
    size = path.stat().st_size
    known = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        for place in range(_SAMPLES):
            file.seek(max(0, size - _SAMPLE_BYTES) * place // (_SAMPLES - 1))
            known.update(file.read(_SAMPLE_BYTES))
    return known.hexdigest()[:16]


def _stamp(jar: str) -> str:
    """Tell a jar from another of the same name, by what Java compares as well."""
    try:
        known = Path(jar).stat()
    except OSError:
        return jar
    return f"{jar} {known.st_size} {known.st_mtime_ns}"
