"""INCREMENTAL: the window from the bookmark, less the lookback, to the highest key at its start."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from singer_spark.errors import DataError, SettingsError
from singer_spark.report import report
from tap_spark_source.bookmark import is_future, looked_back, to_mark
from tap_spark_source.key import Edge, Key, Mark, Range, is_empty, is_same_mark, is_value
from tap_spark_source.plan import ReadPlan
from tap_spark_source.slicing import Slice, Survey, is_heap
from tap_spark_source.sources import Source
from tap_spark_source.ways.piece import Piece
from tap_spark_source.ways.slices import is_one_range, look_ahead, slices
from tap_spark_source.window import Bounds, Window, bad_bound

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger("tap-spark-source")


def pieces(source: Source, plan: ReadPlan, window: Window, key: Key) -> Iterator[Piece]:
    """Yield first what lies below the bookmark, then the slices from the bookmark on."""
    opened = open_window(source, plan, window, key)
    opened.refuse_nulls()
    if opened.window.is_fixed:
        yield from opened.inside()
        return
    # First of all: what commits while rows are written is then within the next run's lookback.
    survey = opened.look_ahead()
    # The rows of a lookback are counted apart, where they can be.
    is_one = plan.reads_on and opened.reread is None and is_one_range(plan, survey)
    if plan.at_once or is_one:
        yield from opened.at_once(survey)
        return
    yield from opened.below()
    yield from opened.above(survey)


def bounds_of(source: Source, plan: ReadPlan) -> Bounds:
    """Return the ends of a plan's window, if it has one."""
    if plan.window is None or plan.key is None:
        return Bounds()
    opened = open_window(source, plan, plan.window, plan.key)
    reread, first = opened.reread, Key(parts=plan.key.parts[:1])
    marks = {"start": opened.start, "end": opened.end}
    if reread and reread.low:
        marks["below"] = reread.low.mark
    return Bounds(**{name: first.to_json(mark[:1]) for name, mark in marks.items() if mark})


