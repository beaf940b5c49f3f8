"""FULL_TABLE: the whole table, along its primary key where it has one.

Between slices the bookmark holds `full_table: {version, key, key_columns}`, so that an interrupted
load goes on behind that key, under the same version. Where the table is cut along other columns
meanwhile, it begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from singer_spark.errors import StateError
from singer_spark.protocol import FULL_TABLE as LOAD
from singer_spark.report import report
from tap_spark_source.plan.bookmark import goes_on
from tap_spark_source.plan.key import Edge, Key, Range, Slice
from tap_spark_source.plan.read_plan import ReadPlan
from tap_spark_source.plan.warnings import warn
from tap_spark_source.readers.chunks import Chunk, Preview, is_one_range, look_ahead, slices
from tap_spark_source.readers.marks import to_mark
from tap_spark_source.sources.base import TableSource


def chunks(source: TableSource, plan: ReadPlan, *, resume: str = LOAD) -> Iterator[Chunk]:
    """Yield the slices of a table, or the table as one chunk where it cannot be cut."""
    rest = {name: value for name, value in plan.bookmark.items() if name != resume}
    key, version = plan.key if source.can_slice else None, plan.version
    if plan.filter is None and plan.table.rows is not None:
        report("expected", plan.table.stream, rows=plan.table.rows)
    # Where one slice surely holds the table, looking ahead would be wasted.
    limit, most = min(plan.slice_rows, plan.max_rows or plan.slice_rows), plan.table.most_rows
    is_small = resume not in plan.bookmark and most is not None and most <= limit
    if key is None or is_small:
        yield Chunk(frame=source.frame(plan), bookmark=rest, version=version, is_last=True)
        return
    whole = rest_of(source, plan, resume)
    if whole.low is not None:
        version = int(plan.bookmark[resume]["version"])
    elif plan.bookmark.get(resume) is not None:
        warn(
            plan.table.stream,
            f"an interrupted load was cut along {plan.bookmark[resume]['key_columns']}, and the "
            f"table is now cut along {key.names}; it begins anew",
        )
    survey = look_ahead(source, plan, key, whole, top=whole if _moves(plan, key) else None)
    is_one = is_one_range(plan, survey)
    nulls, end = key.is_nullable and whole.low is None, None
    last = None if is_one else survey.highest
    for part, end in slices(source, plan, key, whole, survey=survey):
        wanted = replace(part, with_nulls=nulls, at_once=is_one)
        nulls = False
        mark = end or last  # which is not the end, where rows are read once more
        place = {"key": key.to_json(mark), "key_columns": key.names} if mark else {}
        marker = {"version": version, **place}
        frame = source.frame(plan, wanted) if wanted.ranges or wanted.with_nulls else None
        bookmark = {**rest, resume: marker} if mark else rest
        yield Chunk(frame=frame, bookmark=bookmark, version=version, is_last=not mark)
    if last and not end:
        # By now: a row that was changed meanwhile has left its range, perhaps unread.
        frame = source.frame(plan, Slice(ranges=(Range(low=Edge(last)),), at_once=True))
        yield Chunk(frame=frame, bookmark=rest, version=version, is_last=True)


def preview(source: TableSource, plan: ReadPlan) -> Preview:
    """Describe the read of the table, or of what an interrupted load has left."""
    rest = rest_of(source, plan)
    if rest.low is not None and plan.key is not None:
        rows = source.count(plan, Slice(ranges=(rest,)))
        return Preview(plan.key.edge_to_json(rest.low), None, rows, plan.key.name)
    known = plan.table.rows if plan.filter is None else None
    return Preview(None, None, source.count(plan) if known is None else known)


def _moves(plan: ReadPlan, key: Key) -> bool:
    """Say whether rows may change the column that the table is cut along, and come twice then.

    That is a time which somebody chose. Without a key nothing tells that two rows are one.
    """
    first, keys = key.parts[0], plan.key_properties
    return plan.reads_on and first.is_time and bool(keys) and first.name not in keys


def rest_of(source: TableSource, plan: ReadPlan, resume: str = LOAD) -> Range:
    """Return what an interrupted load has left, or everything."""
    marker: Any = plan.bookmark.get(resume)
    key = plan.key
    if key is None or not goes_on(plan, resume):
        return Range()
    try:
        int(marker["version"])
        return Range().beyond(to_mark(source.spark, key, key.from_json(marker["key"])))
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(
            f"{plan.table.stream}: the bookmark's {resume} does not fit the key {key.label}; "
            "remove it from the state, and the table is read from the start"
        ) from error
