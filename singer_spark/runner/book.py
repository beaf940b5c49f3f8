"""Where a run's state comes from and where it goes.

The stored state advances only at `finish`; a failed run leaves it untouched and keeps the last
state that the target had committed to beside it, as a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, Protocol, final

from singer_spark.errors import StateError
from singer_spark.pipeline import Pipeline
from singer_spark.runner.process import tell_error
from singer_spark.runner.record import RunRecord
from singer_spark.runner.start import WINDOW
from singer_spark.runner.supervisor import Events, Failed
from singer_spark.state import PipelineState, StateStore, create_state_store
from singer_spark.state.holder import Holder
from singer_spark.state.lock import BY_HAND, RunLock
from singer_spark.state.objects import Expect
from singer_spark.state.runs import begin_history, list_runs, save_run

HISTORY_RUNS = 50


class Book(Protocol):
    """What a run needs of the place that keeps its state."""

    @property
    def quiet(self) -> AbstractContextManager[Any]:
        """Keep our own threads still while processes are started."""

    @property
    def state(self) -> Mapping[str, Any]:
        """The state that an incremental run starts from, once it is read."""

    def read(self) -> None:
        """Read the state; what cannot be read fails the run, which is recorded then."""

    def resume(self) -> bool:
        """Start from the checkpoint of a failed run, where there is one."""

    def history(self) -> Sequence[Mapping[str, Any]]:
        """The records of the last runs, as far as they are known."""

    def finish(self, watermark: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """Store the final state and give it back; without one the old stays."""

    def fail(self, watermark: Mapping[str, Any] | None) -> None:
        """Note that the run failed and what the target had committed to."""


@final
class StoreBook:
    """State in a store, under the lock of the run."""

    def __init__(
        self, store: StateStore, lock: RunLock, record: RunRecord, dead: Holder | None = None
    ) -> None:
        self._store = store
        self._lock = lock
        self._record = record
        self._dead = dead  # whose lock was taken over
        self._before = PipelineState(lock.name)
        self._stored = False
        self.state: Mapping[str, Any] = {}
        self.quiet = lock.quiet

    def read(self) -> None:
        """Read the state; what cannot be read fails the run, which is recorded then."""
        try:
            self._before = self._store.get(self._lock.name) or self._before
            if not self._before.run_count:
                begin_history(self._store, self._lock.name)
            self.state = self._before.watermark
            self._record.state_before = self._record.state_after = self.state
        finally:
            self._record_death()

    def resume(self) -> bool:
        """Start from the checkpoint of a failed run, where there is one."""
        checkpoint = self._store.get_checkpoint(self._lock.name)
        self.state = self.state if checkpoint is None else checkpoint
        return checkpoint is not None

    def history(self) -> Sequence[Mapping[str, Any]]:
        """Read the records of the last runs; a history that cannot be read is no obstacle."""
        try:
            return list_runs(self._store, self._lock.name, HISTORY_RUNS)
        except StateError:
            return ()

    def finish(self, watermark: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """Store the final state over what the run began with; without one the old stays."""
        self._lock.confirm()
        after = self._store.save(
            replace(
                self._before,
                watermark=self.state if watermark is None else watermark,
                last_run_id=self._record.run_id,
                last_run_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
                run_count=self._before.run_count + 1,
            )
        )
        self._stored = True
        self._record.state_after = after.watermark
        self._record.close()
        try:
            # A window lies aside of the state, and so of the checkpoint that leads on from it.
            if self._record.mode != WINDOW:
                self._store.delete_checkpoint(self._lock.name)
            save_run(self._store, self._lock.name, self._record.to_dict())
        except StateError as error:
            raise StateError(
                f"the state is stored, but the run's record is not: {error.message}"
            ) from error
        return after.watermark

    def fail(self, watermark: Mapping[str, Any] | None) -> None:
        """Keep checkpoint and record of a failed run as well as it can be done."""
        # Once the lock is lost the pipeline is another run's, and its checkpoint too.
        if watermark is not None and self._lock.held and not self._stored:
            with _warned("the checkpoint of this run is lost"):
                self._store.save_checkpoint(self._lock.name, watermark)
        with _warned("the record of this run is lost"):
            save_run(self._store, self._lock.name, self._record.to_dict())

    def _record_death(self) -> None:
        """Record a run that died, unless it did so itself or was a change by hand."""
        if self._dead is None or self._dead.run_id.startswith(BY_HAND):
            return
        told = RunRecord.of_dead(self._lock.name, self._dead, self.state).to_dict()
        with suppress(StateError):
            save_run(self._store, self._lock.name, told, Expect.ABSENT)


@contextmanager
def open_store_book(
    pipeline: Pipeline, record: RunRecord, *, events: Events, report: Callable[[str], None]
) -> Iterator[StoreBook]:
    """Open the pipeline's store and hold its lock; a lost lock ends the run by an event."""
    store = create_state_store(pipeline.state)
    lock = RunLock(store, pipeline.name, record.run_id)
    taken_from = lock.acquire()
    try:
        if taken_from:
            report(f"Took over the lock of a dead run ({taken_from})")
        lock.keep(lambda error: events.put(Failed(error)))
        yield StoreBook(store, lock, record, taken_from)
    finally:
        with _warned(f"the lock of {pipeline.name} stays"):
            lock.release()


@contextmanager
def _warned(what: str) -> Iterator[None]:
    try:
        yield
    except StateError as error:
        tell_error(f"Warning: {what}: {error.message}")
