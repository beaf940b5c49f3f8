"""A lease: the right to use an engine, for as long as a connection to its keeper is open."""

from __future__ import annotations

import json
import logging
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from queue import Empty, SimpleQueue
from typing import Any, final

from singer_spark.engine.registry import await_end, dial, engines_of, one_starter, shared_engines
from singer_spark.engine.spec import Spec
from singer_spark.errors import SettingsError, SingerSparkError, TransientError
from singer_spark.report import report_progress

logger = logging.getLogger(__name__)

_NEWS_SECONDS = 5.0
_HEARD_SECONDS = 20.0
_KEEPER_SECONDS = 60.0
_START_SECONDS = 300.0
_SETTLE_SECONDS = 240.0
# What a run gives its processes, and what Meltano gives its plugins, is no business of Spark.
_PRIVATE = ("TAP_", "TARGET_", "MELTANO_", "SINGER_SPARK_REPORT", "SINGER_SPARK_STATE")
# The folder that a command is called in is no place to import from.
_START = "import sys; sys.path.pop(0); from singer_spark.engine.keeper import main; main(sys.stdin)"

# The engine of a run, for the processes that the runner starts.
ENGINE = "SINGER_SPARK_ENGINE"
# Who sets it wants to see what Spark logs; else an engine keeps that to itself.
LOG_LEVEL = "SINGER_SPARK_LOG_LEVEL"


@final
class Lease:
    """The right to use one engine; it ends with this process, or by `end`."""

    def __init__(self, engine: str, connection: socket.socket) -> None:
        self.engine = engine
        self.port, self.token, self.user = 0, "", ""
        self.ended: str | None = None
        self._connection = connection
        self._is_closed = False
        self._answers: SimpleQueue[dict[str, Any]] = SimpleQueue()
        threading.Thread(target=self._listen, name="lease", daemon=True).start()

    def ask(self, spec: Spec) -> None:
        """Ask the keeper for the engine; from now on it belongs to this process as well."""
        self._send("lease", spec=spec.to_json())

    def take(self, spec: Spec) -> str | None:
        """Ask for the engine and wait until it can be used; say why it is refused."""
        self.ask(spec)
        return self.wait()

    def wait(self) -> str | None:
        """Wait until the engine that was asked for can be used; say why it is refused."""
        if self.port:
            return None
        answer = self._answer(_HEARD_SECONDS)
        if "heard" in answer:
            answer = self._answer(_START_SECONDS)
        if reason := answer.get("refused"):
            self.end()
            return str(reason)
        if reason := answer.get("ended"):
            raise _failure(str(reason), answer.get("code"))
        self.port, self.token, self.user = answer["port"], answer["token"], answer["user"]
        return None

    def settle(self) -> None:
        """Wait until nothing runs any more of those whose lease has ended."""
        self._send("quiet")
        deadline = time.monotonic() + _SETTLE_SECONDS
        while True:
            answer = self._answer(deadline - time.monotonic())
            if "quiet" in answer:
                return
            if "ended" in answer:
                break
        if not await_end(self.engine):
            logger.error("Engine %s does not end; end its processes", self.engine)

    def why_it_ended(self) -> str | None:
        """Say why the engine is gone; what is lost first is the connection to Spark."""
        with suppress(Empty):
            while self.ended is None:
                self._answers.get(timeout=_NEWS_SECONDS)
        return self.ended

    def end(self) -> None:
        """Give the engine back."""
        self._send("goodbye")
        self._close()

    def _close(self) -> None:
        self._is_closed = True
        with suppress(OSError):  # the thread that listens keeps it open otherwise
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _answer(self, seconds: float) -> dict[str, Any]:
        try:
            return self._answers.get(timeout=max(0.0, seconds))
        except Empty:
            self.ended = "it does not answer"
            self._close()
            return {"ended": self.ended}

    def _listen(self) -> None:
        """Read what the keeper says; the last word is how the engine ended."""
        with (
            suppress(OSError, ValueError),
            self._connection.makefile("r", encoding="utf-8") as file,
        ):
            for line in file:
                answer = json.loads(line)
                if "works" in answer:
                    with suppress(OSError):  # the run has ended
                        report_progress()
                    continue
                self.ended = self.ended or answer.get("ended")
                self._answers.put(answer)
        was_killed = self.ended is None and not self._is_closed
        self.ended = self.ended or "it was killed"
        self._answers.put({"ended": self.ended})
        if was_killed:
            self._end_orphan()

    def _end_orphan(self) -> None:
        """End a Java that hangs, and does not see that its keeper is dead."""
        try:
            dial(self.engine).close()
        except OSError:
            await_end(self.engine)

    def _send(self, what: str, **members: Any) -> None:
        with suppress(OSError):  # who listens learns that it is gone
            self._connection.sendall(json.dumps({"ask": what, **members}).encode() + b"\n")


