"""Segments are committed in the background, and STATE leaves as it becomes true."""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import SparkSession

from singer_spark.assignment import Assignment
from singer_spark.protocol import is_unfinished
from singer_spark.report import INTERVAL_SECONDS, is_reporting, report_progress
from target_spark_delta.commits.completion import activate_version
from target_spark_delta.commits.lanes import Job, Lanes
from target_spark_delta.commits.reports import tell_table
from target_spark_delta.commits.segment_commit import load_segment
from target_spark_delta.commits.states import Received, States, is_syncing, names_streams, state_of
from target_spark_delta.intake.batch_files import Manifest, remove_files
from target_spark_delta.intake.segments import Segment
from target_spark_delta.settings import Settings
from target_spark_delta.sink import SparkDeltaSink
from target_spark_delta.streams.destination import Destination
from target_spark_delta.streams.safety import needs_other_key
from target_spark_delta.table.commit import Commit

logger = logging.getLogger(__name__)
_SEGMENTS_AHEAD = 2


@dataclass(slots=True)
class _Waiting:
    """What a stream has received that a STATE may speak of: records, then a version to activate."""

    sink: SparkDeltaSink
    segment: Segment | None = None
    version: int | None = None
    number: int = 0
    since: float = field(default_factory=time.monotonic)


