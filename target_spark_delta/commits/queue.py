"""Segments are submitted to be committed in order, and STATE leaves as it becomes true."""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import SparkSession

from singer_spark.assignment import Assignment
from singer_spark.report import INTERVAL_SECONDS, is_reporting, report_progress
from target_spark_delta.commits.lanes import Job, Lanes
from target_spark_delta.commits.reports import report_table
from target_spark_delta.commits.segment_commit import load_segment
from target_spark_delta.commits.states import Received, States, state_of
from target_spark_delta.intake.batch_files import Manifest, remove_files
from target_spark_delta.intake.segments import Segment, new_id
from target_spark_delta.settings import Settings
from target_spark_delta.sink import SparkDeltaSink
from target_spark_delta.streams.destination import Destination
from target_spark_delta.table.commit import Commit

logger = logging.getLogger(__name__)
_SEGMENTS_AHEAD = 2


class CommitQueue:
    """What is on its way from the spool to a commit, and the STATEs that wait for it."""

    def __init__(self, settings: Settings, lanes: Lanes, assignment: Assignment) -> None:
        self.settings = settings
        self.lanes = lanes
        self.assignment = assignment
        self.states = States()
        self.batches: Counter[str] = Counter()
        self.quarantined = 0
        self.has_all_input = False
        self._segments: dict[int, Segment] = {}
        self._files: dict[int, list[Manifest]] = {}
        self._ends: dict[str, int] = {}
        self._progress_at = 0.0
        self._reported: set[str] = set()

    def begin(self, segment: Segment, destination: Destination) -> None:
        """Note that a segment has records, with which its stream may become pending to its end."""
        self.states.begin(segment.id, segment.stream)
        visible_with = segment.id
        if destination.overwrites or destination.stages_parts:
            visible_with = self.hold_back(segment.stream)
        elif destination.replaces_parts:
            # A run that goes on from a STATE would empty the same parts again.
            self.hold_back(segment.stream)
        if segment.manifest:
            self._files.setdefault(visible_with, []).append(segment.manifest)
        self.lanes.warm_up()

    def submit(
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
                self.report_first(spark, sink)

        self.lanes.submit(stream, segment.id, load)
        # Spooling runs ahead of the commits, but not without bound.
        while self.lanes.pending > self.settings.parallelism * _SEGMENTS_AHEAD:
            self.lanes.wait_for_one()
            self.collect()

    def commit_of(
        self, sink: SparkDeltaSink, state: Received | None, *, is_end: bool = False
    ) -> Callable[[], Commit]:
        """Return what tells, once its turn has come, what a commit says of itself.

        Where the end of a stream removes rows no commit before it carries a STATE.
        """
        destination, run = sink.destination, self.assignment
        is_last = self.has_all_input and self.is_confirmed(sink)
        if destination.replaces_parts and not is_last:
            state = None
        if destination.is_true_at_end and not is_end:
            state = None
        commit = Commit(
            pipeline=run.pipeline,
            run_id=run.run_id,
            stream=destination.stream,
            batch=self.batches[destination.stream],
            state=state_of(sink.source, state.value if state else None),
            state_of=destination.source,
            key=destination.merges_by,
            appends=destination.appends and not destination.bookmarks,
        )
        others = self.states.rests_on(destination.stream, state)
        return lambda: commit if self.lanes.are_done(others) else replace(commit, state=None)

    def is_confirmed(self, sink: SparkDeltaSink) -> bool:
        """Say whether an ACTIVATE_VERSION or a STATE tells that a stream is complete.

        Taps also activate a version before they read, so where no record came a STATE must follow.
        """
        if 0 < sink.last_line < sink.activated_line:
            return True
        end = sink.last_line or sink.activated_line or sink.declared_line
        return self.states.shows_end(sink.source, end)

    def do(self, sink: SparkDeltaSink, job: Job) -> None:
        """Have something done in a stream's order that counts as a segment of it."""
        stream, number = sink.destination.stream, new_id()
        self.states.begin(number, stream)
        self.lanes.submit(stream, number, job)

    def wait_for(self, stream: str, job: Job) -> None:
        """Have something done in a stream's order, and wait until it is."""
        is_done = []

        def noted(spark: SparkSession) -> None:
            job(spark)
            is_done.append(True)

        self.lanes.submit(stream, new_id(), noted)
        while not is_done:
            self.lanes.wait_for_one()
            self.collect()

    def hold_back(self, stream: str) -> int:
        """Hold back every STATE from now on until the stream's end."""
        if stream not in self._ends:
            self._ends[stream] = new_id()
            self.states.begin(self._ends[stream], stream)
        return self._ends[stream]

    def is_held_back(self, sink: SparkDeltaSink) -> bool:
        """Say whether every STATE waits for a stream's end."""
        return sink.destination.stream in self._ends

    def end_stream(self, sink: SparkDeltaSink, job: Job | None) -> None:
        """End a stream that STATEs wait for, by a last job if there is something to do."""
        number = self._ends[sink.destination.stream]
        if job:
            self.lanes.submit(sink.destination.stream, number, job)
        else:
            self.states.commit(number)

    def report_first(self, spark: SparkSession, sink: SparkDeltaSink) -> None:
        """Report by what a table is known again once it has rows, for a run that goes on from them.

        Where the run fails later it leaves a checkpoint, which belongs to this table.
        """
        run, stream = self.assignment, sink.destination.stream
        if is_reporting() and stream not in self._reported and stream not in run.tables:
            self._reported.add(stream)
            report_table(spark, sink.work, run)

    def drain(self) -> None:
        """Wait until everything is committed."""
        while self.lanes.wait_for_one():
            self.collect()
        self.collect()

    def settle(self) -> None:
        """Let what is under way end, and release its STATE, before an error ends the run."""
        self.lanes.settle()
        self.collect()

    def collect(self) -> None:
        """Take note of what has been committed, release STATE, and raise what failed."""
        while done := self.lanes.completed():
            for number in done:
                self.states.commit(number)
                if segment := self._segments.pop(number, None):
                    segment.remove()
                    self.quarantined += segment.rejected
                    logger.info("%s: %d record(s) loaded", segment.stream, segment.loaded)
                self._clean_up(number)
            self.release()
            self.report_progress()

    def release(self) -> None:
        """Write the newest STATE that has become true."""
        state = self.states.release()
        if state is not None:
            sys.stdout.write(f"{state.decode()}\n")
            sys.stdout.flush()

    def report_progress(self) -> None:
        """Let the runner know that records arrive or are committed, now and then."""
        now = time.monotonic()
        if now >= self._progress_at + INTERVAL_SECONDS:
            self._progress_at = now
            report_progress()

    def _clean_up(self, number: int) -> None:
        """Remove the BATCH files whose rows are visible now, unless another stream needs them."""
        visible = self._files.pop(number, [])
        needed = {manifest.line for waiting in self._files.values() for manifest in waiting}
        for manifest in visible:
            if self.settings.clean_up_batch_files and manifest.line not in needed:
                remove_files(manifest.files, manifest.roots)
