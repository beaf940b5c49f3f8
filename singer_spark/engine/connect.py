"""Clients of Spark Connect: the channel to an engine of ours, sessions on someone else's server.

Our channel goes to the literal loopback address, without a proxy, with the engine's token: Spark's
own builder sends a token without TLS to `localhost` only, which may be an address where another
user listens.

On a server of someone else nobody notices that a client was killed. Which sessions a process has
is noted on this machine, so that the next one that uses the same server ends what they are doing,
before it opens a session of its own.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, final
from urllib.parse import urlsplit

import grpc
from filelock import FileLock, Timeout
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.connect.client import DefaultChannelBuilder, SparkConnectClient
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.proto import base_pb2 as pb2
from typing_extensions import override

from singer_spark.engine.lease import Lease
from singer_spark.engine.registry import private_folder
from singer_spark.errors import TransientError
from singer_spark.scratch import folders_of_dead, leave_scratch, make_scratch, remove_scratch

_LENGTHS = ("grpc.max_receive_message_length", "grpc.max_send_message_length")
_OPTIONS = [("grpc.enable_http_proxy", 0), *((name, -1) for name in _LENGTHS)]


@final
class EngineChannel(DefaultChannelBuilder):
    """The channel to the engine of a lease."""

    def __init__(self, lease: Lease) -> None:
        super().__init__(f"sc://127.0.0.1:{lease.port}", channelOptions=list(_OPTIONS))
        self._lease = lease
        self.set(self.PARAM_USER_ID, lease.user)

    @override
    def toChannel(self) -> grpc.Channel:
        token = grpc.metadata_call_credentials(self._give_token)
        credentials = grpc.composite_channel_credentials(grpc.local_channel_credentials(), token)
        return self._secure_channel(f"ipv4:127.0.0.1:{self._lease.port}", credentials)

    def _give_token(self, _context: object, give: grpc.AuthMetadataPluginCallback) -> None:
        """Give a request the engine's token, and none once the engine is gone.

        Somebody else may listen at its port by then, and would get the request as well.
        """
        if reason := self._lease.ended:
            give((), ConnectionError(reason))
        else:
            give((("authorization", f"Bearer {self._lease.token}"),), None)


def short_patience() -> DefaultPolicy:
    """Return how often a request to an engine of ours is repeated: it lives, or it is dead."""
    return DefaultPolicy(max_retries=4, initial_backoff=50, max_backoff=500, backoff_multiplier=2.0)


logger = logging.getLogger(__name__)

_RELEASE_SECONDS = 10.0
_END_SECONDS = 60.0
_LOOKS, _LOOK_SECONDS = 3, 0.1
_GONE = ("SESSION_NOT_FOUND", "SESSION_CLOSED", "SESSION_CHANGED")
_BUSY = (
    pb2.GetStatusResponse.OperationStatus.OPERATION_STATE_RUNNING,
    pb2.GetStatusResponse.OperationStatus.OPERATION_STATE_UNKNOWN,
)


@final
class RemoteSessions:
    """The sessions of this process on one server."""

    def __init__(self, remote: str) -> None:
        self._remote = remote
        self._clients: list[Any] = []
        end_sessions_of_dead(remote)
        # No other begins so: those of the dead are for `end_sessions_of_dead` alone.
        unique = f"{_prefix(remote)}{uuid.uuid4().hex}-"
        self._folder = make_scratch(unique, private_folder())

    def channel(self) -> DefaultChannelBuilder:
        """Describe the channel of a new session, which is noted before it is opened."""
        channel = _channel(self._remote, str(uuid.uuid4()), _user_of(self._remote))
        line = {"user": channel.userId, "session": channel.session_id}
        with (self._folder / "sessions").open("a") as file:
            file.write(json.dumps(line) + "\n")
        return channel

    def note(self, session: SparkSession) -> None:
        """Note a session that was opened, to release it at the end."""
        known: Any = session
        self._clients.append(known.client)

    def release(self) -> None:
        """Release all sessions; a server that does not answer holds nobody up."""
        done = threading.Thread(target=self._release_all, daemon=True)
        done.start()
        done.join(_RELEASE_SECONDS)
        if done.is_alive() or self._clients:
            leave_scratch(self._folder)  # the next one tries again
        else:
            remove_scratch(self._folder)

    def _release_all(self) -> None:
        with suppress(Exception):  # it has ended, or cannot be reached
            while self._clients:
                client = self._clients[-1]
                client.set_retry_policies([DefaultPolicy(max_retries=1)])
                client.interrupt_all()
                client.release_session()
                self._clients.pop()


def end_sessions_of_dead(remote: str) -> None:
    """End what killed processes of this user have left running on a server."""
    folder = private_folder()
    try:
        # One after another: who comes second must not go on before the first has ended them.
        with FileLock(folder / "sessions.lock", timeout=2 * _END_SECONDS, mode=0o600):
            for left in folders_of_dead(_prefix(remote), folder):
                for user, session in _noted(left):
                    _end_session(remote, user, session)
    except Timeout as error:
        known = "spark_remote: another process waits for its server; run again"
        raise TransientError(known) from error


def _noted(folder: Path) -> list[tuple[str | None, str]]:
    """Read which sessions a process had; the last line may have been cut."""
    found = []
    with suppress(OSError, ValueError, KeyError):
        for line in (folder / "sessions").read_text().splitlines():
            noted = json.loads(line)
            found.append((noted["user"], noted["session"]))
    return found


def _end_session(remote: str, user: str | None, session: str) -> None:
    """Interrupt what a session is doing, wait until that has ended, and release it."""
    client: Any = SparkConnectClient(_channel(remote, session, user))
    client.set_retry_policies([DefaultPolicy(max_retries=2, max_backoff=1000)])
    deadline, quiet = time.monotonic() + _END_SECONDS, 0
    try:
        while quiet < _LOOKS:  # a request may still be on its way
            known = client._get_operation_statuses().operation_statuses
            is_busy = any(one.state in _BUSY for one in known)
            if is_busy:
                client.interrupt_all()
            quiet = 0 if is_busy else quiet + 1
            if time.monotonic() > deadline:
                raise TransientError(
                    f"spark_remote: {_server(remote)} still does what a killed run has asked for; "
                    "run again later"
                )
            time.sleep(_LOOK_SECONDS)
        client.release_session()
    except PySparkException as error:
        if not any(word in str(error) for word in _GONE):
            raise TransientError(
                f"spark_remote: {_server(remote)} does not say what a killed run has left; "
                "run again later"
            ) from error
    finally:
        with suppress(Exception):
            client.close()
    logger.debug("Ended session %s of a killed process", session)


def _channel(remote: str, session: str, user: str | None) -> DefaultChannelBuilder:
    channel = DefaultChannelBuilder(remote)
    channel.set(channel.PARAM_SESSION_ID, session)
    if user:
        channel.set(channel.PARAM_USER_ID, user)
    return channel


def _user_of(remote: str) -> str | None:
    return DefaultChannelBuilder(remote).userId or os.getenv("SPARK_USER") or os.getenv("USER")


def _prefix(remote: str) -> str:
    """Name the notes of one server apart from those of others."""
    return f"sessions-{hashlib.sha256(_server(remote).encode()).hexdigest()[:8]}-"


def _server(remote: str) -> str:
    return urlsplit(remote).netloc
