"""Sessions on someone else's server: noted, and ended by a successor if their owner was killed."""

from __future__ import annotations

import os

import pytest
from pyspark.errors.exceptions.connect import SparkConnectException
from pyspark.sql.connect.proto import base_pb2

from singer_spark.engine import connect as module
from singer_spark.engine.connect import RemoteSessions, end_sessions_of_dead
from singer_spark.errors import TransientError

SERVER = "sc://server:15002"
STATUS = base_pb2.GetStatusResponse.OperationStatus


class FakeClient:
    """A server's sessions: what each is doing at each look."""

    def __init__(self, channel):
        self.key = (channel.userId, channel.session_id)
        self.server = FakeClient.servers
        self.server.setdefault(self.key, [])

    def set_retry_policies(self, _policies):
        pass

    def _get_operation_statuses(self):
        doing = self.server[self.key]
        if isinstance(doing, Exception):
            raise doing
        state = doing.pop(0) if doing else STATUS.OPERATION_STATE_SUCCEEDED
        return base_pb2.GetStatusResponse(operation_statuses=[STATUS(state=state)])

    def interrupt_all(self):
        self.server.setdefault("interrupted", []).append(self.key)

    def release_session(self):
        self.server.setdefault("released", []).append(self.key)

    def close(self):
        pass


@pytest.fixture(autouse=True)
def server(monkeypatch, tmp_path):
    FakeClient.servers = {}
    monkeypatch.setattr(module, "SparkConnectClient", FakeClient)
    monkeypatch.setattr(module, "private_folder", lambda: tmp_path)
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.0)
    monkeypatch.setenv("SPARK_USER", "reader")
    return FakeClient.servers


def open_and_die(url=SERVER, sessions=2) -> list[tuple[str, str]]:
    """Open sessions in a process that is killed; return who had which."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        held = RemoteSessions(url)
        names = [held.channel().session_id for _ in range(sessions)]
        os.write(writing, " ".join(names).encode())
        os._exit(9)
    os.waitpid(child, 0)
    return [("reader", name) for name in os.read(reading, 4096).decode().split()]


def test_a_successor_interrupts_and_releases_what_was_left(server):
    first, second = open_and_die()
    server[first] = [STATUS.OPERATION_STATE_RUNNING] * 2
    end_sessions_of_dead(SERVER)
    assert server["interrupted"] == [first, first]
    assert server["released"] == [first, second]
    end_sessions_of_dead(SERVER)
    assert server["released"] == [first, second], "once is enough"


def test_those_of_another_server_wait_for_one_who_uses_it(server):
    open_and_die("sc://another:15002")
    end_sessions_of_dead(SERVER)
    assert "released" not in server
    end_sessions_of_dead("sc://another:15002/;token=secret")
    assert len(server["released"]) == 2


def test_those_of_a_living_process_are_left_alone(server):
    held = RemoteSessions(SERVER)
    held.channel()
    end_sessions_of_dead(SERVER)
    assert "released" not in server
    held.release()


def test_what_does_not_end_is_not_written_beside(server, monkeypatch):
    monkeypatch.setattr(module, "_END_SECONDS", 0.05)
    (first,) = open_and_die(sessions=1)
    server[first] = [STATUS.OPERATION_STATE_RUNNING] * 1_000_000
    with pytest.raises(TransientError, match="still does what a killed run has asked for"):
        end_sessions_of_dead(SERVER)
    server[first] = []
    end_sessions_of_dead(SERVER)
    assert server["released"] == [first], "the next one tries again"


def test_a_session_that_is_gone_needs_nothing(server):
    (first,) = open_and_die(sessions=1)
    server[first] = SparkConnectException("[INVALID_HANDLE.SESSION_NOT_FOUND] no such session")
    end_sessions_of_dead(SERVER)
    assert "released" not in server


def test_a_server_that_does_not_say_is_asked_again(server):
    (first,) = open_and_die(sessions=1)
    server[first] = SparkConnectException("UNAVAILABLE")
    with pytest.raises(TransientError, match="does not say"):
        end_sessions_of_dead(SERVER)
    server[first] = []
    end_sessions_of_dead(SERVER)
    assert server["released"] == [first]


def test_no_word_of_a_token_is_noted(tmp_path):
    held = RemoteSessions("sc://server:15002/;token=secret;user_id=me")
    held.channel()
    noted = [path.read_text() for path in tmp_path.rglob("sessions")]
    assert noted
    assert "secret" not in str(noted)
    held.release()
    assert not list(tmp_path.rglob("sessions"))
