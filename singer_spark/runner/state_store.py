"""Where a run's state comes from and where it goes.

The stored state advances only at `finish`; a failed run leaves it untouched and keeps the last
state that the target had committed to beside it, as a checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from typing import Any, final

from typing_extensions import override

from singer_spark.assignment import Assignment, Attempt
from singer_spark.errors import StateError
from singer_spark.pipeline import Pipeline
from singer_spark.runner.identity import (
    NOTHING,
    Identities,
    known_identities,
    known_source,
    known_tables,
    with_identities,
    without_left_out,
)
from singer_spark.runner.process import print_error
from singer_spark.runner.record import RunRecord
from singer_spark.runner.run_state import KeptState, RunState
from singer_spark.runner.start import WINDOW, Start, names_differ
from singer_spark.runner.supervisor import Events, Failed, refuse_to_go_on
from singer_spark.state import PipelineState, StateStore, create_state_store
from singer_spark.state.change import SOURCE, TABLES
from singer_spark.state.generation import (
    Generation,
    change_generation,
    digest,
    read_failed,
    read_generation,
)
from singer_spark.state.holder import Holder
from singer_spark.state.lock import BY_HAND, Claims, RunLock
from singer_spark.state.runs import begin_history, list_runs, prune_runs, save_run
from singer_spark.state.store import Checkpoint
from singer_spark.storage.objects import Expect

NO_LOCK = "{}: lock: none keeps no second run away and fences nothing; see that one is active"
HISTORY_RUNS = 50


class StoredState(KeptState):
    """The state in a store, only read."""

    def __init__(self, store: StateStore, name: str) -> None:
        self._store, self._name = store, name
        self._before = PipelineState(name)

    @override
    def read(self) -> None:
        self._before = self._store.get(self._name) or self._before
        self.state, self.belongs = self._before.watermark, self._before.metadata

    @override
    def resume(self) -> Checkpoint | None:
        # None too where the state moved on since.
        return read_failed(self._store, self._name, self.state)

    @override
    def attempts(self) -> Mapping[str, Attempt]:
        return read_generation(self._store, self._name)[0].attempts_from(self.state)


@final
class StateInStore(StoredState, RunState):
    """State in a store, under the lock of the run; without one where the pipeline wants none."""

    def __init__(
        self,
        store: StateStore,
        lock: RunLock | None,
        record: RunRecord,
        dead: Holder | None = None,
        *,
        keep_runs: int | None = None,
    ) -> None:
        super().__init__(store, record.pipeline)
        self._lock = lock
        self._record = record
        self._dead = dead  # whose lock was taken over
        self._keep_runs = keep_runs
        self._start: Start | None = None
        self._attempt: Attempt | None = None
        self._with_found: Callable[..., dict[str, Any]] = with_identities
        self._stored = False
        self.settle: Callable[[Generation], Generation] = lambda left: left  # once it has ended
        self.claims: Claims | None = None  # once the run has succeeded
        if lock:
            self.quiet = lock.quiet

    @override
    def read(self) -> None:
        try:
            super().read()
            if not self._before.run_count:
                begin_history(self._store, self._name)
            self._record.state_before = self._record.state_after = self.state
        finally:
            self._record_death()

    @override
    def attempts(self) -> Mapping[str, Attempt]:
        return self._lock.before.attempts_from(self.state) if self._lock else super().attempts()

    @override
    def begin(self, start: Start) -> Assignment:
        """Write down who runs and how it begins, before anything is started."""
        cleans = bool(self._dead or (self._lock and self._lock.claims) or self.attempts())
        self._start = start
        if start.attempt:
            self._note_attempt(replace(start.attempt, source=known_source(self.belongs)))
        elif self._lock:
            self._lock.begin(self.state)
        if start.is_asked:
            # A run that dies leaves nothing else of what it was.
            self._save_checkpoint(start.run)
        # A window goes on from no bookmark, and yet belongs to the tables of the stored state.
        used = self.state if start.mode == WINDOW else start.state
        reload, renamed = start.reload, names_differ(start.pipeline)
        self._with_found = partial(with_identities, reload=reload, renamed=renamed)
        source, tables = known_identities(start.belongs, used, reload, renamed=renamed)
        return Assignment(
            run_id=self._record.run_id,
            pipeline=self._name,
            generation=self._lock.generation if self._lock else None,
            claims=self._lock.claims if self._lock else False,
            claimed=frozenset(self._lock.claimed if self._lock else ()),
            reload=start.reload,
            resumes=start.mode == "resume",
            cleans=cleans,
            source=start.source or source,
            tables=tables,
            failed=start.failed,
            read=start.read,
            begins=start.begins,
            rereads=not start.pipeline.incremental,
            remembers=True,
        )

    @override
    def note_source(self, source: Mapping[str, Any]) -> None:
        """Note a source that `meta.json` does not know, for runs that follow if this one fails."""
        if self._attempt and source != self._attempt.source:
            self._note_attempt(replace(self._attempt, source=source))

    def _note_attempt(self, attempt: Attempt) -> None:
        self._attempt = attempt
        if self._lock:
            self._lock.begin(self.state, attempt)
        else:
            run_id = self._record.run_id
            change_generation(
                self._store,
                self._name,
                lambda known: known.with_attempt(self.state, run_id, attempt),
            )

    def _save_checkpoint(self, reached: Checkpoint) -> None:
        self._store.save_checkpoint(self._name, replace(reached, base=digest(self.state)))

    @override
    def history(self) -> Sequence[Mapping[str, Any]]:
        """Read the records of the last runs; a history that cannot be read is no obstacle."""
        try:
            return list_runs(self._store, self._name, HISTORY_RUNS)
        except StateError:
            return ()

    @override
    def finish(
        self, watermark: Mapping[str, Any] | None, found: Identities = NOTHING
    ) -> Mapping[str, Any]:
        """Store the final state over what the run began with; without one the old stays."""
        if self._lock:
            self._lock.confirm()
        is_aside = self._record.mode == WINDOW
        new = self._reached if watermark is None else watermark
        # What was read afresh belongs to its state, which never came, and so does what was found.
        stays = is_aside or (watermark is None and not self._goes_on)
        after = self._store.save(
            replace(
                self._before,
                watermark=new,
                last_run_id=self._record.run_id,
                last_run_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
                run_count=self._before.run_count + 1,
                # A window says nothing of what lies outside of it.
                metadata=self._before.metadata if stays else self._metadata(new, found),
            )
        )
        self._stored = True
        if not is_aside:
            unread = self._start.unread if self._start else ()
            self.settle = partial(
                Generation.after_success,
                run_id=self._record.run_id,
                state=after.watermark,
                unread=unread,
            )
        tables = known_tables(after.metadata).items()
        owed = frozenset(name for name, one in tables if not one.is_absent)
        self.claims = Claims(frozenset(found.claimed), owed)
        self._record.state_after = after.watermark
        self._record.close()
        try:
            # A window lies aside of the state, and so of the checkpoint that leads on from it.
            if not is_aside:
                self._store.delete_checkpoint(self._name)
                if self._lock is None:
                    change_generation(self._store, self._name, self.settle)
            save_run(self._store, self._name, self._record.to_dict())
        except StateError as error:
            raise StateError(
                f"the state is stored, but the run's record is not: {error.message}"
            ) from error
        self._prune()
        return after.watermark

    @override
    def fail(self, watermark: Mapping[str, Any] | None, found: Identities = NOTHING) -> None:
        """Keep checkpoint and record of a failed run as well as it can be done."""
        # Once the lock is lost the pipeline is another run's, and its checkpoint too.
        is_own = self._lock is None or self._lock.held
        if self._start and is_own and not self._stored:
            with _warned("the checkpoint of this run is lost"):
                if found.reached:
                    self._save_checkpoint(self._moved(self._start, found.reached))
                elif watermark is not None:
                    start = self._start
                    belongs = self._with_found(start.belongs, watermark, found)
                    self._save_checkpoint(replace(start.run, state=watermark, belongs=belongs))
            with _warned("what this run has left is not noted"):
                self._note_end(self._start, found)
        with _warned("the record of this run is lost"):
            save_run(self._store, self._name, self._record.to_dict())
            self._prune()

    def _note_end(self, start: Start, found: Identities) -> None:
        """Let a run whose target has not begun to commit rows be none that has left some."""
        is_idle = not found.has_written and start.pipeline.target.is_ours

        def settle(left: Generation) -> Generation:
            left = left.without_attempt(self._record.run_id) if is_idle else left
            return left.outnumbered() if found.is_outnumbered else left

        self.settle = settle
        if self._lock is None:
            change_generation(self._store, self._name, settle)

    def _moved(self, start: Start, reached: Mapping[str, Any]) -> Checkpoint:
        """Return what `--resume` goes on with: behind the rows that the target has found.

        That is the run which failed before this one, where it had left a checkpoint.
        """
        goes_on = self.resume() or replace(start.run, belongs=start.belongs)
        bookmarks = {**(goes_on.state.get("bookmarks") or {}), **reached}
        return replace(goes_on, state={**goes_on.state, "bookmarks": bookmarks})

    def _prune(self) -> None:
        """Remove old records; that they stay is no reason to fail."""
        if self._keep_runs is not None:
            with suppress(StateError):
                prune_runs(self._store, self._name, self._keep_runs, self._record.run_id)

    def _metadata(self, new: Mapping[str, Any], found: Identities) -> dict[str, Any]:
        belongs = self._start.belongs if self._start else self.belongs
        others = {key: one for key, one in self.belongs.items() if key not in (SOURCE, TABLES)}
        return others | self._with_found(without_left_out(belongs, found), new, found)

    @property
    def _goes_on(self) -> bool:
        """Whether what the run did not change stays true: it began from a state, not afresh."""
        start = self._start
        return bool(start and (start.mode == "resume" or start.run.mode == "incremental"))

    @property
    def _reached(self) -> Mapping[str, Any]:
        """The state of a run whose target has sent none: that which it began from.

        A stream that was read afresh has no bookmark there; then the stored state stays.
        """
        return (self._start.state if self._start and self._goes_on else {}) or self.state

    def _record_death(self) -> None:
        """Record a run that died, unless it did so itself or was a change by hand."""
        if self._dead is None or self._dead.run_id.startswith(BY_HAND):
            return
        told = RunRecord.of_dead(self._name, self._dead, self.state).to_dict()
        with suppress(StateError):
            save_run(self._store, self._name, told, Expect.ABSENT)


@contextmanager
def open_stored_state(
    pipeline: Pipeline, record: RunRecord, *, events: Events, report: Callable[[str], None]
) -> Iterator[StateInStore]:
    """Open the pipeline's store and hold its lock; a lost lock ends the run by an event."""
    store = create_state_store(pipeline.state)
    if not pipeline.locks:
        print_error(f"Warning: {NO_LOCK.format(pipeline.name)}")
        yield StateInStore(store, None, record, keep_runs=pipeline.keep_runs)
        return

    def pause(seconds: float) -> None:
        refuse_to_go_on(events)
        time.sleep(seconds)

    lock = RunLock(store, pipeline.name, record.run_id)
    taken_from = lock.acquire(report, pause)
    kept = StateInStore(store, lock, record, taken_from, keep_runs=pipeline.keep_runs)
    try:
        if taken_from:
            report(f"Took over the lock of a dead run ({taken_from})")
        lock.keep(lambda error: events.put(Failed(error)))
        yield kept
    finally:
        with _warned(f"the lock of {pipeline.name} stays"):
            lock.release(settle=kept.settle, claims=kept.claims)


@contextmanager
def _warned(what: str) -> Iterator[None]:
    try:
        yield
    except StateError as error:
        print_error(f"Warning: {what}: {error.message}")
