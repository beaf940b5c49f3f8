"""What the machine has for Spark: memory and cores, and whether Spark shares its disk.

Linux says in control groups what a container may use. Where there are none the machine counts.

An engine of ours on `local[*]` shares the disk. A cluster does not, however near it is: its workers
are other users, or other machines. Someone else's server is asked by a file, once it can be.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from singer_spark.errors import SettingsError
from singer_spark.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAX_SPARK_MB = 4096
_MIN_SPARK_MB = 512
# Java needs half as much again beside its heap, and tap and target are there as well.
_MIN_MB = 1024
_GROUPS = Path("/proc/self/cgroup")
_MOUNT = Path("/sys/fs/cgroup")


def driver_memory_mb() -> int:
    """Return how much memory Spark gets: a quarter of the machine's, 4 GB at most."""
    memory = memory_mb()
    if memory < _MIN_MB:
        raise SettingsError(
            f"Spark needs {_MIN_MB} MB of memory, and this machine or container has {memory} MB; "
            "give it more, or use spark_remote"
        )
    return max(_MIN_SPARK_MB, min(memory // 4, _MAX_SPARK_MB))


def memory_mb() -> int:
    """Return the memory of the machine, or of the container if that is less."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = _numbers("memory", "memory.max", "memory.limit_in_bytes")
    return min([machine, *(limit for (limit,) in limits)]) // 2**20


def cores() -> int:
    """Return how many cores this process may use, at least one."""
    try:
        known = len(os.sched_getaffinity(0))
    except AttributeError:  # not everywhere
        known = os.cpu_count() or 2
    shares = [*_numbers("cpu", "cpu.max", ""), *_quotas()]
    return max(1, min([known, *(round(quota / period) for quota, period in shares if period)]))


def _quotas() -> Iterator[list[int]]:
    """Yield quota and period as the first version of control groups has them, in two files."""
    for folder in _folders("cpu"):
        quota, period = (_content(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
        if quota.isdecimal() and period.isdecimal():  # -1 is no limit
            yield [int(quota), int(period)]


def _numbers(controller: str, second: str, first: str) -> Iterator[list[int]]:
    """Yield the limits of this process's control groups, of either version."""
    for folder in _folders(controller):
        for name in filter(None, (second, first)):
            words = _content(folder / name).split()
            if words and all(word.isdecimal() for word in words):  # `max` is no limit
                yield [int(word) for word in words]


def _folders(controller: str) -> Iterator[Path]:
    """Yield the folders of this process's control groups, and of those that they are part of."""
    for line in _content(_GROUPS).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        roots = [_MOUNT / controllers, _MOUNT / controller] if controllers else [_MOUNT]
        for root in dict.fromkeys(roots):
            inside = Path(path.lstrip("/"))
            # In a container the groups above may not be seen, and its own is the root.
            yield from (root / part for part in (inside, *inside.parents))


def _content(path: Path) -> str:
    with suppress(OSError, ValueError):
        return path.read_text().strip()
    return ""


logger = logging.getLogger(__name__)

_is_shared = True
_is_known = True


def expects_shared_disk(settings: SparkSettings) -> bool:
    """Say whether these settings alone make sure that the disk is shared."""
    return settings.is_local


def expect_disk(settings: SparkSettings) -> None:
    """Go by the settings until Spark can be asked."""
    global _is_shared, _is_known
    _is_known = not settings.remote
    _is_shared = expects_shared_disk(settings)


def shares_disk() -> bool:
    """Say whether a file of this machine is for Spark what it is for this process."""
    return _is_shared


def ask_for_disk(spark: SparkSession, folders: Iterable[Path]) -> None:
    """Find out whether a server of someone else shares the disk: all of some folders.

    It has to be one process, for one that reads a file says nothing of others.
    """
    global _is_shared, _is_known
    if not _is_known:
        _is_known = True
        master = spark.conf.get("spark.master", "") or ""
        _is_shared = master.startswith("local") and all(
            _is_common(spark, folder) for folder in folders
        )
        logger.debug("The server %s the disk", "shares" if _is_shared else "does not share")


def _is_common(spark: SparkSession, folder: Path) -> bool:
    """Let Spark copy a file, and look whether the copy is here."""
    word, place = secrets.token_hex(16), None
    try:
        known = folder.expanduser().absolute()
        existing = next(one for one in (known, *known.parents) if one.is_dir())
        place = Path(tempfile.mkdtemp(prefix=".singer-spark-", dir=existing))
        (place / "word").write_text(word)
        lines = spark.read.text((place / "word").as_uri())
        lines.write.text((place / "copy").as_uri())
        copies = [path.read_text() for path in (place / "copy").glob("part-*")]
    except Exception as error:  # noqa: BLE001 - whatever the reason is, it is not shared
        logger.debug("%s is not shared: %s", folder, error)
        return False
    finally:
        if place is not None:
            shutil.rmtree(place, ignore_errors=True)
    return "".join(copies).split() == [word]
