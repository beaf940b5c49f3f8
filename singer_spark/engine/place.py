"""Where engines are found: a folder of the user that nobody else can enter.

It does not depend on TMPDIR or the working folder, so that two processes find the same one.
"""

from __future__ import annotations

import os
import re
import socket
import stat
from contextlib import suppress
from pathlib import Path

from singer_spark.engine.jars import cache_folder
from singer_spark.errors import SettingsError
from singer_spark.scratch import make_scratch, sweep

SOCKET = "socket"
SHARED = "shared"
_PREFIX = "engine-"
_ID = re.compile(rf"{_PREFIX}\w+")


def make_engine_folder() -> Path:
    """Make the folder of a new engine; its name is the engine's id."""
    return make_scratch(_PREFIX, _root())


def shared_engines() -> list[str]:
    """List the engines that serve every process of the user."""
    root = _root()
    sweep(_PREFIX, root)
    return sorted(path.parent.name for path in root.glob(f"*/{SHARED}"))


def engine_folder(engine: str) -> Path:
    """Return the folder of an engine.

    Raises:
        ValueError: That is no id of an engine.
    """
    if not _ID.fullmatch(engine):
        raise ValueError(engine)
    return _root() / engine


def dial(engine: str) -> socket.socket:
    """Connect to an engine's keeper."""
    path = engine_folder(engine) / SOCKET
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection


def _root() -> Path:
    candidates = [Path("/tmp") / f"singer-spark-{os.getuid()}", cache_folder() / "engines"]  # noqa: S108
    for folder in candidates:
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            known = folder.lstat()
            if stat.S_ISDIR(known.st_mode) and known.st_uid == os.getuid():
                folder.chmod(0o700)
                return folder
    raise SettingsError(
        f"no place for Spark's engine: neither {candidates[0]} nor {candidates[1]} can be a folder "
        "of this user; make one of them"
    )
