"""Reads a range along its key, slice by slice; a slice always ends with a whole value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tap_spark_source.key import Key, Mark, Range
from tap_spark_source.plan import ReadPlan
from tap_spark_source.slicing import Slice, Survey, cuts_of, step_of
from tap_spark_source.sources import Reach, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A slice and the key that it ends with; no end for the last one, which may be empty."""

    piece: Slice
    end: Mark | None = None


def look_ahead(
    source: Source,
    plan: ReadPlan,
    key: Key,
    limits: Range,
    *,
    top: Range | None = None,
    done: int = 0,
) -> Survey:
    """Survey the next slice of a range."""
    rows = _slice_rows(plan, done)
    reach = Reach(limits=limits, top=top, rows=rows, step=step_of(rows, plan.partitions))
    return source.survey(plan, key, reach)


def slices(
    source: Source, plan: ReadPlan, key: Key, whole: Range, *, survey: Survey
) -> Iterator[Part]:
    """Cut a range into slices, beginning with what was surveyed; `max_rows` leaves a rest."""
    done = 0
    while True:
        rows = _slice_rows(plan, done)
        end = survey.mark_at(rows)
        cuts = cuts_of(survey, below=rows, partitions=plan.partitions)
        if end is None or (whole.high and whole.high.mark == end):
            ranges = whole.split(cuts) if survey.lowest or not done else []
            yield Part(piece=Slice(ranges=tuple(ranges)))
            return
        yield Part(piece=Slice(ranges=tuple(whole.up_to(end).split(cuts))), end=end)
        done += rows
        if plan.max_rows is not None and done >= plan.max_rows:
            return
        whole = whole.beyond(end)
        survey = look_ahead(source, plan, key, whole, done=done)


def is_one_range(plan: ReadPlan, survey: Survey) -> bool:
    """Say whether all that was surveyed is read by one connection, and so at one moment."""
    if plan.max_rows is not None or survey.mark_at(plan.slice_rows) is not None:
        return False
    return not cuts_of(survey, below=plan.slice_rows, partitions=plan.partitions)


def _slice_rows(plan: ReadPlan, done: int) -> int:
    return plan.slice_rows if plan.max_rows is None else min(plan.slice_rows, plan.max_rows - done)
