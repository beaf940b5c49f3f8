"""State stores: where pipelines keep their state, their history and their lock between runs.

store        the rule: state is only ever written over what was read
holder, lock, generation    one run per pipeline, and what the last ones left
runs         what the runs did
change       states changed by hand
recover, reached    a lost state, and how far failed runs got, from the tables' own commits
"""

from __future__ import annotations

from singer_spark.state.store import PipelineState, StateStore, create_state_store

__all__ = ["PipelineState", "StateStore", "create_state_store"]
