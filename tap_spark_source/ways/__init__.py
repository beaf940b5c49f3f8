"""Ways of reading a stream: each turns a source and a plan, with its bookmark, into pieces.

A piece is complete in itself: once its rows are written, its bookmark is true. The stream writes
one piece, then a STATE, then the next, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator

from tap_spark_source.declaration import LOG_BASED
from tap_spark_source.plan import ReadPlan
from tap_spark_source.sources import FileSource, FrameSource, KafkaSource, Source
from tap_spark_source.ways import delta_log, full_table, incremental, kafka_log, new_files, snapshot
from tap_spark_source.ways.piece import Piece

__all__ = ["Piece", "pieces"]


def pieces(source: Source, plan: ReadPlan, *, version: int) -> Iterator[Piece]:
    """Read a stream in the way that its plan asks for."""
    found = _regular(source, plan, version)
    # A range that is read again says nothing of the rows outside it.
    is_range = plan.window is not None and plan.window.is_fixed
    if plan.snapshot is None or is_range:
        return found
    return snapshot.pieces(source, plan, plan.snapshot, found)


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
