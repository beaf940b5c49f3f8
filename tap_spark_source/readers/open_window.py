"""A window whose bounds are values of the source, and what lies ahead in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

from singer_spark.errors import DataError, SettingsError
from singer_spark.report import report
from singer_spark.shown import shown
from tap_spark_source.dialects.statements import KeyNames, SparkSQL
from tap_spark_source.plan.key import (
    Edge,
    Key,
    Mark,
    Range,
    Slice,
    Survey,
    is_empty,
    is_same_mark,
    is_value,
    share_one_value,
)
from tap_spark_source.plan.read_plan import ReadPlan
from tap_spark_source.plan.warnings import inform, warn
from tap_spark_source.plan.window import Bounds, Window, bad_bound
from tap_spark_source.readers.chunks import look_ahead
from tap_spark_source.readers.marks import is_future, looked_back, to_mark
from tap_spark_source.sources import AnySource
from tap_spark_source.sources.base import TableSource
from tap_spark_source.sources.kafka.topics import KafkaSource
from tap_spark_source.sources.row_json import BELOW, REREAD, RowWatch, known_rows

_SPARK = SparkSQL()


def bounds_of(source: AnySource, plan: ReadPlan) -> Bounds:
    """Return the ends of a plan's window, if it has one."""
    opened = None if isinstance(source, KafkaSource) else open_window(source, plan)
    if opened is None:
        return Bounds()
    reread, first = opened.reread, Key(parts=opened.key.parts[:1])
    marks = {"start": opened.start, "end": opened.end}
    if reread and reread.low:
        marks["below"] = reread.low.mark
    return Bounds(**{name: first.to_json(mark[:1]) for name, mark in marks.items() if mark})


def open_window(source: TableSource, plan: ReadPlan) -> OpenWindow | None:
    """Turn the values that a plan's window was given, if it has one, into those of the source."""
    window, key = plan.window, plan.key
    if window is None or key is None:
        return None
    try:
        # No key lies between a bound and the next value above it that the key can have.
        start, end = (
            None if one is None else to_mark(source.spark, key, one, rounds_up=window.is_fixed)
            for one in (window.start, window.end)
        )
    except ValueError as error:
        raise bad_bound(plan.table.stream, window, error) from error
    is_wrong = window.start == window.end or start != end
    if window.is_fixed and start and end and is_wrong and is_empty(key.parts[0], start[0], end[0]):
        raise SettingsError(
            f"{plan.table.stream}: window_start {start[0]} is not below window_end {end[0]}, so "
            "that no key lies between them; correct them"
        )
    return OpenWindow(source=source, plan=plan, window=window, key=key, start=start, end=end)


