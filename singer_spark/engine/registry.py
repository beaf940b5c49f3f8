"""Where engines are found: a folder of the user that nobody else can enter.

It does not depend on TMPDIR or the working folder, so that two processes find the same one.
"""

from __future__ import annotations

import os
import re
import shutil
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
# Which process is an engine's Java, for one who has to end it, and for which run it was started.
JVM_ID, RUN = "jvm", "run"
_KILL_SECONDS = 15.0
_START_SECONDS = 300.0
_PREFIX = "engine-"
_PRIVATE = 0o700
# Less leaves no room for what Java is told and what it logs.
_ROOM_BYTES = 16 * 2**20
_ID = re.compile(rf"{_PREFIX}\w+")


def private_folder() -> Path:
    """Return the folder of this user that processes find each other's notes in."""
    return _roots()[0]


def make_engine_folder() -> Path:
    """Make the folder of a new engine; its name is the engine's id."""
    failure: OSError | None = None
    for root in _roots():
        try:
            if shutil.disk_usage(root).free >= _ROOM_BYTES:
                return make_scratch(_PREFIX, root)
        except OSError as error:  # it cannot be written
            failure = error
    wanted = " nor ".join(map(str, _candidates()))
    raise TransientError(
        f"no room for Spark's engine in {wanted} ({failure or 'the disk is full'}); make some"
    )


def engines_of(run_id: str) -> list[str]:
    """List the engines that the processes of a run have started."""
    return sorted(path.parent.name for path in _found(RUN) if _content(path) == run_id)


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
    process = _content(folder / JVM_ID)
    with suppress(ProcessLookupError, PermissionError):
        if process.isdecimal():
            os.kill(int(process), signal.SIGKILL)
    return await_owner(folder, _KILL_SECONDS)


@contextmanager
def one_starter() -> Iterator[None]:
    """Let one process at a time look for a shared engine and start one where there is none."""
    for root in _roots():
        lock = FileLock(root / "start.lock", timeout=_START_SECONDS, mode=0o600)
        try:
            lock.acquire()
        except Timeout as error:
            raise TransientError("another process does not get Spark started; run again") from error
        except (OSError, NotImplementedError):  # it cannot be written
            continue
        try:
            yield
        finally:
            lock.release()
        return
    yield  # nobody can start one here, which the attempt says


def shared_engines() -> list[str]:
    """List the engines that serve every process of the user."""
    for root in _roots():
        sweep((_PREFIX, JVM), root)
    return sorted(path.parent.name for path in _found(SHARED))


def engine_folder(engine: str) -> Path:
    """Return the folder of an engine; ValueError where that is no id of one."""
    if not _ID.fullmatch(engine):
        raise ValueError(engine)
    known = [root / engine for root in _roots()]
    return next(filter(Path.exists, known), known[0])


def dial(engine: str) -> socket.socket:
    """Connect to an engine's keeper."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(engine_folder(engine) / SOCKET))
    except OSError:
        connection.close()
        raise
    return connection


def _content(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _found(name: str) -> list[Path]:
    return [path for root in _roots() for path in root.glob(f"{_PREFIX}*/{name}")]


def _candidates() -> list[Path]:
    return [Path("/tmp") / f"singer-spark-{os.getuid()}", cache_folder() / "engines"]  # noqa: S108


def _roots() -> list[Path]:
    """List the folders that engines are made in, the usual one first.

    A system that does not let this user have one of them makes do with the other.
    """
    usable = [folder for folder in _candidates() if _is_ours(folder)]
    if not usable:
        wanted = " nor ".join(map(str, _candidates()))
        raise SettingsError(
            f"no place for Spark's engine: neither {wanted} can be a folder of this user; make one "
            "of them"
        )
    return usable


def _is_ours(folder: Path) -> bool:
    """Make a folder that nobody else can enter, if it is not there; say whether that is so."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        known = folder.lstat()
        if not stat.S_ISDIR(known.st_mode) or known.st_uid != os.getuid():
            return False
        if stat.S_IMODE(known.st_mode) != _PRIVATE:
            folder.chmod(_PRIVATE)
    except OSError:
        return False
    return True
