"""A command that holds the lock for a moment, between a run that died and the next one."""

from __future__ import annotations

import pytest

from singer_spark.state.holder import LostLockError, read_lock
from singer_spark.state.lock import BY_HAND, RunLock, locked
from singer_spark.state.runs import list_runs
from tests.support.locks import ago, write_lock


def test_a_run_that_died_is_recorded_by_the_next_run_all_the_same(bench):
    bench.run()
    dead = write_lock(bench.store, heartbeat_at=ago(1000))
    for _ in range(2):
        with locked(bench.store, "p"):
            assert read_lock(bench.store, "p")[0].run_id.startswith(BY_HAND)
    assert read_lock(bench.store, "p")[0].is_dead
    bench.lines.clear()
    bench.run()
    found = {run["run_id"]: run["exit_code"] for run in list_runs(bench.store, "p")}
    assert found[dead.run_id] == 137
    assert not [line for line in bench.lines if "Watching" in line], "it was watched before"
    assert read_lock(bench.store, "p")[0] is None


def test_who_was_taken_for_dead_and_wakes_up_has_lost_it(store):
    paused = RunLock(store, "p", "run-1")
    paused.acquire()
    write_lock(store, run_id="run-1", heartbeat_at=ago(1000))
    with locked(store, "p"):
        pass
    with pytest.raises(LostLockError):
        paused.confirm()


def test_a_command_that_died_leaves_nothing_to_record(store):
    write_lock(store, run_id=BY_HAND + "1", heartbeat_at=ago(1000))
    with locked(store, "p"):
        pass
    assert read_lock(store, "p")[0] is None
