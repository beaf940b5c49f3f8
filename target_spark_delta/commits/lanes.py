"""Jobs in the background: in order per stream, several streams at a time."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

Job = Callable[[SparkSession], object]


@dataclass(slots=True)
class _Lane:
    jobs: deque[tuple[int, Job]] = field(default_factory=deque)
    is_running: bool = False
    has_failed: bool = False
    session: SparkSession | None = None


class Lanes:
    """Runs the jobs of each stream one after another, each stream in a session of its own.

    `engine` opens the process's first session, in the background; `isolate` makes one on the same
    engine for a stream. So many streams are worked on at once as `parallelism` says.
    """

    def __init__(
        self,
        engine: Callable[[], SparkSession],
        isolate: Callable[[], SparkSession],
        parallelism: int,
    ) -> None:
        self._engine = engine
        self._isolate = isolate
        self._parallelism = parallelism
        self._lanes: dict[str, _Lane] = {}
        self._lock = threading.Condition()
        self._ready: queue.SimpleQueue[_Lane] = queue.SimpleQueue()
        self._done: list[int] = []
        self._ever_done: set[int] = set()
        self._pending = 0
        self._error: BaseException | None = None
        self._workers: list[threading.Thread] = []

    def warm_up(self) -> None:
        """Start the engine while records are still being spooled."""
        if not self._workers:
            for index in range(self._parallelism):
                worker = threading.Thread(target=self._work, name=f"loader-{index}", daemon=True)
                self._workers.append(worker)
                worker.start()
            threading.Thread(target=self._start_engine, daemon=True).start()

    def submit(self, stream: str, number: int, job: Job) -> None:
        """Add a job to a stream's lane; it is reported as done under its number.

        Where a job of the stream has failed nothing is added: what follows rests on it.
        """
        self.warm_up()
        with self._lock:
            lane = self._lanes.setdefault(stream, _Lane())
            if lane.has_failed:
                return
            lane.jobs.append((number, job))
            self._pending += 1
            self._schedule(lane)

    def completed(self) -> list[int]:
        """Return the jobs done since the last call; raise what made one fail."""
        with self._lock:
            done, self._done = self._done, []
            if self._error is not None and not done:
                raise self._error
            return done

    def are_done(self, numbers: Collection[int]) -> bool:
        """Say whether all these jobs are done; any thread may ask."""
        with self._lock:
            return self._ever_done.issuperset(numbers)

    @property
    def pending(self) -> int:
        """Count the jobs that are not done."""
        with self._lock:
            return self._pending

    def wait_for_one(self) -> bool:
        """Wait until a job is done or failed; return whether there was one to wait for."""
        with self._lock:
            pending = self._pending
            # One that was done before this call has yet to be collected, and is not waited for.
            self._lock.wait_for(lambda: self._done or self._pending < pending or not pending)
            return pending > 0

    def settle(self) -> None:
        """Wait until every job that can still run is done, whatever failed."""
        with self._lock:
            self._lock.wait_for(lambda: self._pending == 0)

    def _start_engine(self) -> None:
        try:
            self._engine()
        except BaseException as error:  # noqa: BLE001 - carried to the thread that reads
            with self._lock:
                self._error = self._error or error
                self._lock.notify_all()

    def _schedule(self, lane: _Lane) -> None:
        if lane.jobs and not lane.is_running:
            lane.is_running = True
            self._ready.put(lane)

    def _work(self) -> None:
        while True:
            lane = self._ready.get()
            number, job = lane.jobs.popleft()
            error: BaseException | None = None
            try:
                self._engine()
                lane.session = lane.session or self._isolate()
                job(lane.session)
            except BaseException as raised:  # noqa: BLE001 - carried to the thread that reads
                error = raised
            self._finish(lane, number, error)

    def _finish(self, lane: _Lane, number: int, error: BaseException | None) -> None:
        with self._lock:
            self._pending -= 1
            if error is None:
                self._done.append(number)
                self._ever_done.add(number)
            else:
                self._error = self._error or error
                lane.has_failed = True
                self._pending -= len(lane.jobs)
                lane.jobs.clear()
            lane.is_running = False
            self._schedule(lane)
            self._lock.notify_all()
