"""Segments are committed in the background, and STATE leaves as it becomes true."""

from __future__ import annotations

import itertools
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from singer_spark.assignment import Assignment
from singer_spark.bookmark import is_unfinished
from singer_spark.errors import ProtocolError
from singer_spark.progress import INTERVAL_SECONDS, report_progress
from singer_spark.report import is_reporting
from target_spark_delta import identity, upkeep
from target_spark_delta.checkpoint import (
    Checkpoints,
    Received,
    is_syncing,
    names_streams,
    state_of,
)
from target_spark_delta.commit import Commit
from target_spark_delta.destination import Destination
from target_spark_delta.keys import needs_other_key
from target_spark_delta.load import (
    activate_version,
    check_identity,
    claim_table,
    drop_abandoned,
    drop_spooled,
    drop_staged,
    end_parts,
    load_segment,
    retire_gone,
    swap_in,
    tell_table,
)
from target_spark_delta.loader import Job, Loader
from target_spark_delta.manifest import Manifest, remove_files
from target_spark_delta.settings import Settings
from target_spark_delta.sink import SparkDeltaSink
from target_spark_delta.spool import Segment

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


class Flow:
    """What is on its way from the spool to a commit, and the STATEs that wait for it.

    Args:
        settings: What the user chose.
        loader: Does the commits.
        assignment: The run that they are made for.
    """

    def __init__(self, settings: Settings, loader: Loader, assignment: Assignment) -> None:
        self.batches: Counter[str] = Counter()
        self.quarantined = 0
        self.has_all_input = False
        self._settings = settings
        self._loader = loader
        self._assignment = assignment
        self._segments: dict[int, Segment] = {}
        self._files: dict[int, list[Manifest]] = {}
        self._held_files: dict[SparkDeltaSink, list[Segment]] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._ends: dict[str, int] = {}
        self._checkpoints = Checkpoints()
        self._owners: dict[int, str] = {}
        self._state: Received | None = None
        self._progress_at = 0.0
        self._told: set[str] = set()

    def take_state(self, state: bytes, line: int) -> None:
        """Take a STATE that came after everything begun so far."""
        before = self._state
        self._state = Received(state, line, frozenset(self._checkpoints.pending))
        self._checkpoints.hold(state)
        self._submit_held_files(before)
        for stream in list(self._waiting):
            # A commit that replaces a part carries no STATE but the last of the input.
            if not self._waiting[stream].sink.destination.replaces_parts:
                self._submit_waiting(stream, before)
        self._release()

    def declare(self, sink: SparkDeltaSink) -> None:
        """Note a stream; what is read whole, or a range of it, acts even if no record comes."""
        destination = sink.destination
        is_replaced = destination.replaces_range or destination.retires_partitions
        if destination.scope and (destination.overwrites or is_replaced):
            self._hold_back(destination.stream)

    def begin(self, segment: Segment, destination: Destination) -> None:
        """Note that a segment has records, with which its stream may become pending to its end."""
        self._submit_waiting(segment.stream, self._state)
        self._begin(segment.id, segment.stream)
        visible_with = segment.id
        if destination.overwrites:
            visible_with = self._hold_back(segment.stream)
        elif destination.replaces_parts:
            # A run that goes on from a STATE would empty the same parts again.
            self._hold_back(segment.stream)
        if segment.manifest:
            self._files.setdefault(visible_with, []).append(segment.manifest)
        self._loader.warm_up()

    def submit(self, sink: SparkDeltaSink, segment: Segment) -> None:
        """Have a segment committed."""
        self._submit(sink, segment, self._state)

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
        commit = self._commit(sink, state)
        # In a table that the run has made there is nothing to remove at the end.
        made = self._commit(sink, if_made or state, is_end=True)

        def load(spark: SparkSession) -> None:
            load_segment(spark, sink.work, segment, commit(), if_made=made())
            if segment.loaded and not sink.destination.overwrites:
                self._tell_first(spark, sink)

        self._loader.submit(stream, segment.id, load)
        # Spooling runs ahead of the commits, but not without bound.
        while self._loader.pending > self._settings.parallelism * _SEGMENTS_AHEAD:
            self._loader.wait_for_one()
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
        latest = time.monotonic() - self._settings.batch_wait_seconds
        for stream, waiting in list(self._waiting.items()):
            if waiting.since <= latest:
                self._submit_waiting(stream, self._state)

    def submit_held(self) -> None:
        """Have everything committed that waits for a STATE, though none has come."""
        self._submit_held_files(self._state)
        for stream in list(self._waiting):
            self._submit_waiting(stream, self._state)

    def _submit_held_files(self, before: Received | None) -> None:
        """Have files and the records beside them committed, the last one with the new STATE."""
        held, self._held_files = self._held_files, {}
        for sink, segments in held.items():
            records = sink.cut(at_end=True)
            *first, last = [*([records] if records else []), *segments]
            for segment in first:
                self._submit(sink, segment, before)
            self._submit(sink, last, self._state)

    def _submit_waiting(self, stream: str, before: Received | None) -> None:
        """Have committed what waits of a stream, the last of it with the newest STATE."""
        waiting = self._waiting.pop(stream, None)
        if waiting is None:
            return
        sink, segment, version = waiting.sink, waiting.segment, waiting.version
        if version is None:
            if segment:
                self._submit(sink, segment, self._state)
            return
        if segment:
            # In a table that the run has made no version is older, so its rows are all there is.
            is_only = sink.versions == {version}
            self._submit(sink, segment, before, if_made=self._state if is_only else None)
        commit = self._commit(sink, self._state)
        self._do(
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
            self._submit_waiting(stream, self._state)
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
        if self._state is None or self._state.line < end:
            return False
        value = self._state.value
        return not (is_unfinished(state_of(sink.source, value)) or is_syncing(sink.source, value))

    def end_streams(self, sinks: Collection[SparkDeltaSink]) -> None:
        """Do what waited for the end of streams, and release what was held back until then."""
        for sink in sinks:
            stream = sink.destination.stream
            if not sink.destination.replaces_parts or stream not in self._ends:
                continue
            # A tap that says nothing at all has nothing but the end of its output.
            is_mute = self._state is None and sink.destination.scope is None
            if self.is_confirmed(sink) or is_mute:
                self._end_parts(sink)
            elif self._state is not None:
                logger.warning(
                    "Stream %s: no STATE since its first record is released, because nothing says "
                    "that the stream is complete; the next run loads it again",
                    stream,
                )
        self._release()
        for sink in sinks:
            self._retire(sink)
            if sink.progress.waiting and not sink.destination.overwrites:
                self._do(sink, partial(drop_staged, work=sink.work))
        self._swap(sinks)

    def _retire(self, sink: SparkDeltaSink) -> None:
        """Have the rows retired that are gone at the source, after a whole read of all of them."""
        destination = sink.destination
        if destination.retires_partitions and self.is_confirmed(sink):
            return  # done with the end of its parts
        by_partition = destination.method == "partition-overwrite"
        if not destination.reloads or not (destination.merges or by_partition):
            return
        if destination.retires and self.is_confirmed(sink):
            commit, work = self._commit(sink, self._state, is_end=True), sink.work
            seen = sink.versions
            self._do(sink, lambda spark: retire_gone(spark, work, commit(), seen))
        elif by_partition or not destination.replaces_parts:
            logger.warning(
                "Stream %s was not read as a whole, so rows that are gone at the source stay",
                destination.stream,
            )

    def with_key(self, destination: Destination) -> Destination:
        """Return a stream's destination, once it is known what its table was merged by.

        Rows that are loaded afresh by another key take the place of those that are there.
        """
        if not destination.retires or destination.keeps_history:
            return destination
        answers: list[bool] = []
        stream = destination.stream
        self._loader.submit(
            stream,
            _new_id(stream),
            lambda spark: answers.append(needs_other_key(spark, destination)),
        )
        while not answers:
            self._loader.wait_for_one()
            self.collect()
        return replace(destination, is_rekeyed=answers[0])

    def _end_parts(self, sink: SparkDeltaSink) -> None:
        """Have removed what a complete stream had no record of in the parts that it replaces."""
        number = self._ends[sink.destination.stream]
        if sink.destination.acts_at_end:
            commit, work = self._commit(sink, self._state, is_end=True), sink.work
            job: Job = lambda spark: end_parts(spark, work, commit())  # noqa: E731
            self._loader.submit(sink.destination.stream, number, job)
        else:
            self._end(number)

    def _swap(self, sinks: Iterable[SparkDeltaSink]) -> None:
        """Let the rows of complete streams take their tables' place, and drop those of others."""
        unfinished = []
        for sink in sinks:
            has_come = sink.last_line or sink.activated_line or sink.destination.scope
            if not sink.destination.overwrites or not has_come:
                continue
            stream, work = sink.destination.stream, sink.work
            number = self._hold_back(stream)
            if self.is_confirmed(sink):
                self._loader.submit(stream, number, self._swapping(sink))
            else:
                unfinished.append(stream)
                self._loader.submit(stream, _new_id(stream), partial(drop_staged, work=work))
        self.drain()
        if unfinished:
            raise ProtocolError(
                f"nothing says that {', '.join(unfinished)} is complete: no ACTIVATE_VERSION and "
                "no final STATE came after its last record; its table stays as it was; look at "
                "the tap"
            )

    def _swapping(self, sink: SparkDeltaSink) -> Job:
        commit, work = self._commit(sink, self._state), sink.work

        def swap(spark: SparkSession) -> None:
            swap_in(spark, work, replace(commit(), replaces=True))
            self._tell_first(spark, sink)

        return swap

    def look_after_tables(self, sinks: Iterable[SparkDeltaSink]) -> None:
        """Have tables compacted and vacuumed, where that is asked."""
        for sink in sinks:
            if upkeep.is_asked(sink.destination):
                self._do(sink, partial(upkeep.look_after, destination=sink.destination))
        self.drain()

    def check_table(self, sink: SparkDeltaSink) -> None:
        """See that a stream's table is the one that the stored state belongs to, and claim it."""
        run, destination = self._assignment, sink.destination
        known = run.tables.get(destination.stream)
        # What is loaded as a whole needs nothing that was there before.
        if not (destination.is_whole or destination.reloads):
            identity.check_name(destination.table, run, destination.stream, sink.source)
            if known and not identity.check(known, destination.table, run, sink.source, None):
                work, source = sink.work, sink.source
                self._do(sink, lambda spark: check_identity(spark, work, run, source))
        is_plain = destination.appends and not destination.bookmarks and not destination.reloads
        if run.unread and is_plain:
            table, name = destination.table, sink.source
            self._do(sink, lambda spark: identity.check_unread(spark, table, run, name))
        sink.progress.has_claimed = destination.stream in run.claimed
        if run.claims and not sink.progress.has_claimed:
            # A run that held the lock before may still be at work, whether a record comes or not.
            commit, work = self._commit(sink, None), sink.work
            self._do(sink, lambda spark: claim_table(spark, work, commit()))

    def tell_tables(self, sinks: Collection[SparkDeltaSink]) -> None:
        """Tell the runner by what each table is known again."""
        if not is_reporting():
            return
        run = self._assignment
        for sink in sinks:
            to, work, source = sink.destination, sink.work, sink.source
            if sum(one.source == source for one in sinks) > 1:
                # Of several tables that a stream fills one may have had no row yet.
                identity.tell_absent(to.table, run, to.stream, source)
            is_told = identity.tell(to.table, run, to.stream, to.merges_by, None, source)
            known = run.tables.get(to.stream)
            if not is_told and (sink.last_line or (known and not known.is_absent)):
                self._do(sink, partial(tell_table, work=work, run=run, source=source))
        self.drain()

    def drop_abandoned(self, sinks: Iterable[SparkDeltaSink]) -> None:
        """Have the staged tables of killed runs dropped, once nothing of this one is staged.

        Who holds a pipeline's lock knows that no other run of it lives.
        """
        run = self._assignment
        in_catalog = (sink for sink in sinks if sink.destination.settings.catalog)
        # Spark is not started for this alone.
        if run.pipeline and run.generation is not None and self.batches:
            for sink in itertools.islice(in_catalog, 1):
                self._do(sink, partial(drop_abandoned, destination=sink.destination))
        self.drain()

    def _tell_first(self, spark: SparkSession, sink: SparkDeltaSink) -> None:
        """Tell by what a table is known again once it has rows, for a run that goes on from them.

        Where the run fails later it leaves a checkpoint, which belongs to this table.
        """
        run, stream = self._assignment, sink.destination.stream
        if is_reporting() and stream not in self._told and stream not in run.tables:
            self._told.add(stream)
            tell_table(spark, sink.work, run, sink.source)

    def drop_spooled(self, sinks: Iterable[SparkDeltaSink]) -> None:
        """Have the folder emptied that a remote Spark has read records from."""
        for sink in sinks:
            if staging := sink.destination.staging(self._assignment.run_id):
                self._do(sink, partial(drop_spooled, staging=staging))
                break
        self.drain()

    def drain(self) -> None:
        """Wait until everything is committed."""
        while self._loader.wait_for_one():
            self.collect()
        self.collect()

    def settle(self) -> None:
        """Let what is under way end, and release its STATE, before an error ends the run."""
        self._loader.settle()
        self.collect()

    def collect(self) -> None:
        """Take note of what has been committed, release STATE, and raise what failed."""
        while done := self._loader.completed():
            for number in done:
                self._end(number)
                if segment := self._segments.pop(number, None):
                    segment.remove()
                    self.quarantined += segment.rejected
                    logger.info("%s: %d record(s) loaded", segment.stream, segment.loaded)
                self._clean_up(number)
            self._release()
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

    def _do(self, sink: SparkDeltaSink, job: Job, *, number: int = 0) -> None:
        """Have something done in a stream's order that counts as a segment of it."""
        stream = sink.destination.stream
        number = number or _new_id(stream)
        self._begin(number, stream)
        self._loader.submit(stream, number, job)

    def _hold_back(self, stream: str) -> int:
        """Hold back every STATE from now on until the stream's end."""
        if stream not in self._ends:
            self._ends[stream] = _new_id(stream)
            self._begin(self._ends[stream], stream)
        return self._ends[stream]

    def _commit(
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
            pipeline=self._assignment.pipeline,
            run_id=self._assignment.run_id,
            stream=stream,
            batch=self.batches[stream],
            state=state_of(sink.source, state.value if state else None),
            state_of=sink.source if sink.source != stream else None,
            key=sink.destination.merges_by,
            appends=sink.destination.appends and not sink.destination.bookmarks,
        )
        others = self._others(stream, state)
        return lambda: commit if self._loader.are_done(others) else replace(commit, state=None)

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
            if self._settings.clean_up_batch_files and manifest.line not in needed:
                remove_files(manifest.files)

    def _release(self) -> None:
        state = self._checkpoints.release()
        if state is not None:
            sys.stdout.write(f"{state.decode()}\n")
            sys.stdout.flush()


def _new_id(stream: str) -> int:
    """Return a number for what counts as a segment of a stream and has no records."""
    return Segment(stream, Path()).id
