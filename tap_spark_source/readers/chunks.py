"""What every reader yields, and how a range is read along its key, slice by slice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

from tap_spark_source.plan.key import Key, Mark, Range, Reach, Slice, Survey, cuts_of, step_of
from tap_spark_source.plan.read_plan import ReadPlan
from tap_spark_source.sources.base import TableSource
from tap_spark_source.sources.row_json import RowWatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Rows that are written together, and the stream's bookmark that is true after them.

    The rows are columns, or with `are_texts` the JSON of the records in the column `record`.
    `version` is that of a numbered load, which the last chunk makes the current one. Rows
    `below_bookmark` are read once more, for those among them that came late; `below` counts them
    where they are among others. `digest` adds up what the next window would read once more, where
    that is known.
    """

    bookmark: Mapping[str, Any]
    frame: DataFrame | None = None
    are_texts: bool = False
    version: int | None = None
    is_last: bool = False
    below_bookmark: bool = False
    digest: RowWatch | None = None
    below: RowWatch | None = None


class Preview(NamedTuple):
    """What a run would read: from where to where, about how many rows, and along which key."""

    low: Any
    high: Any
    rows: int | None
    key: str | list[str] | None = None


def look_ahead(
    source: TableSource,
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
    source: TableSource, plan: ReadPlan, key: Key, whole: Range, *, survey: Survey
) -> Iterator[tuple[Slice, Mark | None]]:
    """Cut a range into slices, beginning with what was surveyed; `max_rows` leaves a rest.

    Each comes with the key that it ends with; the last one, which may be empty, has none.
    """
    done = 0
    while True:
        rows = _slice_rows(plan, done)
        end = survey.mark_at(rows)
        cuts = cuts_of(survey, below=rows, partitions=plan.partitions)
        if end is None or (whole.high and whole.high.mark == end):
            ranges = whole.split(cuts) if survey.lowest or not done else []
            yield Slice(ranges=tuple(ranges)), None
            return
        yield Slice(ranges=tuple(whole.up_to(end).split(cuts))), end
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
