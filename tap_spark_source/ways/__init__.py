"""Ways of reading a stream: each turns a source and a plan, with its bookmark, into pieces.

A piece is complete in itself: once its rows are written, its bookmark is true. The stream writes
one piece, then a STATE, then the next, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator

from tap_spark_source.plan import ReadPlan
from tap_spark_source.sources import Source
from tap_spark_source.ways import full_table, incremental
from tap_spark_source.ways.piece import Piece

__all__ = ["Piece", "pieces"]


def pieces(source: Source, plan: ReadPlan, *, version: int) -> Iterator[Piece]:
    """Read a stream in the way that its plan asks for."""
    if plan.window is not None and plan.key is not None:
        return incremental.pieces(source, plan, plan.window, plan.key)
    return full_table.pieces(source, plan, version=version)
