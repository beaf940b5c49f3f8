"""One run per pipeline: who gets the lock, who keeps it, and what a loser does."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from dataclasses import replace

import pytest

from singer_spark.errors import StateError
from singer_spark.state import create_state_store
from singer_spark.state import lock as lock_module
from singer_spark.state.holder import Holder
from singer_spark.state.lock import LockedError, LostLockError, RunLock, read_lock
from singer_spark.state.objects import ConflictError, Expect
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
        assert "process 17 on elsewhere, run other-run, started 10m ago" in caught.value.message
        assert re.search(r"last heartbeat [23]\ds ago", caught.value.message)
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
