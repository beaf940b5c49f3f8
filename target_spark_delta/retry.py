"""What lost a race against another writer is done again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from singer_spark.engine.session import SPARK_ERRORS
from singer_spark.errors import TransientError
from target_spark_delta.fence import overtaken
from target_spark_delta.table import Table

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_ATTEMPTS = 5
# What Delta says of a commit that another writer overtook.
_OVERTAKEN = ("DELTA_CONCURRENT", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED")
# What it says of one that a newer run of the pipeline overtook, which must not be repeated.
_FENCED = "DELTA_CONCURRENT_TRANSACTION"


def is_lost_race(table: Table, error: Exception) -> bool:
    """Say whether another writer was faster, which is no error of this one.

    Raises:
        TransientError: It was a newer run of the pipeline.
    """
    if _FENCED in str(error):
        raise overtaken(table) from error
    return any(condition in str(error) for condition in _OVERTAKEN)


def with_retry(table: Table, action: Callable[[], _T]) -> _T:
    """Repeat what commits to a table, if it lost a race against another writer."""
    for attempt in range(_ATTEMPTS):
        try:
            return action()
        except SPARK_ERRORS as error:
            if not is_lost_race(table, error):
                raise
            logger.warning("%s: another writer was faster, trying again", table)
            time.sleep(2**attempt / 4)
    raise TransientError(
        f"{table}: another writer commits to it all the time; run again when it has finished"
    )
