"""Where engines are found: a folder of the user that nobody else can enter.

It does not depend on TMPDIR or the working folder, so that two processes find the same one.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from singer_spark.engine.jars import cache_folder
from singer_spark.errors import SettingsError, TransientError
from singer_spark.scratch import JVM, await_owner, make_scratch, sweep

SOCKET = "socket"
SHARED = "shared"
_JVM = "jvm"
_RUN = "run"
_KILL_SECONDS = 15.0
_START_SECONDS = 300.0
_PREFIX = "engine-"
_ID = re.compile(rf"{_PREFIX}\w+")


def make_engine_folder() -> Path:
    """Make the folder of a new engine; its name is the engine's id."""
    return make_scratch(_PREFIX, _root())


def note_jvm(folder: Path, process: int) -> None:
    """Note which process is an engine's Java, for one who has to end it."""
    (folder / _JVM).write_text(str(process))


def note_run(folder: Path, run_id: str) -> None:
    """Note for which run an engine was started."""
    (folder / _RUN).write_text(run_id)


def engines_of(run_id: str) -> list[str]:
    """List the engines that the processes of a run have started."""
    return sorted(
        path.parent.name for path in _root().glob(f"*/{_RUN}") if _content(path) == run_id
    )


def keep_fresh(folder: Path) -> None:
    """Keep what cleans temporary folders by age from the files of an engine that lives long."""
    with suppress(OSError):
        for path in (folder, *folder.iterdir()):
            os.utime(path)


def await_end(engine: str) -> bool:
    """Wait until an engine's keeper and Java are dead; private Java that stays behind is killed."""
    folder = engine_folder(engine)
    is_shared = (folder / SHARED).exists()
    if await_owner(folder, _KILL_SECONDS) or is_shared:
        return not folder.exists() or await_owner(folder, 0)
    process = _content(folder / _JVM)
    with suppress(ProcessLookupError, PermissionError):
        if process.isdecimal():
            os.kill(int(process), signal.SIGKILL)
    return await_owner(folder, _KILL_SECONDS)


@contextmanager
def one_starter() -> Iterator[None]:
    """Let one process at a time look for a shared engine and start one where there is none."""
    try:
        with FileLock(_root() / "start.lock", timeout=_START_SECONDS, mode=0o600):
            yield
    except Timeout as error:
        raise TransientError("another process does not get Spark started; run again") from error


def shared_engines() -> list[str]:
    """List the engines that serve every process of the user."""
    root = _root()
    sweep((_PREFIX, JVM), root)
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


def _content(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


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
