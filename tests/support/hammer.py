"""Eight writers at one pipeline of one store, each a process.

`python -m tests.support.hammer` takes one job per line and forks the eight from a process that has
no threads, which is quick and safe.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from dataclasses import replace
from queue import Queue
from threading import Barrier, Thread

import singer_spark.storage.s3
import singer_spark.storage.sql  # noqa: F401 - loaded before the fork, not in each process
from singer_spark.errors import StateError, TransientError
from singer_spark.state import PipelineState, create_state_store
from singer_spark.state.holder import LockedError
from singer_spark.state.lock import RunLock, locked
from singer_spark.storage.objects import ConflictError, tag_of

WORKERS = 8


def document(n):
    """A document that shows when only a part of it was read."""
    size = n * 997 % 20_000
    return {"n": n, "size": size, "pad": "x" * size}


def is_whole(value):
    return not value or len(value["pad"]) == value["size"]


def count(store, barrier, seconds):
    """Raise a counter under conditions alone and one in the state, under the lock; read both.

    Goes on for some seconds and until each worker has had the lock once.
    """
    done = {"counted": 0, "locked": 0, "reads": 0, "errors": []}
    barrier.wait(60)
    until = time.monotonic() + seconds
    while time.monotonic() < until or (not done["locked"] and time.monotonic() < until + 60):
        try:
            done["counted"] += _raise_counter(store)
            done["locked"] += _raise_state(store)
            if not is_whole((store.get("p") or PipelineState("p")).watermark):
                done["errors"].append("torn state")
            done["reads"] += 1
        except StateError as error:
            done["errors"].append(error.message)
    return done


def _raise_counter(store):
    stored = store.objects.read("p/counter.json")
    before = store.documents.parse("p/counter.json", stored)
    if not is_whole(before):
        raise StateError("torn counter")
    # Nobody else writes the same bytes, as nobody else writes the same run's record.
    after = {**document(before.get("n", 0) + 1), "by": os.urandom(8).hex()}
    try:
        store.documents.write("p/counter.json", after, tag_of(stored))
    except ConflictError:
        return 0
    return 1


def _raise_state(store):
    try:
        with locked(store, "p"):
            before = store.get("p") or PipelineState("p")
            after = document(before.watermark.get("n", 0) + 1)
            store.save(replace(before, watermark=after, run_count=before.run_count + 1))
    except TransientError:
        return 0
    return 1


def contend(store, barrier, _seconds):
    """Try to get the lock at the same moment; the winner holds it until all have tried."""
    lock = RunLock(store, "p", f"run-{os.urandom(8).hex()}")
    barrier.wait(60)
    try:
        lock.acquire()
        outcome = "won"
    except LockedError as error:
        outcome = f"lost to {error.holder.run_id}"
    barrier.wait(60)
    if lock.held:
        lock.release()
    return {"run_id": lock._holder.run_id, "outcome": outcome}


TASKS = {"count": count, "contend": contend}


def hammer_with_threads(open_store, task, seconds):
    """Let eight threads do it, where a store lives in one process only."""
    barrier, results = Barrier(WORKERS), Queue()

    def work():
        results.put(TASKS[task](open_store(), barrier, seconds))

    threads = [Thread(target=work) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return [results.get_nowait() for _ in range(WORKERS)]


class Hammer:
    """The process that forks, kept for all tests."""

    def __init__(self):
        command = [sys.executable, "-m", "tests.support.hammer"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def __call__(self, url_or_config, task, seconds):
        env = {key: value for key, value in os.environ.items() if key.startswith("A")}
        job = {"place": url_or_config, "task": task, "seconds": seconds, "env": env}
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def stop(self):
        self._process.stdin.close()
        self._process.wait(30)


def _work(job, barrier, results):
    results.put(TASKS[job["task"]](create_state_store(job["place"]), barrier, job["seconds"]))


def main():
    fork = multiprocessing.get_context("fork")
    for line in sys.stdin:
        job = json.loads(line)
        os.environ.update(job["env"])
        barrier, results = fork.Barrier(WORKERS), fork.SimpleQueue()
        workers = [fork.Process(target=_work, args=(job, barrier, results)) for _ in range(WORKERS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(120)
        found = []
        while not results.empty():
            found.append(results.get())
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