def open_window(source: Source, plan: ReadPlan, window: Window, key: Key) -> OpenWindow:
    """Turn the values that a window was given into those of the source."""
    marks: list[Mark | None] = []
    # No key lies between a bound and the next value above it that the key can have.
    up = window.is_fixed
    for values in (window.start, window.end):
        try:
            mark = to_mark(source.spark, key, values, rounds_up=up) if values is not None else None
        except ValueError as error:
            raise bad_bound(plan.table.stream, window, error) from error
        marks.append(mark)
    start, end = marks
    is_wrong = window.start == window.end or start != end
    if window.is_fixed and start and end and is_wrong and is_empty(key.parts[0], start[0], end[0]):
        raise SettingsError(
            f"{plan.table.stream}: window_start {start[0]} is not below window_end {end[0]}, so "
            "that no key lies between them; correct them"
        )
    return OpenWindow(source=source, plan=plan, window=window, key=key, start=start, end=end)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWindow:
    """A window whose bounds are values of the source."""

    source: Source
    plan: ReadPlan
    window: Window
    key: Key
    start: Mark | None
    end: Mark | None

    @property
    def stream(self) -> str:
        """Name the stream."""
        return self.plan.table.stream

    @property
    def whole(self) -> Range:
        """Return the range from the start on; the source has yet to say how far it goes.

        Of a list key the first part decides: a row that was read before may get the bookmark's time
        once more, and lie below the bookmark only by what comes after it.
        """
        return Range(
            low=Edge(self._first) if self._first else None,
            high=Edge(self.end, is_inclusive=False) if self.end else None,
        )

    @property
    def _first(self) -> Mark | None:
        return self.start[:1] if self.start and self.window.from_bookmark else self.start

    @property
    def reread(self) -> Range | None:
        """Return the range below the bookmark that the lookback reads again."""
        window, start = self.window, self.start
        if not (start and window.from_bookmark and window.lookback):
            return None
        lower = looked_back(self.source.spark, self.key, start, window.lookback)
        high = Edge(start[:1], is_inclusive=False)
        return Range(low=Edge(lower), high=high) if lower else None

    @property
    def takes_nulls(self) -> bool:
        """Say whether rows without a key are read along."""
        return self.window.null_keys == "include" and self.key.is_nullable

    def refuse_nulls(self) -> None:
        """Fail where a row has no key and that is not allowed."""
        if self.window.null_keys != "fail" or not self.key.is_nullable:
            return
        rows = self.source.count(self.plan, Slice(ranges=(), with_nulls=True))
        if rows:
            raise DataError(
                f"{self.stream}: {rows} rows have no {self.key.label}; fill it, or set "
                "null_replication_key to include or exclude"
            )

    def inside(self) -> Iterator[Piece]:
        """Yield the slices of a fixed window; the bookmark stays as it is."""
        if self.start and self.start == self.end:
            logger.warning(
                "%s: left out, because no %s lies between window_start and window_end",
                self.stream,
                self.key.parts[0].datatype,
            )
        elif self.plan.at_once:
            yield Piece(frame=self._frame(self.whole), bookmark=self.plan.bookmark, is_last=True)
            return
        elif self.plan.reads_on:
            yield from self._inside_and_beyond()
            return
        else:
            yield from self._fixed(self.whole)
        yield Piece(bookmark=self.plan.bookmark, is_last=True)

    def _inside_and_beyond(self) -> Iterator[Piece]:
        plan, whole = replace(self.plan, max_rows=None), self.whole
        survey = look_ahead(self.source, plan, self.key, whole, top=whole)
        if is_one_range(plan, survey):
            yield Piece(frame=self._frame(whole), bookmark=plan.bookmark, is_last=True)
            return
        yield from self._fixed(whole.up_to(survey.highest)) if survey.highest else ()
        yield self._beyond(survey.highest, plan.bookmark)

    def look_ahead(self) -> Survey:
        """Survey what comes from the bookmark on, and tell what that shows."""
        # Rows at the bookmark itself do not count, or many of them would stop every run there.
        whole = self.whole
        survey = look_ahead(self.source, self.plan, self.key, self._unread, top=whole)
        self._announce(survey)
        return survey

    def below(self) -> Iterator[Piece]:
        """Yield the rows that the lookback reads again; they do not move the bookmark."""
        if whole := self.reread:
            self._report_bookmark()
            yield from self._fixed(whole, below_bookmark=True)

    def _report_bookmark(self) -> None:
        """Let the target know below which value rows are late."""
        if self.start and not self.plan.late_stream:
            report("bookmark", self.stream, column=self.key.parts[0].name, value=self.start[0])

    def above(self, survey: Survey) -> Iterator[Piece]:
        """Yield the slices from the bookmark on, up to the highest key of the survey."""
        source, plan, key = self.source, self.plan, self.key
        nulls, bookmark = self.takes_nulls, dict(plan.bookmark)
        if survey.highest is None:
            frame = source.frame(plan, Slice(ranges=(), with_nulls=True)) if nulls else None
            yield Piece(frame=frame, bookmark=bookmark, is_last=True)
            if plan.reads_on and plan.max_rows is None:
                yield self._beyond(None, bookmark)
            return
        highest, last = survey.highest, self._highest(survey)
        whole = self.whole.up_to(highest)
        stop = self._stop_in_heap(survey)
        if stop:
            whole, last, plan = self._unread.up_to(stop), stop, replace(plan, max_rows=None)
            survey = look_ahead(source, plan, key, whole)
        for part in slices(source, plan, key, whole, survey=survey):
            yield Piece(
                frame=source.frame(plan, replace(part.piece, with_nulls=nulls)),
                bookmark=self._marked(bookmark, part.end or last),
                is_last=not part.end and not stop,
            )
            nulls = False
        if plan.reads_on and plan.max_rows is None and not stop:
            yield self._beyond(highest, self._marked(bookmark, last))

    def at_once(self, survey: Survey) -> Iterator[Piece]:
        """Yield all rows of now from the bookmark on, those that the lookback reads included.

        One query sees each row once: slices would see the old version of a row and, if it is
        changed meanwhile, the new one too.
        """
        bookmark, limits = dict(self.plan.bookmark), self.whole
        if self.plan.late_stream:
            yield from self.below()
        elif below := self.reread:
            self._report_bookmark()
            limits = replace(limits, low=below.low)
        if survey.highest:
            bookmark = self._marked(bookmark, self._highest(survey))
        frame = self._frame(limits, with_nulls=self.takes_nulls)
        yield Piece(frame=frame, bookmark=bookmark, is_last=True)

    def _frame(self, limits: Range, *, with_nulls: bool = False) -> DataFrame:
        """Read a range in one query."""
        piece = Slice(ranges=(limits,), with_nulls=with_nulls, at_once=True)
        return self.source.frame(self.plan, piece)

    def _beyond(self, highest: Mark | None, bookmark: Mapping[str, Any]) -> Piece:
        """Read what lies from the highest key on by now, in one query; the bookmark stays.

        A row that was changed while the slices were read has left them, and must not be missing
        in a read that is taken for the whole table, or for a whole range of it. It may have got the
        highest key itself, so rows that have it come twice: a key tells that they are one.
        """
        limits = self.whole
        if highest:
            limits = replace(limits, low=Edge(highest[:1]))
        return Piece(frame=self._frame(limits), bookmark=bookmark, is_last=True)

    def passed(self) -> dict[str, Any]:
        """Return the bookmark of one who reads all rows of now in another way."""
        survey, bookmark = self.look_ahead(), dict(self.plan.bookmark)
        return self._marked(bookmark, self._highest(survey)) if survey.highest else bookmark

    @property
    def _unread(self) -> Range:
        """Return what no run has read yet: the rows at the bookmark itself are known."""
        is_begun = self.start and self.window.from_bookmark
        return self.whole.beyond(self.start) if self.start and is_begun else self.whole

    def _highest(self, survey: Survey) -> Mark:
        """Return the highest key, or the bookmark where nothing lies beyond it any more."""
        highest = survey.highest or ()
        if not (self.start and self.window.from_bookmark) or survey.lowest:
            return highest
        return self.start

    def _stop_in_heap(self, survey: Survey) -> Mark | None:
        """Return where a limited run ends, if that is among the rows of the bookmark's first part.

        They are read again by the run that comes beyond them, and until then each run goes on
        behind the one before: or all of them would read the same rows again and again.
        """
        start, plan, limit = self.start, self.plan, self.plan.max_rows
        if limit is None or len(self.key.parts) == 1 or not (start and self.window.from_bookmark):
            return None
        stop = survey.mark_at(min(limit, plan.slice_rows))
        if stop and stop[0] == start[0] and plan.slice_rows < limit:
            far = replace(plan, slice_rows=limit)
            stop = look_ahead(self.source, far, self.key, self._unread).mark_at(limit)
        is_inside = stop and stop[0] == start[0] and stop != survey.highest
        return stop if is_inside else None

    def _marked(self, bookmark: Mapping[str, Any], mark: Mark) -> dict[str, Any]:
        for part, text in zip(self.key.parts, mark, strict=True):
            if part.is_number and not is_value(part, int(text) if part.is_integer else text):
                raise DataError(
                    f"{self.stream}: the key {part.name} is {text}, which no bookmark can hold; "
                    "leave such rows out by where"
                )
        value = self.key.to_json(mark)
        return {**bookmark, "replication_key": self.key.name, "replication_key_value": value}

    def _fixed(self, whole: Range, *, below_bookmark: bool = False) -> Iterator[Piece]:
        """Yield the slices of a range that says nothing about the state."""
        plan = replace(self.plan, max_rows=None)
        survey = look_ahead(self.source, plan, self.key, whole)
        if survey.lowest:
            for part in slices(self.source, plan, self.key, whole, survey=survey):
                frame = self.source.frame(plan, part.piece) if part.piece.ranges else None
                yield Piece(frame=frame, bookmark=plan.bookmark, below_bookmark=below_bookmark)

    def _announce(self, survey: Survey) -> None:
        """Tell what the look ahead shows: how much will come, and what looks wrong."""
        plan, rows = self.plan, survey.seen_rows
        is_all = plan.where is None and plan.sample is None and self.start is None
        # One row only says that there is one: the next mark is far.
        expected = max(rows, plan.table.rows or 0) if is_all else rows
        if expected > 1:
            report("expected", self.stream, rows=expected)
        if survey.highest is None or not survey.lowest:
            self._warn_if_ahead(survey.highest)
        if survey.highest is None:
            return
        first, highest = self.key.parts[0], survey.highest[0]
        if first.is_time and is_future(self.source.spark, first, highest):
            logger.warning(
                "%s: the highest %s, %s, is in the future; rows that are written until then are "
                "below the bookmark and will be missed: correct it, or leave it out by where",
                self.stream,
                first.name,
                highest,
            )
        if is_heap(survey.marks):
            logger.warning(
                "%s: more than %d rows share the %s %s; a slice cannot end between them: a key "
                "such as [%s, id] can be cut anywhere",
                self.stream,
                rows,
                self.key.label,
                ", ".join(survey.marks[0][1]),
                first.name,
            )

    def _warn_if_ahead(self, highest: Mark | None) -> None:
        """Say that the source ends below the bookmark, which stays."""
        if not (self.start and self.window.from_bookmark):
            return
        if highest is None:
            beyond = Range().beyond(self.start)
            highest = look_ahead(self.source, self.plan, self.key, beyond, top=Range()).highest
        elif len(self.key.parts) == 1 or is_same_mark(self.key, highest, self.start):
            return
        if highest:
            logger.warning(
                "%s: the bookmark %s is ahead of the source, whose highest %s is %s; it stays",
                self.stream,
                ", ".join(self.start),
                self.key.label,
                ", ".join(highest),
            )
