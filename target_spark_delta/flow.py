"""Segments are committed in the background, and STATE leaves as it becomes true."""

from __future__ import annotations

import logging
import os
import sys
import uuid
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from singer_spark.bookmark import is_unfinished
from singer_spark.errors import ProtocolError
from target_spark_delta import upkeep
from target_spark_delta.checkpoint import Checkpoints, is_syncing, state_of
from target_spark_delta.commit import Commit
from target_spark_delta.destination import Destination
from target_spark_delta.load import (
    activate_version,
    drop_spooled,
    drop_staged,
    empty_range,
    load_segment,
    swap_in,
)
from target_spark_delta.loader import Job, Loader
from target_spark_delta.manifest import Manifest, remove_files
from target_spark_delta.settings import Settings
from target_spark_delta.sink import SparkDeltaSink
from target_spark_delta.spool import Segment

logger = logging.getLogger(__name__)

_SEGMENTS_AHEAD = 2


class Flow:
    """What is on its way from the spool to a commit, and the STATEs that wait for it.

    Args:
        settings: What the user chose.
        loader: Does the commits.
    """

    def __init__(self, settings: Settings, loader: Loader) -> None:
        self.batches: Counter[str] = Counter()
        self.quarantined = 0
        self.has_all_input = False
        self._settings = settings
        self._loader = loader
        self._pipeline = os.environ.get("SINGER_SPARK_PIPELINE")
        self._run_id = os.environ.get("SINGER_SPARK_RUN_ID") or str(uuid.uuid4())
        self._segments: dict[int, Segment] = {}
        self._files: dict[int, list[Manifest]] = {}
        self._held_batches: dict[SparkDeltaSink, list[Segment]] = {}
        self._ends: dict[str, int] = {}
        self._checkpoints = Checkpoints()
        self._state: bytes | None = None
        self._state_line = 0

    def take_state(self, state: bytes, line: int) -> None:
        """Take a STATE that came after everything begun so far."""
        before, self._state, self._state_line = self._state, state, line
        self._checkpoints.hold(state)
        self._submit_held_batches(before)
        self._release()

    def declare(self, sink: SparkDeltaSink) -> None:
        """Note a stream; what is read whole, or a range of it, acts even if no record comes."""
        destination = sink.destination
        if destination.scope and (destination.overwrites or destination.replaces_range):
            self._hold_back(destination.stream)

    def begin(self, segment: Segment, destination: Destination) -> None:
        """Note that a segment has records, with which its stream may become pending to its end."""
        self._checkpoints.begin(segment.id)
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
        self._submit(sink, segment, segment.state or self._state)

    def _submit(self, sink: SparkDeltaSink, segment: Segment, state: bytes | None) -> None:
        stream = sink.destination.stream
        self.batches[stream] += 1
        self._segments[segment.id] = segment
        commit = self._commit(sink, state)
        self._loader.submit(
            stream, segment.id, lambda spark: load_segment(spark, sink.work, segment, commit)
        )
        # Spooling runs ahead of the commits, but not without bound.
        while self._loader.pending > self._settings.parallelism * _SEGMENTS_AHEAD:
            self._loader.wait_for_one()
            self.collect()

    def hold_batch(self, sink: SparkDeltaSink, segment: Segment) -> None:
        """Keep files to append until the STATE that speaks of them, so that it is exactly once."""
        self._held_batches.setdefault(sink, []).append(segment)

    def submit_held_batches(self) -> None:
        """Have the files committed that wait for a STATE, though none has come."""
        self._submit_held_batches(self._state)

    def _submit_held_batches(self, before: bytes | None) -> None:
        """Have files and the records beside them committed, the last one with the new STATE."""
        held, self._held_batches = self._held_batches, {}
        for sink, segments in held.items():
            records = sink.cut(at_end=True)
            *first, last = [*([records] if records else []), *segments]
            for segment in first:
                self._submit(sink, segment, before)
            self._submit(sink, last, self._state)

    def activate(self, sink: SparkDeltaSink, version: int) -> None:
        """Have the rows of older versions retired, after everything before."""
        commit = replace(self._commit(sink, None), batch=None)
        self._do(sink, lambda spark: activate_version(spark, sink.destination, version, commit))

    def is_confirmed(self, sink: SparkDeltaSink) -> bool:
        """Say whether an ACTIVATE_VERSION or a STATE tells that a stream is complete.

        Taps also activate a version before they read, so where no record came a STATE must follow.
        """
        if 0 < sink.last_line < sink.activated_line:
            return True
        state = state_of(sink.source, self._state)
        is_at_work = is_unfinished(state) or is_syncing(sink.source, self._state)
        end = sink.last_line or sink.activated_line or sink.declared_line
        return self._state_line > end and not is_at_work

    def end_streams(self, sinks: Collection[SparkDeltaSink]) -> None:
        """Do what waited for the end of streams, and release what was held back until then."""
        for sink in sinks:
            stream = sink.destination.stream
            if not sink.destination.replaces_parts or stream not in self._ends:
                continue
            if self.is_confirmed(sink):
                self._end_range(sink)
            elif self._state is not None:
                logger.warning(
                    "Stream %s: no STATE since its first record is released, because nothing says "
                    "that the stream is complete; the next run loads it again",
                    stream,
                )
        self._release()
        self._swap(sinks)

    def _end_range(self, sink: SparkDeltaSink) -> None:
        """Have the range emptied that a complete stream was read from, if no record has done it."""
        number = self._ends[sink.destination.stream]
        if sink.destination.replaces_range:
            commit = self._commit(sink, self._state)
            job = partial(empty_range, work=sink.work, commit=commit)
            self._loader.submit(sink.destination.stream, number, job)
        else:
            self._checkpoints.commit(number)

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
                commit = self._commit(sink, self._state)
                self._loader.submit(stream, number, partial(swap_in, work=work, commit=commit))
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

    def look_after_tables(self, sinks: Iterable[SparkDeltaSink]) -> None:
        """Have tables compacted and vacuumed, where that is asked."""
        for sink in sinks:
            if upkeep.is_asked(sink.destination):
                self._do(sink, partial(upkeep.look_after, destination=sink.destination))
        self.drain()

    def drop_spooled(self, sinks: Iterable[SparkDeltaSink]) -> None:
        """Have the folder emptied that a remote Spark has read records from."""
        for sink in sinks:
            if staging := sink.destination.staging(self._run_id):
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
                self._checkpoints.commit(number)
                if segment := self._segments.pop(number, None):
                    segment.remove()
                    self.quarantined += segment.rejected
                    logger.info("%s: %d record(s) loaded", segment.stream, segment.loaded)
                self._clean_up(number)
            self._release()

    def _do(self, sink: SparkDeltaSink, job: Job) -> None:
        """Have something done in a stream's order that counts as a segment of it."""
        stream = sink.destination.stream
        number = _new_id(stream)
        self._checkpoints.begin(number)
        self._loader.submit(stream, number, job)

    def _hold_back(self, stream: str) -> int:
        """Hold back every STATE from now on until the stream's end."""
        if stream not in self._ends:
            self._ends[stream] = _new_id(stream)
            self._checkpoints.begin(self._ends[stream])
        return self._ends[stream]

    def _commit(self, sink: SparkDeltaSink, state: bytes | None) -> Commit:
        stream = sink.destination.stream
        is_last = self.has_all_input and self.is_confirmed(sink)
        if sink.destination.replaces_parts and not is_last:
            state = None
        return Commit(
            pipeline=self._pipeline,
            run_id=self._run_id,
            stream=stream,
            batch=self.batches[stream],
            state=state_of(sink.source, state),
            state_of=sink.source if sink.source != stream else None,
        )

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
