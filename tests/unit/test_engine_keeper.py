"""Leases: who gets the engine, and what happens when a client leaves."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest

from singer_spark.engine import keeper, lease, registry
from singer_spark.engine.lease import Lease, find_lease
from singer_spark.engine.spec import Spec
from singer_spark.errors import SettingsError, TransientError
from tests.support.engine import FakeJvm

SPEC = Spec(
    version="1",
    java="17",
    jars={},
    own=(),
    options=(),
    conf={"spark.master": "local[*]"},
    environment={},
)


class Engine:
    def __init__(self, idle_seconds):
        folder = registry.make_engine_folder()
        self.id = folder.name
        self.keeper = keeper.Keeper(SPEC, idle_seconds, folder)
        self.jvm = self.keeper.jvm
        listening = keeper.listen(folder, is_shared=bool(idle_seconds))
        self.thread = threading.Thread(target=self.keeper.run, args=(listening,), daemon=True)
        self.thread.start()

    def lease(self, spec=SPEC):
        return find_lease(spec, [self.id])

    def is_over(self, seconds=5.0):
        self.thread.join(seconds)
        return not self.thread.is_alive()

    def did(self, *names):
        """Wait until the JVM was asked to do things, in this order."""
        deadline = time.monotonic() + 5
        while [name for name, _ in self.jvm.did] != list(names) and time.monotonic() < deadline:
            time.sleep(0.01)
        return [name for name, _ in self.jvm.did] == list(names)


@pytest.fixture
def start(monkeypatch, tmp_path):
    monkeypatch.setattr(keeper, "Jvm", FakeJvm)
    monkeypatch.setattr(registry, "_roots", lambda: [tmp_path])
    engines = []

    def start_one(idle_seconds=0.0):
        engines.append(Engine(idle_seconds))
        return engines[-1]

    yield start_one
    for engine in engines:
        engine.keeper.end()
        assert engine.is_over()


def kill(held: Lease):
    """End a lease as the end of its process does: without a word."""
    held._connection.shutdown(2)
    held._connection.close()


def test_a_private_engine_ends_in_order_with_its_last_lease(start):
    engine = start()
    one, other = engine.lease(), engine.lease()
    assert (one.port, one.token) == (15002, "token")
    assert one.user != other.user
    one.end()
    assert engine.did("dismiss")
    assert not engine.is_over(0.7)
    other.end()
    assert engine.is_over()
    assert engine.jvm.did[-1] == ("end", False)


def test_what_a_killed_client_left_is_interrupted_before_anybody_gets_a_lease(start):
    engine = start()
    killed, stays = engine.lease(), engine.lease()
    engine.jvm.may_interrupt.clear()
    kill(killed)
    time.sleep(0.2)
    waiting = []
    thread = threading.Thread(target=lambda: waiting.append(engine.lease()), daemon=True)
    thread.start()
    settled = threading.Thread(target=stays.settle, daemon=True)
    settled.start()
    thread.join(0.3)
    assert not waiting
    assert settled.is_alive()
    engine.jvm.may_interrupt.set()
    thread.join(5)
    settled.join(5)
    assert waiting[0].user
    assert not settled.is_alive()
    assert engine.jvm.did == [("dismiss", killed.user)]
    waiting[0].end()
    stays.end()


def test_a_private_engine_whose_last_client_is_killed_ends_at_once(start):
    engine = start()
    kill(engine.lease())
    assert engine.is_over()
    assert engine.jvm.did == [("end", True)]


def test_work_that_cannot_be_interrupted_ends_the_engine(start):
    engine = start()
    engine.jvm.obeys = False
    killed, stays = engine.lease(), engine.lease()
    kill(killed)
    assert engine.is_over()
    assert engine.jvm.did[-1] == ("end", True)
    assert "did not end the work" in _ended(stays)


def test_a_shared_engine_outlives_its_clients_and_is_found(start):
    engine = start(idle_seconds=0.6)
    assert registry.shared_engines() == [engine.id]
    engine.lease().end()
    assert not engine.is_over(0.2)
    engine.lease().end()
    assert engine.is_over()


def test_a_private_engine_is_found_by_its_id_only(start, monkeypatch):
    engine = start()
    assert registry.shared_engines() == []
    monkeypatch.setenv(lease.ENGINE, engine.id)
    assert lease.engines_at_hand(None) == [engine.id]
    engine.lease().end()


def test_who_needs_something_else_is_refused_and_counts_for_nothing(start):
    engine = start()
    held = engine.lease()
    assert engine.lease(replace(SPEC, java="21")) is None
    assert engine.lease(replace(SPEC, jars={"/x.jar": "x.jar"})) is None
    assert engine.jvm.did == []
    held.end()
    assert engine.is_over()


def test_the_end_of_spark_reaches_who_holds_a_lease_and_who_waits_for_one(start):
    engine = start()
    held = engine.lease()
    engine.jvm.reason = "Spark ran out of memory"
    engine.jvm.dies.set()
    assert "out of memory" in _ended(held)
    assert engine.is_over()
    assert engine.lease() is None, "it is gone"


def test_a_spark_that_does_not_start_is_one_error(start, monkeypatch):
    def fail(_self):
        raise RuntimeError("Spark did not start: no space left")

    monkeypatch.setattr(FakeJvm, "start", fail)
    engine = start()
    held = Lease(engine.id, registry.dial(engine.id))
    with pytest.raises(TransientError, match=r"no space left|it is gone"):
        held.take(SPEC)


@pytest.mark.parametrize("engine", ["engine-none", "../../etc", "engine-a/../b", ""])
def test_an_id_that_names_no_engine_is_passed_over(start, engine):
    start()
    assert find_lease(SPEC, [engine]) is None


def test_a_spark_that_hangs_is_ended_and_nobody_waits_for_it(start):
    engine = start(idle_seconds=60.0)
    engine.jvm.hangs = True
    assert engine.lease() is None
    assert engine.is_over()
    assert engine.jvm.did[-1] == ("end", True)


def test_who_is_killed_while_spark_starts_is_not_waited_for(start, monkeypatch):
    monkeypatch.setattr(FakeJvm, "starts_at_once", False)
    engine = start()
    asked = Lease(engine.id, registry.dial(engine.id))
    asked.ask(SPEC)
    time.sleep(0.2)
    kill(asked)
    assert engine.is_over()
    engine.jvm.may_start.set()


def test_who_settles_waits_for_a_client_whose_death_the_keeper_has_not_heard_of(start, monkeypatch):
    """The runner knows of a child's end as soon as the system does."""
    engine = start()
    killed, stays = engine.lease(), engine.lease()
    heard = threading.Event()
    end_lease = engine.keeper._end_lease

    def deaf(user, *, said_goodbye):
        if threading.current_thread().name != "deaf":
            end_lease(user, said_goodbye=said_goodbye)
        else:
            heard.wait(5)

    for thread in threading.enumerate():
        if thread.name.endswith("(_serve)"):
            thread.name = "deaf"
    monkeypatch.setattr(engine.keeper, "_end_lease", deaf)
    kill(killed)
    outsider = Lease(engine.id, registry.dial(engine.id))
    outsider.settle()
    assert engine.jvm.did == [("dismiss", killed.user)]
    heard.set()
    outsider.end()
    monkeypatch.undo()
    stays.end()


