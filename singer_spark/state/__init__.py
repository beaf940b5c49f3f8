"""State stores: where pipelines keep their state, their history and their lock between runs.

objects      the seam: bytes under keys, written atomically and conditionally
folder, s3, cloud, database, sql, meltano    the places that keep them
documents    JSON under keys
base         the rule: state is only ever written over what was read
holder, lock, generation    one run per pipeline, and what the last ones left
checkpoint, appended    how far failed runs got
summary, runs  what the runs did
change       states changed by hand
create       which place a URL means
"""

from __future__ import annotations

from singer_spark.state.base import PipelineState, StateStore
from singer_spark.state.create import create_state_store

__all__ = ["PipelineState", "StateStore", "create_state_store"]
