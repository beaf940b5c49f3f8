"""Whether the run that this process works for still holds its lock."""

from __future__ import annotations

import json
import os
from functools import lru_cache

from singer_spark.assignment import STATE_URL, Assignment
from singer_spark.errors import StateError
from singer_spark.state.base import StateStore
from singer_spark.state.create import create_state_store
from singer_spark.state.lock import LostLockError, read_lock


def confirm_lock(assignment: Assignment) -> None:
    """Look at the lock, right before a change that Delta's own check does not fence.

    A run without a number holds no lock, and nothing is looked at.

    Raises:
        LostLockError: Another run has taken it over, or someone has ended it.
        StateError: It cannot be read.
    """
    if _holds_lock(assignment) is False:
        raise LostLockError(assignment.pipeline or "", "it was taken over or ended")


def is_sole_holder(assignment: Assignment) -> bool:
    """Say whether a run is known to hold its lock, so that no other can have overtaken it."""
    try:
        return _holds_lock(assignment) is True
    except StateError:
        return False


def _holds_lock(assignment: Assignment) -> bool | None:
    """Look at the lock; None where the run has none."""
    url = os.environ.get(STATE_URL)
    if assignment.generation is None or assignment.pipeline is None or not url:
        return None
    holder, _ = read_lock(_open(url), assignment.pipeline)
    found = holder and (holder.run_id, holder.generation)
    return found == (assignment.run_id, assignment.generation)


@lru_cache(maxsize=1)
def _open(url: str) -> StateStore:
    return create_state_store(json.loads(url))
