"""Whether Spark and this process share a disk: the one place that answers.

An engine of ours on `local[*]` does. A cluster does not, however near it is: its workers are other
users, or other machines. Someone else's server is asked by a file, once it can be.
"""

from __future__ import annotations

import logging
import secrets
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from singer_spark.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
        place = Path(tempfile.mkdtemp(prefix=".singer-spark-", dir=_existing(folder)))
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


def _existing(folder: Path) -> Path:
    """Return the folder, or the one above that is there."""
    known = folder.expanduser().absolute()
    while not known.is_dir():
        known = known.parent
    return known
