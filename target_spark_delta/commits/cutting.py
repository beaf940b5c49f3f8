"""When an open segment is closed: it is full or old, a STATE or the end of the input has come.

Nothing else cuts a segment. What could carry a STATE that is still to come waits here for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from pyspark.sql import SparkSession

from target_spark_delta.commits.completion import activate_version
from target_spark_delta.commits.queue import CommitQueue
from target_spark_delta.commits.states import Received
from target_spark_delta.intake.segments import Segment, new_id
from target_spark_delta.sink import SparkDeltaSink

logger = logging.getLogger(__name__)
# What all streams together may hold back: batches on disk, and keys in memory.
_OPEN_BATCHES = 4
_MOST_KEYS = 1_500_000


@dataclass(slots=True)
class _Waiting:
    """What a stream has received that a STATE may speak of: records, then a version to activate."""

    sink: SparkDeltaSink
    segment: Segment | None = None
    version: int | None = None
    number: int = 0
    since: float = field(default_factory=time.monotonic)


class SegmentCutter:
    """Closes the open segments of all streams, and hands them to the queue."""

    def __init__(self, queue: CommitQueue) -> None:
        self.sinks: dict[str, SparkDeltaSink] = {}
        self._queue = queue
        self._settings = queue.settings
        self._states = queue.states
        self._held_files: dict[SparkDeltaSink, list[Segment]] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._early_versions: dict[str, int] = {}
        self._newest_line = 0

    def add(self, sink: SparkDeltaSink) -> None:
        """Take a stream in; what is read whole, or a range of it, acts even if no record comes."""
        destination = sink.destination
        self.sinks[destination.stream] = sink
        is_replaced = destination.replaces_range or destination.retires_partitions
        if destination.scope and (destination.overwrites or is_replaced):
            self._queue.hold_back(destination.stream)

    def begin(self, segment: Segment) -> None:
        """Note that a segment has records, with which its stream may become pending to its end."""
        destination = self.sinks[segment.stream].destination
        self._submit_waiting(segment.stream, self._states.newest)
        self._queue.begin(segment, destination)

    def take_state(self, state: bytes, line: int) -> None:
        """Take a STATE: what waits for it is committed, and it is released once it is true."""
        for sink in self.sinks.values():
            if sink.segment:
                sink.segment.mark()
        before = self._states.take(state, line)
        self._submit_held_files(before)
        for stream in list(self._waiting):
            # A commit that replaces a part carries no STATE but the last of the input.
            if not self._waiting[stream].sink.destination.replaces_parts:
                self._submit_waiting(stream, before)
        self._queue.release()

    def take_files(self, sink: SparkDeltaSink, segment: Segment) -> None:
        """Take the files of a BATCH; those to append wait for their STATE, to be exactly once."""
        if sink.destination.appends:
            self._held_files.setdefault(sink, []).append(segment)
        else:
            self.flush(sink)
            self._hold(sink, segment)

    def cut_full(self, sink: SparkDeltaSink) -> None:
        """Close the segment of a stream that has become full, if it may be committed now."""
        if self._settings.flush_all_streams:
            if self._flush_if_allowed(sink):
                for other in self.sinks.values():
                    self._flush_if_allowed(other)
        elif segment := sink.cut():
            self._hold(sink, segment)

    def flush(self, sink: SparkDeltaSink) -> None:
        """Have the open segment of a stream committed, whatever STATE speaks of it."""
        if segment := sink.cut(at_end=True):
            self._queue.submit(sink, segment, self._states.newest)

    def _flush_if_allowed(self, sink: SparkDeltaSink) -> bool:
        segment = sink.cut()
        if segment:
            self._queue.submit(sink, segment, self._states.newest)
        return segment is not None

    def _hold(self, sink: SparkDeltaSink, segment: Segment) -> None:
        """Keep a segment until a STATE speaks of it, which its commit then carries.

        It waits for no longer than until more of its stream comes, and `batch_wait_seconds`.
        """
        if sink.destination.appends or sink.destination.overwrites:
            self._queue.submit(sink, segment, self._states.newest)
        else:
            self._waiting[sink.destination.stream] = _Waiting(sink, segment)

    def submit_held(self) -> None:
        """Have everything committed that waits for a STATE, though none has come."""
        self._submit_held_files(self._states.newest)
        for stream in list(self._waiting):
            self._submit_waiting(stream, self._states.newest)

    def _submit_held_files(self, before: Received | None) -> None:
        """Have files and the records beside them committed, the last one with the new STATE."""
        held, self._held_files = self._held_files, {}
        for sink, segments in held.items():
            records = sink.cut(at_end=True)
            *first, last = [*([records] if records else []), *segments]
            for segment in first:
                self._queue.submit(sink, segment, before)
            self._queue.submit(sink, last, self._states.newest)

    def _submit_waiting(self, stream: str, before: Received | None) -> None:
        """Have committed what waits of a stream, the last of it with the newest STATE."""
        waiting = self._waiting.pop(stream, None)
        if waiting is None:
            return
        sink, segment, version = waiting.sink, waiting.segment, waiting.version
        if version is None:
            if segment:
                self._queue.submit(sink, segment, self._states.newest)
            return
        if segment:
            # In a table that the run has made no version is older, so its rows are all there is.
            if_made = self._states.newest if sink.versions == {version} else None
            self._queue.submit(sink, segment, before, if_made=if_made)
        commit = self._queue.commit_of(sink, self._states.newest)

        def activate(spark: SparkSession) -> None:
            activate_version(spark, sink.work, version, replace(commit(), batch=None))

        self._queue.lanes.submit(stream, waiting.number, activate)

    def tick(self) -> None:
        """Take note of what was done, and have committed what has waited or grown enough."""
        self._queue.collect()
        latest = time.monotonic() - self._settings.batch_wait_seconds
        for stream, waiting in list(self._waiting.items()):
            if waiting.since <= latest:
                self._submit_waiting(stream, self._states.newest)
        sinks = self.sinks.values()
        newest = max((sink.last_line for sink in sinks), default=0)
        if newest > self._newest_line:
            self._newest_line = newest
            self._queue.report_progress()
        for sink in sinks:
            if sink.is_due:
                self._flush_if_allowed(sink)
        # The largest are committed early, and Spark looks at the keys where they are the most.
        most_bytes = self._settings.batch_size_bytes * _OPEN_BATCHES
        for sink in _largest(sinks, lambda sink: sink.size, most=most_bytes):
            self._flush_if_allowed(sink)
        for sink in _largest(sinks, lambda sink: sink.keys_held, most=_MOST_KEYS):
            sink.forget_keys()

    def activate(self, sink: SparkDeltaSink, version: int) -> None:
        """Have the rows of older versions retired, after everything before."""
        stream = sink.destination.stream
        if version not in sink.versions:
            # It precedes its records, so acting now would empty the table until they are here.
            self._early_versions[stream] = version
            return
        self._early_versions.pop(stream, None)
        self._activate(sink, version)

    def _activate(self, sink: SparkDeltaSink, version: int) -> None:
        stream = sink.destination.stream
        if sink.destination.stages_parts:
            # Its rows are not in the table before the end of the stream.
            sink.progress.version = version
            self._queue.hold_back(stream)
            return
        if sink.destination.appends:
            self.submit_held()
        if segment := sink.cut(at_end=True):
            self._hold(sink, segment)
        waiting = self._waiting.get(stream)
        if waiting is None or waiting.version is not None:
            self._submit_waiting(stream, self._states.newest)
            waiting = self._waiting[stream] = _Waiting(sink)
        waiting.version, waiting.number = version, new_id()
        self._states.begin(waiting.number, stream)

    def end_input(self) -> None:
        """Have everything committed, and versions activated that came before their records."""
        self._queue.has_all_input = True
        self.submit_held()
        for sink in self.sinks.values():
            self.flush(sink)
        for stream, version in self._early_versions.items():
            sink = self.sinks[stream]
            if sink.last_line < sink.activated_line or self._queue.is_confirmed(sink):
                self._activate(sink, version)
            else:
                logger.warning(
                    "Stream %s: version %d is not activated, because nothing says that the stream "
                    "is complete",
                    stream,
                    version,
                )
        self.submit_held()
        self._queue.drain()


def _largest(
    sinks: Iterable[SparkDeltaSink], held: Callable[[SparkDeltaSink], int], *, most: int
) -> list[SparkDeltaSink]:
    """Choose as few as possible, so that the others hold no more than this together."""
    total = 0
    sizes = []
    for sink in sinks:
        if sink.segment:
            sizes.append((held(sink), sink))
            total += sizes[-1][0]
    if total <= most:
        return []
    chosen = []
    for size, sink in sorted(sizes, key=lambda one: -one[0]):
        if total <= most:
            break
        total -= size
        chosen.append(sink)
    return chosen
