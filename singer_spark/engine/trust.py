"""Jars are code: they are loaded only as they were fetched, from a cache that is the user's own.

Of the jars that we name ourselves the package knows the content. What other packages resolve to is
noted when they are fetched.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from singer_spark.errors import SettingsError

SUMS = "SHA256SUMS"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def group_key(group: tuple[str, ...]) -> str:
    """Name a set of coordinates, as the package's list of known jars does."""
    return " ".join(group)


@cache
def known_jars() -> Mapping[str, Mapping[str, str]]:
    """Return the SHA-256 of each jar of the sets that we name ourselves."""
    path = Path(__file__).with_name("jars.json")
    known: dict[str, dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
    return known


def trusted_jars(group: tuple[str, ...], folder: Path) -> list[Path]:
    """Return the jars of a set, which are as they were fetched; others in the folder are not used.

    Raises:
        SettingsError: One is missing or was changed.
    """
    expected = known_jars().get(group_key(group)) or read_sums(folder)
    for name, digest in expected.items():
        path = folder / name
        _check_writers(path)
        if sha256(path) != digest:
            raise SettingsError(
                f"the jar {path} is not the one that was published; remove the folder {folder}, "
                "so that it is fetched again, and find out who changed it"
            )
    return [folder / name for name in sorted(expected)]


def is_noted(group: tuple[str, ...], folder: Path) -> bool:
    """Say whether it is known what the jars of a set must be."""
    return group_key(group) in known_jars() or (folder / SUMS).is_file()


def note_sums(folder: Path) -> None:
    """Note what was fetched, and let nobody else change it."""
    jars = sorted(folder.glob("*.jar"))
    for path in jars:
        path.chmod(path.stat().st_mode & ~_OTHERS_WRITE)
    lines = [f"{sha256(path)}  {path.name}\n" for path in jars]
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")
    for path in (folder / SUMS, folder):
        path.chmod(path.stat().st_mode & ~_OTHERS_WRITE)


def read_sums(folder: Path) -> dict[str, str]:
    """Read what `note_sums` noted; names that lead out of the folder are refused."""
    found = {}
    _check_writers(folder / SUMS)
    for line in (folder / SUMS).read_text(encoding="utf-8").splitlines():
        digest, _, name = line.partition("  ")
        if name != Path(name).name or not name.endswith(".jar"):
            raise SettingsError(f"{folder / SUMS} is damaged; remove the folder {folder}")
        found[name] = digest
    return found


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file; empty where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except AttributeError:  # Python 3.10
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def check_cache(*folders: Path) -> None:
    """Refuse folders of code that another user may write to."""
    for folder in folders:
        _check_writers(folder)


def _check_writers(path: Path) -> None:
    try:
        known = path.stat()
    except OSError:
        return
    if known.st_uid not in (os.getuid(), 0):
        raise SettingsError(
            f"{path} holds code that Spark loads, and belongs to another user; set "
            "SINGER_SPARK_CACHE to a folder of your own"
        )
    if known.st_mode & _OTHERS_WRITE:
        raise SettingsError(
            f"{path} holds code that Spark loads, and other users may write to it; run "
            f"chmod -R go-w {path}, or set SINGER_SPARK_CACHE to a folder of your own"
        )