def find_lease(spec: Spec, engines: Iterable[str]) -> Lease | None:
    """Take a lease of the first engine that serves, None if none does."""
    for engine in engines:
        lease = _connect(engine)
        if lease is None:
            continue
        try:
            reason = lease.take(spec)
        except TransientError as error:
            logger.debug("Engine %s cannot be used: %s", engine, error)
            lease.end()
            continue
        if reason is None:
            return lease
        logger.debug("Engine %s does not fit: %s", engine, reason)
    return None


def start_engine(spec: Spec, idle_seconds: float = 0.0) -> Lease:
    """Start an engine, and connect to its keeper; nobody waits for Spark yet.

    It outlives its last lease by `idle_seconds`; one of 0 is private.
    """
    asked = json.dumps({"spec": spec.to_json(), "idle_seconds": idle_seconds})
    keeper = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", _START],
        cwd="/",  # a shared one must not hold on to the folder of whoever started it
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if os.environ.get(LOG_LEVEL) else subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if not name.startswith(_PRIVATE)},
        start_new_session=True,  # what ends this process by Ctrl-C must not end Spark before it
        text=True,
    )
    try:
        answer = _talk(keeper, asked)
        if reason := answer.get("ended"):
            raise _failure(str(reason), answer.get("code"))
        engine = str(answer["engine"])
        return Lease(engine, dial(engine))
    except OSError as error:
        raise TransientError("Spark's keeper did not start; run again") from error


def _failure(reason: str, code: int | None) -> SingerSparkError:
    """Say what a client does about an engine that has failed."""
    if code == SettingsError.exit_code:
        return SettingsError(f"Spark's engine cannot be used: {reason}")
    return TransientError(f"Spark's engine cannot be used: {reason}; run again")


def _talk(keeper: subprocess.Popen[str], asked: str) -> dict[str, Any]:
    """Give the keeper its orders and read what it says of the engine; it lives on."""
    if keeper.stdin is None or keeper.stdout is None:
        raise BrokenPipeError
    with keeper.stdout, keeper.stdin:
        keeper.stdin.write(asked)
        keeper.stdin.close()
        is_heard = select.select([keeper.stdout], [], [], _KEEPER_SECONDS)[0]
        line = keeper.stdout.readline() if is_heard else ""
    if not line.endswith("\n"):
        raise BrokenPipeError
    answer: dict[str, Any] = json.loads(line)
    return answer


def get_lease(spec: Spec, engines: Callable[[], list[str]], idle_seconds: float) -> Lease:
    """Take a lease of an engine that serves, or start one; nobody waits for Spark there yet."""
    if found := find_lease(spec, engines()):
        return found
    with one_starter() if idle_seconds else nullcontext():
        found = find_lease(spec, engines()) if idle_seconds else None
        if found:
            return found
        lease = start_engine(spec, idle_seconds)
        lease.ask(spec)
    return lease


def hold(spec: Spec, engine: str) -> Lease | None:
    """Ask for an engine without waiting for it, None where it is gone."""
    lease = _connect(engine)
    if lease is not None:
        lease.ask(spec)
    return lease


def _connect(engine: str) -> Lease | None:
    try:
        return Lease(engine, dial(engine))
    except (OSError, ValueError) as error:
        logger.debug("Engine %s is gone: %s", engine, error)
        return None


def settle_engines(run_id: str) -> None:
    """Wait until nothing runs any more on the engines that a run's processes may have used."""
    for engine in dict.fromkeys([*engines_of(run_id), *shared_engines()]):
        lease = _connect(engine)
        if lease is not None:
            lease.settle()
            lease.end()
        elif not await_end(engine):  # its keeper is dead, and Java not yet
            logger.error("Engine %s does not end; end its processes", engine)


def engines_at_hand(engine: str | None) -> list[str]:
    """List the engines that this process may use: that of its run or pipe, then shared ones."""
    near = [os.environ.get(ENGINE), engine]
    return [one for one in near if one] + shared_engines()
