"""INCREMENTAL: the window from the bookmark, less the lookback, to the highest key at its start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tap_spark_source.plan.key import Edge, Mark, Range, Slice, Survey, cuts_of
from tap_spark_source.plan.read_plan import ReadPlan
from tap_spark_source.plan.warnings import warn
from tap_spark_source.readers.chunks import Chunk, Preview, is_one_range, look_ahead, slices
from tap_spark_source.readers.open_window import Ahead, OpenWindow, open_window
from tap_spark_source.sources.base import TableSource
from tap_spark_source.sources.row_json import without_known_rows


def chunks(source: TableSource, plan: ReadPlan) -> Iterator[Chunk]:
    """Yield first what lies below the bookmark, then the slices from the bookmark on."""
    opened = open_window(source, plan)
    if opened is None:
        return
    opened.refuse_nulls()
    if opened.window.is_fixed:
        yield from _inside(opened)
        return
    # First of all: what commits while rows are written is then within the next run's lookback.
    ahead = opened.look_ahead()
    if opened.is_known(ahead.survey):
        yield Chunk(bookmark=plan.bookmark, is_last=True)
        return
    plan = replace(plan, bookmark=without_known_rows(plan.bookmark))
    opened = replace(opened, plan=plan, digest=opened.next_digest(ahead.survey))
    # The rows of a lookback are counted apart, where they can be.
    counted = ahead.both or (None if opened.reread else ahead.survey)
    is_one = plan.reads_on and counted is not None and is_one_range(plan, counted)
    if plan.at_once or is_one:
        yield from _at_once(opened, ahead.survey)
    elif ahead.both:
        yield from _together(opened, ahead, ahead.both)
    else:
        yield from _below(opened)
        yield from _above(opened, ahead.survey)


def preview(source: TableSource, plan: ReadPlan) -> Preview:
    """Describe the read of the window."""
    opened = open_window(source, plan)
    if opened is None:
        return Preview(None, None, 0)
    key, whole = opened.key, opened.whole
    highest = look_ahead(source, plan, key, whole, top=whole).highest
    if highest is not None and opened.end is None:
        whole = whole.up_to(highest)
    if opened.reread is not None:
        whole = replace(whole, low=opened.reread.low)
        # Only the lookback has rows to read.
        whole = whole if highest else replace(whole, high=Edge(opened.start or ()))
    ranges = (whole,) if highest or opened.reread else ()
    rows = source.count(plan, Slice(ranges=ranges, with_nulls=opened.takes_nulls))
    return Preview(key.edge_to_json(whole.low), key.edge_to_json(whole.high), rows, key.name)


def _inside(opened: OpenWindow) -> Iterator[Chunk]:
    """Yield the slices of a fixed window; the bookmark stays as it is."""
    if opened.start and opened.start == opened.end:
        kind = opened.key.parts[0].datatype
        warn(opened.stream, f"left out, because no {kind} lies between window_start and window_end")
    elif opened.plan.at_once:
        yield Chunk(frame=opened.frame(opened.whole), bookmark=opened.plan.bookmark, is_last=True)
        return
    elif opened.plan.reads_on:
        yield from _inside_and_beyond(opened)
        return
    else:
        yield from _fixed(opened, opened.whole)
    yield Chunk(bookmark=opened.plan.bookmark, is_last=True)


def _inside_and_beyond(opened: OpenWindow) -> Iterator[Chunk]:
    plan, whole = replace(opened.plan, max_rows=None), opened.whole
    survey = look_ahead(opened.source, plan, opened.key, whole, top=whole)
    if is_one_range(plan, survey):
        yield Chunk(frame=opened.frame(whole), bookmark=plan.bookmark, is_last=True)
        return
    if survey.highest:
        yield from _fixed(opened, whole.up_to(survey.highest), survey=survey)
    yield _beyond(opened, survey.highest, plan.bookmark)


def _below(opened: OpenWindow) -> Iterator[Chunk]:
    """Yield the rows that the lookback reads again; they do not move the bookmark."""
    if whole := opened.reread:
        yield from _fixed(opened, whole, below_bookmark=True)


def _above(opened: OpenWindow, survey: Survey) -> Iterator[Chunk]:
    """Yield the slices from the bookmark on, up to the highest key of the survey."""
    source, plan, key = opened.source, opened.plan, opened.key
    nulls, bookmark = opened.takes_nulls, dict(plan.bookmark)
    if survey.highest is None:
        frame = source.frame(plan, Slice(ranges=(), with_nulls=True)) if nulls else None
        yield Chunk(frame=frame, bookmark=bookmark, is_last=True, digest=opened.digest)
        if plan.reads_on and plan.max_rows is None:
            yield _beyond(opened, None, bookmark)
        return
    highest, last = survey.highest, opened.highest(survey)
    whole = opened.whole.up_to(highest)
    stop = _stop_within_value(opened, survey)
    if stop:
        whole, last, plan = opened.unread.up_to(stop), stop, replace(plan, max_rows=None)
        survey = look_ahead(source, plan, key, whole)
    for part, end in slices(source, plan, key, whole, survey=survey):
        wanted = replace(part, with_nulls=nulls)
        frame = source.frame(plan, wanted) if wanted.ranges or nulls else None
        marked, is_last = opened.marked(bookmark, end or last), not end and not stop
        yield Chunk(frame=frame, bookmark=marked, is_last=is_last, digest=opened.digest)
        nulls = False
    if plan.reads_on and plan.max_rows is None and not stop:
        yield _beyond(opened, highest, opened.marked(bookmark, last))


def _together(opened: OpenWindow, ahead: Ahead, both: Survey) -> Iterator[Chunk]:
    """Yield in one chunk what the lookback reads again and what is new: one slice holds it all."""
    plan, reread, highest = opened.plan, opened.reread or Range(), ahead.survey.highest
    bookmark, limits = dict(plan.bookmark), reread
    if highest:
        bookmark = opened.marked(bookmark, opened.highest(ahead.survey))
        limits = replace(opened.whole.up_to(highest), low=reread.low)
    cuts = cuts_of(both, below=plan.slice_rows, partitions=plan.partitions)
    ranges = tuple(limits.split(cuts)) if both.lowest else ()
    part = Slice(ranges=ranges, with_nulls=opened.takes_nulls)
    frame = opened.source.frame(plan, part) if ranges or part.with_nulls else None
    digest, below = opened.digest, opened.below
    yield Chunk(frame=frame, bookmark=bookmark, is_last=True, digest=digest, below=below)
    if plan.reads_on:
        yield _beyond(opened, highest, bookmark)


def _at_once(opened: OpenWindow, survey: Survey) -> Iterator[Chunk]:
    """Yield all rows of now from the bookmark on, those that the lookback reads included.

    One query sees each row once: slices would see the old version of a row and, if it is
    changed meanwhile, the new one too.
    """
    bookmark, limits, below = dict(opened.plan.bookmark), opened.whole, None
    if opened.plan.late_stream:
        yield from _below(opened)
    elif reread := opened.reread:
        limits, below = replace(limits, low=reread.low), opened.below
    if survey.highest:
        bookmark = opened.marked(bookmark, opened.highest(survey))
    frame = opened.frame(limits, with_nulls=opened.takes_nulls)
    yield Chunk(frame=frame, bookmark=bookmark, is_last=True, digest=opened.digest, below=below)


def _beyond(opened: OpenWindow, highest: Mark | None, bookmark: Mapping[str, Any]) -> Chunk:
    """Read what lies from the highest key on by now, in one query; the bookmark stays.

    A row that was changed while the slices were read has left them, and must not be missing
    in a read that is taken for the whole table, or for a whole range of it. It may have got the
    highest key itself, so rows that have it come twice: a key tells that they are one.
    """
    limits = opened.whole
    if highest:
        limits = replace(limits, low=Edge(highest[:1]))
    return Chunk(frame=opened.frame(limits), bookmark=bookmark, is_last=True)


def _stop_within_value(opened: OpenWindow, survey: Survey) -> Mark | None:
    """Return where a limited run ends, if that is among the rows of the bookmark's first part.

    They are read again by the run that comes beyond them, and until then each run goes on
    behind the one before: or all of them would read the same rows again and again.
    """
    start, plan, limit = opened.begun, opened.plan, opened.plan.max_rows
    if limit is None or len(opened.key.parts) == 1 or not start:
        return None
    stop = survey.mark_at(min(limit, plan.slice_rows))
    if stop and stop[0] == start[0] and plan.slice_rows < limit:
        far = replace(plan, slice_rows=limit)
        stop = look_ahead(opened.source, far, opened.key, opened.unread).mark_at(limit)
    is_inside = stop and stop[0] == start[0] and stop != survey.highest
    return stop if is_inside else None


def _fixed(
    opened: OpenWindow, whole: Range, survey: Survey | None = None, *, below_bookmark: bool = False
) -> Iterator[Chunk]:
    """Yield the slices of a range that says nothing about the state."""
    source, key, plan = opened.source, opened.key, replace(opened.plan, max_rows=None)
    survey = survey or look_ahead(source, plan, key, whole)
    if survey.lowest:
        for part, _ in slices(source, plan, key, whole, survey=survey):
            frame, bookmark = source.frame(plan, part) if part.ranges else None, plan.bookmark
            is_below, digest = below_bookmark, opened.digest
            yield Chunk(frame=frame, bookmark=bookmark, below_bookmark=is_below, digest=digest)
