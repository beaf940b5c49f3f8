"""One run per pipeline: who gets the lock, who keeps it, and what a loser does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest

from singer_spark.errors import StateError
from singer_spark.state import create_state_store
from singer_spark.state import lock as lock_module
from singer_spark.state.holder import Holder, LockedError, LostLockError, read_lock
from singer_spark.state.lock import RunLock
from singer_spark.storage.objects import ConflictError, Expect
from tests.support.locks import ago, write_lock


class TestEveryStore:
    def test_a_lock_is_a_document_while_it_is_held(self, store):
        lock = RunLock(store, "p", "run-1")
        assert lock.acquire() is None

        document = json.loads(store.objects.read("p/lock").body)
        assert document["pid"] == os.getpid()
        assert document["run_id"] == "run-1"
        assert {"host", "started_at", "heartbeat_at"} < set(document)
        lock.confirm()
        assert lock.held
        lock.release()
        assert store.objects.read("p/lock") is None
        assert store.list_pipelines() == []

    def test_a_second_run_is_refused_at_once_and_told_by_whom(self, store, place):
        write_lock(store, pid=17, started_at=ago(600), heartbeat_at=ago(20))

        with pytest.raises(LockedError) as caught:
            RunLock(place.open(), "p", "run-2").acquire()
        assert caught.value.exit_code == 75
        assert "process 17 on elsewhere, run other-run, started 10" in caught.value.message
        assert re.search(r" min ago, last heartbeat [23]\d s ago", caught.value.message)
        assert "singer-spark unlock p" in caught.value.message
        RunLock(store, "another-pipeline", "run-3").acquire()

    def test_a_dead_lock_is_taken_over_and_its_holder_learns_of_it(self, store, monkeypatch):
        first, second = RunLock(store, "p", "run-1"), RunLock(store, "p", "run-2")
        first.acquire()
        monkeypatch.setattr("singer_spark.state.holder.EXPIRY_SECONDS", -1.0)

        assert second.acquire().run_id == "run-1"
        with pytest.raises(LostLockError, match="state is unchanged") as caught:
            first.confirm()
        assert caught.value.exit_code == 75
        assert not first.held
        first.release()
        second.confirm()
        second.release()

    def test_an_ended_lock_is_a_lost_one(self, store):
        lock = RunLock(store, "p", "run-1")
        lock.acquire()
        store.objects.delete("p/lock")

        with pytest.raises(LostLockError):
            lock.confirm()
        assert store.objects.read("p/lock") is None

    def test_a_heartbeat_whose_answer_was_lost_is_no_lost_lock(self, store):
        lock = RunLock(store, "p", "run-1")
        lock.acquire()
        newer = Holder.from_dict(json.loads(store.objects.read("p/lock").body))
        later = replace(newer, heartbeat_at=ago(-1))
        store.documents.write("p/lock", later.to_dict(), Expect.ANYTHING)

        lock.confirm()
        lock.release()
        assert store.objects.read("p/lock") is None

    def test_a_delete_of_another_version_is_refused(self, store):
        tag = store.objects.write("p/x", b"1", Expect.ABSENT)
        store.objects.write("p/x", b"2", tag)

        with pytest.raises(ConflictError):
            store.objects.delete("p/x", tag)
        assert store.objects.read("p/x").body == b"2"
        store.objects.delete("p/none", tag)

    def test_a_damaged_lock_refuses_and_says_how_to_end_it(self, store, place):
        for body in (b"", b"{}", b"[]", b'{"pid": "x"}'):
            place.damage("p/lock", body)
            with pytest.raises(StateError, match=r"p/lock is damaged.*singer-spark unlock p"):
                RunLock(store, "p", "run-1").acquire()


class TestTakeOver:
    """Who takes over judges by a heartbeat that stands still, never by comparing clocks."""

    def acquire(self, folder, while_waiting=lambda: None):
        """Try to take the lock; gives what was said and how often it waited."""
        self.said, self.waits = [], 0

        def pause(seconds):
            self.waits += 1
            while_waiting()
            time.sleep(seconds)

        return RunLock(folder, "p", "run-2").acquire(self.said.append, pause)

    @pytest.mark.parametrize("age", [0, 20, 290, -20])
    def test_a_heartbeat_that_looks_fresh_is_refused_at_once(self, folder, age):
        write_lock(folder, heartbeat_at=ago(age))
        with pytest.raises(LockedError):
            self.acquire(folder)
        assert (self.said, self.waits) == ([], 0)

    @pytest.mark.parametrize("age", [1000, -1000, 10**9])
    def test_one_that_looks_old_or_lies_ahead_is_watched_and_then_taken(self, folder, age):
        write_lock(folder, heartbeat_at=ago(age))
        begun = time.monotonic()

        assert self.acquire(folder).run_id == "other-run"
        assert time.monotonic() - begun >= lock_module.WATCH_SECONDS
        assert len(self.said) == 1
        assert "it is taken over if its heartbeat stands still" in self.said[0]

    @pytest.mark.parametrize("age", [1000, -1000])
    def test_one_that_moves_is_alive_whatever_the_clocks_say(self, folder, age):
        write_lock(folder, heartbeat_at=ago(age))
        with pytest.raises(LockedError):
            self.acquire(folder, lambda: write_lock(folder, heartbeat_at=ago(age - 1)))
        assert self.waits == 1

    def test_one_that_goes_while_it_is_watched_has_ended(self, folder):
        write_lock(folder, heartbeat_at=ago(1000))
        assert self.acquire(folder, lambda: folder.objects.delete("p/lock")) is None
        assert self.waits == 1

    def test_one_of_a_process_that_is_gone_here_is_taken_at_once(self, folder):
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait()
        holder = replace(Holder.here("died"), pid=gone.pid)
        folder.documents.write("p/lock", holder.to_dict(), Expect.ANYTHING)
        assert self.acquire(folder).run_id == "died"
        assert self.waits == 0

    def test_the_watch_is_longer_than_a_holder_lives_without_a_heartbeat(self):
        code = (
            "from singer_spark.runner.supervisor import GRACE_SECONDS as grace\n"
            "from singer_spark.state.lock import *\n"
            "assert 3 * BEAT_SECONDS < STOP_SECONDS\n"
            "assert STOP_SECONDS + 2 * grace < WATCH_SECONDS"
        )
        subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def folder(tmp_path):
    return create_state_store(tmp_path / "state")


class TestHeartbeat:
    @pytest.fixture(autouse=True)
    def _fast(self, monkeypatch):
        monkeypatch.setattr(lock_module, "BEAT_SECONDS", 0.02)
        monkeypatch.setattr(lock_module, "TICK_SECONDS", 0.02)

    def test_the_lock_is_renewed_while_it_is_kept(self, store):
        lock, told = RunLock(store, "p", "run-1"), []
        lock.acquire()
        first = read_lock(store, "p")[0].heartbeat_at
        lock.keep(told.append)
        until = time.monotonic() + 10
        while read_lock(store, "p")[0].heartbeat_at == first:
            assert time.monotonic() < until
            time.sleep(0.01)
        lock.release()
        assert told == []
        assert read_lock(store, "p") == (None, Expect.ABSENT)

    def test_a_loss_is_told_once(self, folder):
        lock, told, heard = RunLock(folder, "p", "run-1"), [], threading.Event()
        lock.acquire()
        write_lock(folder)
        lock.keep(lambda error: (told.append(error), heard.set()))

        assert heard.wait(10)
        time.sleep(0.1)
        assert [type(error) for error in told] == [LostLockError]
        lock.release()
        assert read_lock(folder, "p")[0].run_id == "other-run"

    def test_a_store_out_of_reach_is_borne_until_the_holder_must_stop(self, folder, monkeypatch):
        lock, told, failed = RunLock(folder, "p", "run-1"), [], threading.Event()
        lock.acquire()

        def fail(*_):
            failed.set()
            raise StateError("out of reach")

        monkeypatch.setattr(folder.objects, "write", fail)
        lock.keep(told.append)
        assert failed.wait(10)
        time.sleep(0.1)
        assert told == []
        monkeypatch.setattr(lock_module, "STOP_SECONDS", 0.0)
        until = time.monotonic() + 10
        while not told:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert "out of reach" in told[0].message
        lock.release()

    def test_a_heartbeat_that_hangs_stops_the_holder_too(self, folder, monkeypatch):
        monkeypatch.setattr(lock_module, "STOP_SECONDS", 0.2)
        lock, told, heard = RunLock(folder, "p", "run-1"), [], threading.Event()
        lock.acquire()
        hang, write = threading.Event(), folder.objects.write
        monkeypatch.setattr(folder.objects, "write", lambda *given: hang.wait(20) and write(*given))
        lock.keep(lambda error: (told.append(error), heard.set()))

        assert heard.wait(5)
        assert not lock.held
        hang.set()
        lock.release()
        assert [type(error) for error in told] == [LostLockError]

    def test_the_time_that_the_machine_sleeps_counts(self, folder, monkeypatch):
        monkeypatch.setattr(lock_module, "BEAT_SECONDS", 60)
        lock, told, heard = RunLock(folder, "p", "run-1"), [], threading.Event()
        lock.acquire()
        awake = lock_module._clock
        lock.keep(lambda error: (told.append(error), heard.set()))
        time.sleep(0.1)
        assert told == []
        monkeypatch.setattr(lock_module, "_clock", lambda: awake() + 600)

        assert heard.wait(5)
        with pytest.raises(LostLockError):
            lock.confirm()
        lock.release()
