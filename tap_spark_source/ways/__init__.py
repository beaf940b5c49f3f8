"""Ways of reading a stream: each turns a source and a plan, with its bookmark, into pieces.

A piece is complete in itself: once its rows are written, its bookmark is true. The stream writes
one piece, then a STATE, then the next, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from singer_spark import protocol
from tap_spark_source.declaration import FULL_TABLE, LOG_BASED
from tap_spark_source.plan import ReadPlan
from tap_spark_source.sources import FileSource, FrameSource, KafkaSource, Source
from tap_spark_source.ways import (
    delta_log,
    full_table,
    incremental,
    kafka_log,
    new_files,
    snapshot,
    snapshot_store,
)
from tap_spark_source.ways.opened import bounds_of
from tap_spark_source.ways.piece import Piece

__all__ = ["Piece", "bounds_of", "pieces", "without_stale_markers"]


def pieces(source: Source, plan: ReadPlan, *, version: int) -> Iterator[Piece]:
    """Read a stream in the way that its plan asks for."""
    # A range that is read again says nothing of the rows outside it, and leaves the state alone.
    if plan.window is not None and plan.window.is_fixed:
        return _regular(source, plan, version)
    plan = without_stale_markers(plan)
    found = _regular(source, plan, version)
    return found if plan.snapshot is None else snapshot.pieces(source, plan, plan.snapshot, found)


def without_stale_markers(plan: ReadPlan) -> ReadPlan:
    """Forget how far reads of other ways have come: this one tells rows that they would tell again.

    Two are kept. From a replication key's value on rows may come twice, as ever. So may changes of
    a log where a key tells that rows are one, and only they tell deletions.
    """
    compares_rows = plan.snapshot is not None and plan.snapshot.mode == "rows"
    is_full = plan.method == FULL_TABLE and plan.window is None and not compares_rows
    by_log = plan.method == LOG_BASED
    is_current = {
        protocol.FULL_TABLE: is_full,
        protocol.DELTA_SNAPSHOT: by_log,
        delta_log.VERSION: by_log or plan.is_merged,
        delta_log.TABLE: by_log or plan.is_merged,
        kafka_log.OFFSETS: by_log,
        new_files.FILES: plan.new_files,
        snapshot_store.BOOKMARK: plan.snapshot is not None,
        protocol.AT_BOOKMARK: plan.window is not None,
    }
    kept = {name: one for name, one in plan.bookmark.items() if is_current.get(name, True)}
    return replace(plan, bookmark=kept)


def _regular(source: Source, plan: ReadPlan, version: int) -> Iterator[Piece]:
    if isinstance(source, KafkaSource):
        return kafka_log.pieces(source, plan)
    if plan.method == LOG_BASED and isinstance(source, FrameSource):
        return delta_log.pieces(source, plan)
    if plan.new_files and isinstance(source, FileSource):
        return new_files.pieces(source, plan)
    if plan.window is not None and plan.key is not None:
        return incremental.pieces(source, plan, plan.window, plan.key)
    return full_table.pieces(source, plan, version=version)
