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
from datetime import datetime, timedelta, timezone

import boto3
import pytest
from click.testing import CliRunner
from moto.server import ThreadedMotoServer

from singer_spark.cli import main
from singer_spark.errors import StateError
from singer_spark.state import create_state_store
from singer_spark.state import lock as lock_module
from singer_spark.state.holder import Holder, new_run_id
from singer_spark.state.lock import LockedError, LostLockError, RunLock, read_lock
from singer_spark.state.objects import ConflictError, Expect

# Raises the counter in the state three times, each under the lock.
COUNT_UP = """
import sys, time
from dataclasses import replace
from singer_spark.errors import TransientError
from singer_spark.state import PipelineState, create_state_store
from singer_spark.state.lock import locked
store, done = create_state_store(sys.argv[1]), 0
while done < 3:
    try:
        with locked(store, "p"):
            before = store.get("p") or PipelineState("p")
            time.sleep(0.005)
            store.save(replace(before, watermark={"n": before.watermark.get("n", 0) + 1}))
            done += 1
    except TransientError:
        time.sleep(0.005)
"""


@pytest.fixture(scope="module")
def endpoint():
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(params=["folder", "s3"])
def place(request, tmp_path, monkeypatch):
    if request.param == "folder":
        return str(tmp_path / "state")
    for name, value in {
        "AWS_ENDPOINT_URL_S3": request.getfixturevalue("endpoint"),
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "do-not-tell",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    bucket = f"lake-{os.urandom(4).hex()}"
    boto3.client("s3").create_bucket(Bucket=bucket)
    return f"s3://{bucket}/state"


@pytest.fixture
def store(place):
    return create_state_store(place)


@pytest.fixture
def folder(tmp_path):
    return create_state_store(tmp_path / "state")


def write_lock(store, **changes):
    """Put a lock of another machine there."""
    holder = replace(Holder.here("other-run"), host="elsewhere", machine="another", **changes)
    store.documents.write("p/lock", holder.to_dict(), Expect.ANYTHING)
    return holder


def ago(seconds):
    return (datetime.now(timezone.utc) - timedelta(seconds=seconds)).isoformat()


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
            RunLock(create_state_store(place), "p", "run-2").acquire()
        assert caught.value.exit_code == 75
        assert "process 17 on elsewhere, run other-run, started 10m ago" in caught.value.message
        assert "last heartbeat 20s ago" in caught.value.message
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

    def test_a_damaged_lock_refuses_and_says_how_to_end_it(self, store):
        for body in (b"", b"{}", b"[]", b'{"pid": "x"}'):
            store.objects.write("p/lock", body, Expect.ANYTHING)
            with pytest.raises(StateError, match=r"p/lock is damaged.*singer-spark unlock p"):
                RunLock(store, "p", "run-1").acquire()

    def test_of_eight_processes_one_at_a_time_wins_and_no_update_is_lost(self, place):
        command = [sys.executable, "-c", COUNT_UP, place]
        counters = [subprocess.Popen(command) for _ in range(8)]

        assert [counter.wait(60) for counter in counters] == [0] * 8
        assert create_state_store(place).get("p").watermark == {"n": 24}


class TestHeartbeat:
    @pytest.fixture(autouse=True)
    def _fast(self, monkeypatch):
        monkeypatch.setattr(lock_module, "BEAT_SECONDS", 0.02)

    def test_the_lock_is_renewed_while_it_is_kept(self, folder):
        lock = RunLock(folder, "p", "run-1")
        lock.acquire()
        first = read_lock(folder, "p")[0].heartbeat_at
        lock.keep(pytest.fail)
        until = time.monotonic() + 10
        while read_lock(folder, "p")[0].heartbeat_at == first:
            assert time.monotonic() < until
            time.sleep(0.01)
        lock.release()
        assert read_lock(folder, "p") == (None, Expect.ABSENT)

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

    def test_a_store_out_of_reach_is_borne_until_the_lock_expires(self, folder, monkeypatch):
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
        monkeypatch.setattr(lock_module, "EXPIRY_SECONDS", 0.0)
        until = time.monotonic() + 10
        while not told:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert "out of reach" in told[0].message
        lock.release()


class TestHolder:
    @pytest.mark.skipif(sys.platform != "linux", reason="process ids are looked up in /proc")
    def test_a_process_that_is_gone_here_is_dead_at_once(self):
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait()

        assert replace(Holder.here("r"), pid=gone.pid).is_dead
        assert not Holder.here("r").is_dead
        assert not replace(Holder.here("r"), pid=gone.pid, machine="another").is_dead

    def test_silence_is_death_and_a_clock_ahead_is_not(self):
        here = Holder.here("r")

        assert replace(here, heartbeat_at=ago(301)).is_dead
        assert not replace(here, heartbeat_at=ago(290)).is_dead
        assert not replace(here, heartbeat_at=ago(-3600)).is_dead

    def test_run_ids_are_uuids_that_sort_by_time(self):
        ids = []
        for _ in range(5):
            ids.append(new_run_id())
            time.sleep(0.002)
        assert ids == sorted(ids)
        assert all(
            re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab].{16}", i) for i in ids
        )


class TestUnlock:
    def unlock(self, folder, *options, answer=None):
        arguments = ["unlock", "p", "--state", folder.objects.place, *options]
        return CliRunner().invoke(main, arguments, input=answer)

    def test_what_is_not_locked_is_no_error(self, folder):
        result = self.unlock(folder)
        assert (result.exit_code, result.output) == (0, "p is not locked\n")

    def test_a_dead_lock_is_ended_after_a_yes(self, folder):
        write_lock(folder, heartbeat_at=ago(1000))

        assert self.unlock(folder, answer="n\n").exit_code == 1
        assert read_lock(folder, "p")[0]
        result = self.unlock(folder, answer="y\n")
        assert result.exit_code == 0
        assert "locked by process" in result.stdout
        assert "Warning" not in result.output
        assert read_lock(folder, "p") == (None, Expect.ABSENT)

    def test_a_lock_that_looks_alive_is_warned_of(self, folder):
        write_lock(folder)
        result = self.unlock(folder, "--yes")

        assert result.exit_code == 0
        assert "looks alive" in result.stderr
        assert "p is unlocked" in result.stdout

    def test_a_heartbeat_while_it_asks_does_not_matter_but_another_run_does(
        self, folder, monkeypatch
    ):
        for run_id, code in (("other-run", 0), ("a-newer-run", 75)):
            write_lock(folder)

            def confirm(*_, run_id=run_id, **__):
                holder = replace(read_lock(folder, "p")[0].renewed(), run_id=run_id)
                folder.documents.write("p/lock", holder.to_dict(), Expect.ANYTHING)

            monkeypatch.setattr("singer_spark.cli.unlock.click.confirm", confirm)
            assert self.unlock(folder).exit_code == code
        assert read_lock(folder, "p")[0].run_id == "a-newer-run"

    def test_a_damaged_lock_is_ended_too(self, folder):
        folder.objects.write("p/lock", b"?", Expect.ABSENT)

        assert self.unlock(folder, "--yes").exit_code == 0
        assert read_lock(folder, "p") == (None, Expect.ABSENT)
