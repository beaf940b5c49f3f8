"""FULL_TABLE: the whole table, along its primary key where it has one.

Between slices the bookmark holds `full_table: {version, key}`, so that an interrupted load goes on
behind that key, under the same version.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from singer_spark.bookmark import FULL_TABLE
from singer_spark.errors import StateError
from singer_spark.report import report
from tap_spark_source.bookmark import to_mark
from tap_spark_source.key import Range
from tap_spark_source.plan import ReadPlan
from tap_spark_source.sources import Source
from tap_spark_source.ways.piece import Piece
from tap_spark_source.ways.slices import look_ahead, slices


def pieces(
    source: Source, plan: ReadPlan, *, version: int, resume: str = FULL_TABLE
) -> Iterator[Piece]:
    """Yield the slices of a table, or the table as one piece where it cannot be cut."""
    rest = {name: value for name, value in plan.bookmark.items() if name != resume}
    key = plan.key if source.can_slice else None
    _announce(plan)
    if key is None or _is_small(plan, resume):
        yield Piece(frame=source.frame(plan), bookmark=rest, version=version, is_last=True)
        return
    whole = rest_of(source, plan, resume)
    if whole.low is not None:
        version = int(plan.bookmark[resume]["version"])
    survey = look_ahead(source, plan, key, whole)
    nulls = key.is_nullable and whole.low is None
    for part in slices(source, plan, key, whole, survey=survey):
        piece, nulls = replace(part.piece, with_nulls=nulls), False
        marker = {resume: {"version": version, "key": key.to_json(part.end)}} if part.end else {}
        yield Piece(
            frame=source.frame(plan, piece) if piece.ranges or piece.with_nulls else None,
            bookmark={**rest, **marker},
            version=version,
            is_last=not part.end,
        )


def _announce(plan: ReadPlan) -> None:
    if plan.where is None and plan.sample is None and plan.table.rows is not None:
        report("expected", plan.table.stream, rows=plan.table.rows)


def _is_small(plan: ReadPlan, resume: str) -> bool:
    """Say whether one slice surely holds the table, so that looking ahead would be wasted."""
    limit = min(plan.slice_rows, plan.max_rows or plan.slice_rows)
    most = plan.table.most_rows
    return resume not in plan.bookmark and most is not None and most <= limit


def rest_of(source: Source, plan: ReadPlan, resume: str = FULL_TABLE) -> Range:
    """Return what an interrupted load has left, or everything."""
    marker, key = plan.bookmark.get(resume), plan.key
    if marker is None or key is None:
        return Range()
    try:
        int(marker["version"])
        return Range().beyond(to_mark(source.spark, key, key.from_json(marker["key"])))
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(
            f"{plan.table.stream}: the bookmark's {resume} does not fit the key {key.label}; "
            "remove it from the state, and the table is read from the start"
        ) from error