class Ahead(NamedTuple):
    """What a source shows from the bookmark on: `survey` is of the rows that no run has read yet.

    `both` is of these and of what the lookback reads again, where one slice holds them all.
    """

    survey: Survey
    both: Survey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWindow:
    """A window whose bounds are values of the source."""

    source: TableSource
    plan: ReadPlan
    window: Window
    key: Key
    start: Mark | None
    end: Mark | None
    digest: RowWatch | None = None

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
        first = self.begun[:1] if self.begun else self.start
        end = Edge(self.end, is_inclusive=False) if self.end else None
        return Range(low=Edge(first) if first else None, high=end)

    @property
    def begun(self) -> Mark | None:
        """Return the bookmark, where the window begins at one."""
        return self.start if self.window.from_bookmark else None

    @property
    def reread(self) -> Range | None:
        """Return the range below the bookmark that the lookback reads again."""
        begun, lookback = self.begun, self.window.lookback
        if not (begun and lookback):
            return None
        lower = looked_back(self.source.spark, self.key, begun, lookback)
        high = Edge(begun[:1], is_inclusive=False)
        return Range(low=Edge(lower), high=high) if lower else None

    @property
    def takes_nulls(self) -> bool:
        """Say whether rows without a key are read along."""
        return self.window.null_keys == "include" and self.key.is_nullable

    def is_known(self, survey: Survey) -> bool:
        """Say whether the source shows what an earlier run has sent, and nothing else."""
        plan, told = self.plan, known_rows(self.plan.bookmark)
        begun, highest = self.begun, survey.highest
        if not (told and begun and highest and plan.skips_known and self._can_know):
            return False
        # More than a slice is rather read by several connections.
        is_more = survey.lowest or told["rows"] > plan.slice_rows
        if is_more or not is_same_mark(self.key, highest, begun):
            return False
        reread, limits = self.reread, self.whole.up_to(begun)
        if reread:
            limits = replace(limits, low=reread.low)
        part = Slice(ranges=(limits,), with_nulls=self.takes_nulls)
        if self.source.resent(plan, part).to_dict(plan) != told:
            return False
        inform(self.stream, f"nothing new; the {told['rows']} rows at the bookmark are known")
        return True

    def next_digest(self, survey: Survey) -> RowWatch | None:
        """Return what adds up the rows that the next run reads again, where Spark can tell them."""
        end = self.highest(survey) if survey.highest else self.start
        is_left = self.plan.max_rows is not None or (self.plan.reads_on and not self.plan.at_once)
        if not (end and self._can_know) or is_left:
            return None
        lookback = self.window.lookback
        low = looked_back(self.source.spark, self.key, end, lookback) if lookback else None
        names = KeyNames.in_table(_SPARK, self.key)
        condition = names.within(Range(low=Edge((low or end)[:1])))
        if self.takes_nulls:
            condition = f"({condition}) or {names.missing()}"
        condition = f"coalesce({condition}, false)"
        return RowWatch(column=REREAD, plan=self.plan, condition=condition)

    @property
    def _can_know(self) -> bool:
        """Say whether Spark finds the rows of a range as the source does, each of them once."""
        plan = self.plan
        is_drawn = plan.sample is not None or plan.snapshot is not None or plan.late_stream
        return self._is_alike and not is_drawn

    @property
    def _is_alike(self) -> bool:
        """Say whether a range of the key holds the same rows in Spark as in the source."""
        plan, first = self.plan, self.key.parts[0]
        is_plain = all(part.sql is None for part in self.key.parts)
        is_plain = is_plain and not first.is_decimal_text and first.datatype != "binary"
        return is_plain and self.source.sorts_as_spark(plan.table, first)

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

    def look_ahead(self) -> Ahead:
        """Survey what comes from the bookmark on, and tell what that shows."""
        ahead = self._with_lookback()
        if ahead is None:
            # Rows at the bookmark itself do not count, or many of them would stop every run there.
            ahead = Ahead(look_ahead(self.source, self.plan, self.key, self.unread, top=self.whole))
        self._announce(ahead)
        return ahead

    def _with_lookback(self) -> Ahead | None:
        """Survey what the lookback reads as well, if one slice holds it all and rows are counted.

        None too where it does not show whether there is something new.
        """
        plan, reread = self.plan, self.reread
        is_apart = plan.late_stream or plan.at_once or plan.max_rows is not None
        if reread is None or self.below is None or is_apart:
            return None
        limits = replace(self.whole, low=reread.low)
        both = look_ahead(self.source, plan, self.key, limits, top=self.whole)
        is_new = self._is_new(both.highest)
        if is_new is None or both.mark_at(plan.slice_rows) is not None:
            return None
        return Ahead(both if is_new else replace(both, marks=()), both)

    def _is_new(self, highest: Mark | None) -> bool | None:
        """Say whether a row lies beyond the bookmark, None where that is the source's to say."""
        start = self.start or ()
        if highest is None or is_same_mark(self.key, highest, start):
            return False
        first = Key(parts=self.key.parts[:1])
        return True if not is_same_mark(first, highest[:1], start[:1]) else None

    @property
    def below(self) -> RowWatch | None:
        """Return what counts the rows below the bookmark in Spark, where it can tell them."""
        if not (self.start and self.plan.is_observed and self._is_alike):
            return None
        names = KeyNames.in_table(_SPARK, Key(parts=self.key.parts[:1]))
        condition = names.within(Range(high=Edge(self.start[:1], is_inclusive=False)))
        return RowWatch(column=BELOW, plan=self.plan, condition=condition, is_hashed=False)

    def frame(self, limits: Range, *, with_nulls: bool = False) -> DataFrame:
        """Read a range in one query."""
        part = Slice(ranges=(limits,), with_nulls=with_nulls, at_once=True)
        return self.source.frame(self.plan, part)

    def passed(self) -> dict[str, Any]:
        """Return the bookmark of one who reads all rows of now in another way."""
        survey, bookmark = self.look_ahead().survey, dict(self.plan.bookmark)
        return self.marked(bookmark, self.highest(survey)) if survey.highest else bookmark

    @property
    def unread(self) -> Range:
        """Return what no run has read yet: the rows at the bookmark itself are known."""
        return self.whole.beyond(self.begun) if self.begun else self.whole

    def highest(self, survey: Survey) -> Mark:
        """Return the highest key, or the bookmark where nothing lies beyond it any more."""
        begun = None if survey.lowest else self.begun
        return begun or survey.highest or ()

    def marked(self, bookmark: Mapping[str, Any], mark: Mark) -> dict[str, Any]:
        """Return a bookmark that has come to a mark."""
        for part, text in zip(self.key.parts, mark, strict=True):
            if part.is_number and not is_value(part, int(text) if part.is_integer else text):
                told = shown(text) if any(map(str.isdigit, text)) else text  # NaN is no value
                raise DataError(
                    f"{self.stream}: the key {part.name} is {told}, which no bookmark can "
                    "hold; leave such rows out by where"
                )
        value = self.key.to_json(mark)
        return {**bookmark, "replication_key": self.key.name, "replication_key_value": value}

    def _announce(self, ahead: Ahead) -> None:
        """Tell what the look ahead shows: how much will come, and what looks wrong."""
        plan, survey = self.plan, ahead.survey
        rows = (ahead.both or survey).seen_rows
        is_all = plan.filter is None and self.start is None
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
            warn(
                self.stream,
                f"the highest {first.name}, {shown(highest)}, is in the future; rows that are "
                "written until then are below the bookmark and will be missed: correct it, or "
                "leave it out by where",
            )
        if share_one_value(survey.marks):
            warn(
                self.stream,
                f"more than {rows} rows share the {self.key.label} "
                f"{shown(', '.join(survey.marks[0][1]))}; a slice cannot end between them: a key "
                f"such as [{first.name}, id] can be cut anywhere",
            )

    def _warn_if_ahead(self, highest: Mark | None) -> None:
        """Say that the source ends below the bookmark, which stays."""
        begun = self.begun
        if not begun:
            return
        if highest is None:
            beyond = Range().beyond(begun)
            highest = look_ahead(self.source, self.plan, self.key, beyond, top=Range()).highest
        elif len(self.key.parts) == 1 or is_same_mark(self.key, highest, begun):
            return
        if highest:
            warn(
                self.stream,
                f"the bookmark {shown(', '.join(begun))} is ahead of the source, whose highest "
                f"{self.key.label} is {shown(', '.join(highest))}; it stays",
            )