class CommitQueue:
    """What is on its way from the spool to a commit, and the STATEs that wait for it.

    Args:
        settings: What the user chose.
        loader: Does the commits.
        assignment: The run that they are made for.
    """

    def __init__(self, settings: Settings, loader: Lanes, assignment: Assignment) -> None:
        self.batches: Counter[str] = Counter()
        self.quarantined = 0
        self.has_all_input = False
        self.settings = settings
        self.loader = loader
        self.assignment = assignment
        self._segments: dict[int, Segment] = {}
        self._files: dict[int, list[Manifest]] = {}
        self._held_files: dict[SparkDeltaSink, list[Segment]] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._ends: dict[str, int] = {}
        self._checkpoints = States()
        self._owners: dict[int, str] = {}
        self.state: Received | None = None
        self._progress_at = 0.0
        self._told: set[str] = set()

    def take_state(self, state: bytes, line: int) -> None:
        """Take a STATE that came after everything begun so far."""
        before = self.state
        self.state = Received(state, line, frozenset(self._checkpoints.pending))
        self._checkpoints.hold(state)
        self._submit_held_files(before)
        for stream in list(self._waiting):
            # A commit that replaces a part carries no STATE but the last of the input.
            if not self._waiting[stream].sink.destination.replaces_parts:
                self._submit_waiting(stream, before)
        self.release()

    def declare(self, sink: SparkDeltaSink) -> None:
        """Note a stream; what is read whole, or a range of it, acts even if no record comes."""
        destination = sink.destination
        is_replaced = destination.replaces_range or destination.retires_partitions
        if destination.scope and (destination.overwrites or is_replaced):
            self.hold_back(destination.stream)

    def begin(self, segment: Segment, destination: Destination) -> None:
        """Note that a segment has records, with which its stream may become pending to its end."""
        self._submit_waiting(segment.stream, self.state)
        self._begin(segment.id, segment.stream)
        visible_with = segment.id
        if destination.overwrites or destination.stages_parts:
            visible_with = self.hold_back(segment.stream)
        elif destination.replaces_parts:
            # A run that goes on from a STATE would empty the same parts again.
            self.hold_back(segment.stream)
        if segment.manifest:
            self._files.setdefault(visible_with, []).append(segment.manifest)
        self.loader.warm_up()

    def submit(self, sink: SparkDeltaSink, segment: Segment) -> None:
        """Have a segment committed."""
        self._submit(sink, segment, self.state)

    def _submit(
        self,
        sink: SparkDeltaSink,
        segment: Segment,
        state: Received | None,
        if_made: Received | None = None,
    ) -> None:
        """Have a segment committed, with a STATE or, where the run made the table, with another."""
        stream = sink.destination.stream
        self.batches[stream] += 1
        self._segments[segment.id] = segment
        commit = self.commit_of(sink, state)
        # In a table that the run has made there is nothing to remove at the end.
        made = self.commit_of(sink, if_made or state, is_end=True)

        def load(spark: SparkSession) -> None:
            load_segment(spark, sink.work, segment, commit(), if_made=made())
            if segment.loaded and not sink.destination.overwrites:
                self.tell_first(spark, sink)

        self.loader.submit(stream, segment.id, load)
        # Spooling runs ahead of the commits, but not without bound.
        while self.loader.pending > self.settings.parallelism * _SEGMENTS_AHEAD:
            self.loader.wait_for_one()
            self.collect()

    def hold_files(self, sink: SparkDeltaSink, segment: Segment) -> None:
        """Keep files to append until the STATE that speaks of them, so that it is exactly once."""
        self._held_files.setdefault(sink, []).append(segment)

    def hold(self, sink: SparkDeltaSink, segment: Segment) -> None:
        """Keep a segment until a STATE speaks of it, which its commit then carries.

        It waits for no longer than until more of its stream comes, and `batch_wait_seconds`.
        """
        self._waiting[sink.destination.stream] = _Waiting(sink, segment)

    def submit_due(self) -> None:
        """Have the segments committed that have waited long enough for a STATE."""
        latest = time.monotonic() - self.settings.batch_wait_seconds
        for stream, waiting in list(self._waiting.items()):
            if waiting.since <= latest:
                self._submit_waiting(stream, self.state)

    def submit_held(self) -> None:
        """Have everything committed that waits for a STATE, though none has come."""
        self._submit_held_files(self.state)
        for stream in list(self._waiting):
            self._submit_waiting(stream, self.state)

    def _submit_held_files(self, before: Received | None) -> None:
        """Have files and the records beside them committed, the last one with the new STATE."""
        held, self._held_files = self._held_files, {}
        for sink, segments in held.items():
            records = sink.cut(at_end=True)
            *first, last = [*([records] if records else []), *segments]
            for segment in first:
                self._submit(sink, segment, before)
            self._submit(sink, last, self.state)

    def _submit_waiting(self, stream: str, before: Received | None) -> None:
        """Have committed what waits of a stream, the last of it with the newest STATE."""
        waiting = self._waiting.pop(stream, None)
        if waiting is None:
            return
        sink, segment, version = waiting.sink, waiting.segment, waiting.version
        if version is None:
            if segment:
                self._submit(sink, segment, self.state)
            return
        if segment:
            # In a table that the run has made no version is older, so its rows are all there is.
            is_only = sink.versions == {version}
            self._submit(sink, segment, before, if_made=self.state if is_only else None)
        commit = self.commit_of(sink, self.state)
        self.do(
            sink,
            lambda spark: activate_version(
                spark, sink.work, version, replace(commit(), batch=None)
            ),
            number=waiting.number,
        )

    def activate(self, sink: SparkDeltaSink, version: int) -> None:
        """Have the rows of older versions retired, after everything before."""
        stream = sink.destination.stream
        waiting = self._waiting.get(stream)
        if waiting is None or waiting.version is not None:
            self._submit_waiting(stream, self.state)
            waiting = self._waiting[stream] = _Waiting(sink)
        waiting.version, waiting.number = version, _new_id(stream)
        self._begin(waiting.number, stream)

    def is_confirmed(self, sink: SparkDeltaSink) -> bool:
        """Say whether an ACTIVATE_VERSION or a STATE tells that a stream is complete.

        Taps also activate a version before they read, so where no record came a STATE must follow.
        """
        if 0 < sink.last_line < sink.activated_line:
            return True
        end = sink.last_line or sink.activated_line or sink.declared_line
        if self.state is None or self.state.line < end:
            return False
        value = self.state.value
        return not (is_unfinished(state_of(sink.source, value)) or is_syncing(sink.source, value))

    def with_key(self, destination: Destination) -> Destination:
        """Return a stream's destination, once it is known what its table was merged by.

        Rows that are loaded afresh by another key take the place of those that are there.
        """
        if not destination.retires or destination.keeps_history:
            return destination
        answers: list[bool] = []
        stream = destination.stream
        self.loader.submit(
            stream,
            _new_id(stream),
            lambda spark: answers.append(needs_other_key(spark, destination)),
        )
        while not answers:
            self.loader.wait_for_one()
            self.collect()
        return replace(destination, is_rekeyed=answers[0])

    def tell_first(self, spark: SparkSession, sink: SparkDeltaSink) -> None:
        """Tell by what a table is known again once it has rows, for a run that goes on from them.

        Where the run fails later it leaves a checkpoint, which belongs to this table.
        """
        run, stream = self.assignment, sink.destination.stream
        if is_reporting() and stream not in self._told and stream not in run.tables:
            self._told.add(stream)
            tell_table(spark, sink.work, run, sink.source)

    def drain(self) -> None:
        """Wait until everything is committed."""
        while self.loader.wait_for_one():
            self.collect()
        self.collect()

    def settle(self) -> None:
        """Let what is under way end, and release its STATE, before an error ends the run."""
        self.loader.settle()
        self.collect()

    def collect(self) -> None:
        """Take note of what has been committed, release STATE, and raise what failed."""
        while done := self.loader.completed():
            for number in done:
                self._end(number)
                if segment := self._segments.pop(number, None):
                    segment.remove()
                    self.quarantined += segment.rejected
                    logger.info("%s: %d record(s) loaded", segment.stream, segment.loaded)
                self._clean_up(number)
            self.release()
            self.note_progress()

    def note_progress(self) -> None:
        """Let the runner know that records arrive or are committed, now and then."""
        now = time.monotonic()
        if now >= self._progress_at + INTERVAL_SECONDS:
            self._progress_at = now
            report_progress()

    def _begin(self, number: int, stream: str) -> None:
        self._checkpoints.begin(number)
        self._owners[number] = stream

    def _end(self, number: int) -> None:
        self._checkpoints.commit(number)
        self._owners.pop(number, None)

    def do(self, sink: SparkDeltaSink, job: Job, *, number: int = 0) -> None:
        """Have something done in a stream's order that counts as a segment of it."""
        stream = sink.destination.stream
        number = number or _new_id(stream)
        self._begin(number, stream)
        self.loader.submit(stream, number, job)

    def is_held_back(self, sink: SparkDeltaSink) -> bool:
        """Say whether every STATE waits for a stream's end."""
        return sink.destination.stream in self._ends

    def end_stream(self, sink: SparkDeltaSink, job: Job | None) -> None:
        """End a stream that STATEs wait for, by a last job if there is something to do."""
        number = self._ends[sink.destination.stream]
        if job:
            self.loader.submit(sink.destination.stream, number, job)
        else:
            self._end(number)

    def hold_back(self, stream: str) -> int:
        """Hold back every STATE from now on until the stream's end."""
        if stream not in self._ends:
            self._ends[stream] = _new_id(stream)
            self._begin(self._ends[stream], stream)
        return self._ends[stream]

    def commit_of(
        self, sink: SparkDeltaSink, state: Received | None, *, is_end: bool = False
    ) -> Callable[[], Commit]:
        """Return what tells, once its turn has come, what a commit says of itself.

        Where the end of a stream removes rows no commit before it carries a STATE.
        """
        stream = sink.destination.stream
        is_last = self.has_all_input and self.is_confirmed(sink)
        if sink.destination.replaces_parts and not is_last:
            state = None
        if sink.destination.is_true_at_end and not is_end:
            state = None
        commit = Commit(
            pipeline=self.assignment.pipeline,
            run_id=self.assignment.run_id,
            stream=stream,
            batch=self.batches[stream],
            state=state_of(sink.source, state.value if state else None),
            state_of=sink.source if sink.source != stream else None,
            key=sink.destination.merges_by,
            appends=sink.destination.appends and not sink.destination.bookmarks,
        )
        others = self._others(stream, state)
        return lambda: commit if self.loader.are_done(others) else replace(commit, state=None)

    def _others(self, stream: str, state: Received | None) -> Collection[int]:
        """Return what must be committed of other streams before a commit may carry a STATE.

        What came before it of the stream itself is, or the commit is not made.
        """
        if state is None or names_streams(state.value):
            return ()
        return {one for one in state.waits_for if self._owners.get(one, stream) != stream}

    def _clean_up(self, number: int) -> None:
        """Remove the BATCH files whose rows are visible now, unless another stream needs them."""
        visible = self._files.pop(number, [])
        needed = {manifest.line for waiting in self._files.values() for manifest in waiting}
        for manifest in visible:
            if self.settings.clean_up_batch_files and manifest.line not in needed:
                remove_files(manifest.files, manifest.roots)

    def release(self) -> None:
        """Write the newest STATE that has become true."""
        state = self._checkpoints.release()
        if state is not None:
            sys.stdout.write(f"{state.decode()}\n")
            sys.stdout.flush()


def _new_id(stream: str) -> int:
    """Return a number for what counts as a segment of a stream and has no records."""
    return Segment(stream, Path()).id
