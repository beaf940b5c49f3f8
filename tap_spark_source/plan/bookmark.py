"""What the bookmark of a stream holds, by the way it was read. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from singer_spark.protocol import AT_BOOKMARK, DELTA_SNAPSHOT
from singer_spark.protocol import FULL_TABLE as LOAD
from tap_spark_source.plan.read_plan import ReadPlan
from tap_spark_source.settings_schema import FULL_TABLE, LOG_BASED

DELTA_VERSION, DELTA_TABLE = "delta_version", "delta_table"
FILES = "files"
OFFSETS = "offsets"
SNAPSHOT = "snapshot"


def goes_on(plan: ReadPlan, resume: str = LOAD) -> bool:
    """Say whether an interrupted load can go on: not where the table is cut along other columns."""
    marker, key = plan.bookmark.get(resume), plan.key
    if marker is None or key is None:
        return False
    names = marker.get("key_columns") if isinstance(marker, Mapping) else None
    return names is None or names == key.names


def without_stale_markers(plan: ReadPlan) -> ReadPlan:
    """Forget how far reads of other ways have come: this one tells rows that they would tell again.

    Two are kept. From a replication key's value on rows may come twice, as ever. So may changes of
    a log where a key tells that rows are one, and only they tell deletions.
    """
    compares_rows = plan.snapshot is not None and plan.snapshot.mode == "rows"
    is_full = plan.method == FULL_TABLE and plan.window is None and not compares_rows
    by_log = plan.method == LOG_BASED
    is_current = {
        LOAD: is_full,
        DELTA_SNAPSHOT: by_log,
        DELTA_VERSION: by_log or plan.is_merged,
        DELTA_TABLE: by_log or plan.is_merged,
        OFFSETS: by_log,
        FILES: plan.new_files,
        SNAPSHOT: plan.snapshot is not None,
        AT_BOOKMARK: plan.window is not None,
    }
    kept = {name: one for name, one in plan.bookmark.items() if is_current.get(name, True)}
    return replace(plan, bookmark=kept)