def test_an_engine_that_does_not_answer_is_not_waited_for(start, monkeypatch):
    monkeypatch.setattr(lease, "_START_SECONDS", 0.2)
    monkeypatch.setattr(FakeJvm, "starts_at_once", False)
    engine = start()
    assert engine.lease() is None
    engine.jvm.may_start.set()


def test_two_processes_that_want_a_warm_engine_start_one(start, monkeypatch):
    started = []

    def start_one(_spec, idle_seconds):
        time.sleep(0.2)
        started.append(start(idle_seconds))
        return Lease(started[-1].id, registry.dial(started[-1].id))

    monkeypatch.setattr(lease, "start_engine", start_one)
    leases = []

    def get():
        leases.append(lease.get_lease(SPEC, registry.shared_engines, 60.0))

    threads = [threading.Thread(target=get) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(leases) == 3
    assert len(started) == 1
    for one in leases:
        one.wait()
        one.end()


def test_an_engine_is_dead_when_keeper_and_java_are(tmp_path, monkeypatch):
    """A killed keeper's Java may commit for some moments more."""
    monkeypatch.setattr(registry, "_roots", lambda: [tmp_path])
    monkeypatch.setattr(registry, "_KILL_SECONDS", 0.3)
    keeper_process = subprocess.run(
        [sys.executable, "-c", KEEPER_THAT_DIES, str(tmp_path)],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    engine = keeper_process.stdout.strip()
    before = time.monotonic()
    assert registry.await_end(engine)
    assert time.monotonic() - before > 0.25, "it was waited for, then killed"


KEEPER_THAT_DIES = """
import subprocess, sys
from singer_spark.engine import registry
from singer_spark.scratch import make_scratch, owner_of
folder = make_scratch("engine-", sys.argv[1])
java = subprocess.Popen(["sleep", "60"], pass_fds=[owner_of(folder)], start_new_session=True,
                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
(folder / registry.JVM_ID).write_text(str(java.pid))
print(folder.name, flush=True)
import os
os._exit(9)
"""


def _ended(held: Lease) -> str:
    deadline = time.monotonic() + 5
    while held.ended is None and time.monotonic() < deadline:
        time.sleep(0.01)
    return str(held.ended)


def test_a_spark_that_stops_answering_is_ended_while_its_clients_work(start, monkeypatch):
    monkeypatch.setattr(keeper, "_LOOK_SECONDS", 0.05)
    engine = start()
    held = engine.lease()
    engine.jvm.hangs = True
    assert "Spark does not answer" in _ended(held)
    assert engine.is_over()
    assert engine.jvm.did[-1] == ("end", True)


def test_what_cannot_mend_by_itself_is_no_reason_to_try_again(start, monkeypatch):
    def fail(_self):
        raise SettingsError("Spark did not start: no such class; correct spark_conf")

    monkeypatch.setattr(FakeJvm, "start", fail)
    engine = start()
    with pytest.raises(SettingsError, match=r"correct spark_conf$"):
        engine.lease()


def test_a_keeper_that_cannot_begin_says_why(monkeypatch):
    monkeypatch.setattr(
        lease, "_START", 'import sys; sys.stdin.read(); print(\'{"ended": "no room", "code": 75}\')'
    )
    with pytest.raises(TransientError, match="no room; run again"):
        lease.start_engine(SPEC)


def test_java_of_a_killed_keeper_is_ended_by_who_waits_for_it(start, monkeypatch):
    """One that hangs does not see that its standard input has ended."""
    engine = start()
    held = engine.lease()
    ended = []
    monkeypatch.setattr(lease, "await_end", ended.append)
    (registry.engine_folder(engine.id) / registry.SOCKET).unlink()
    for connection in list(engine.keeper._leases.values()):
        connection.shutdown(2)
    assert _ended(held) == "it was killed"
    deadline = time.monotonic() + 5
    while not ended and time.monotonic() < deadline:
        time.sleep(0.01)
    assert ended == [engine.id]


def test_who_gives_an_engine_back_ends_nothing(start, monkeypatch):
    ended = []
    monkeypatch.setattr(lease, "await_end", ended.append)
    engine = start()
    engine.lease().end()
    assert engine.is_over()
    assert ended == []
