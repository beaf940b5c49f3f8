"""The keeper: one small process that owns one JVM, and lends it to those who hold a lease.

A client connects to the keeper's socket, says what it needs and learns where Spark listens. The
open connection is its lease. When the connection ends, however that happens, the keeper ends what
the client still has running before it lends Spark to anybody else.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, final

from singer_spark.assignment import RUN_ID
from singer_spark.engine.failures import Vigil, first_line
from singer_spark.engine.jvm import Jvm
from singer_spark.engine.lease import LOG_LEVEL
from singer_spark.engine.registry import RUN, SHARED, SOCKET, keep_fresh, make_engine_folder
from singer_spark.engine.spec import Spec
from singer_spark.errors import SingerSparkError, TransientError
from singer_spark.scratch import remove_scratch

_FIRST_LEASE_SECONDS = 60.0
_NEWS_SECONDS = 5.0
_WORK_SECONDS = 30.0
_LOOK_SECONDS = 10.0


@final
class Keeper:
    """Lends one JVM to the holders of leases, until nobody has one."""

    def __init__(self, spec: Spec, idle_seconds: float, folder: Path) -> None:
        self._spec, self._idle_seconds, self.folder = spec, idle_seconds, folder
        # One that outlives its starter must not work in a folder that goes with it.
        self.jvm = Jvm(spec, folder, work=folder.parent if idle_seconds else None)
        self.started = threading.Event()
        self._failure: dict[str, Any] | None = None  # as clients hear of it
        # Held while a client that left is cleaned up after: nobody gets a lease meanwhile.
        self._changing = threading.Condition()
        self._leases: dict[str, socket.socket] = {}
        self._leaving = 0
        self._asked_to_end = False
        self._is_closing = False
        self._was_asked = False
        self._listens_until = time.monotonic() + _NEWS_SECONDS
        self._ends_at = time.monotonic() + max(_FIRST_LEASE_SECONDS, idle_seconds)

    def run(self, listening: socket.socket) -> None:
        """Serve until the last lease has ended, Spark has ended, or someone asks for the end."""
        _begin(self._start)
        _begin(self._accept, listening)
        _begin(self._watch_work)
        _begin(self._watch_life)
        while not (self.started.wait(0.5) or self._failure or self._asked_to_end):
            self._end_gone()  # who is killed now has no thread here that listens
        with self._changing:
            while not self._is_over():
                self._changing.wait(0.5)
            at_once = self._failure is not None or bool(self._leases)
            self._is_closing = True
        with suppress(OSError):
            (self.folder / SOCKET).unlink()
        listening.close()
        self.jvm.end(at_once=at_once)

    def end(self) -> None:
        """Ask for the end, whoever has a lease."""
        with self._changing:
            self._asked_to_end = True
            self._changing.notify_all()

    def _is_over(self) -> bool:
        if self._failure:
            # Whoever started it has yet to ask, and is to hear the reason.
            return self._was_asked or time.monotonic() >= self._listens_until
        if self._asked_to_end:
            return True
        is_used = bool(self._leases) or self._leaving > 0
        return not is_used and time.monotonic() >= self._ends_at

    def _start(self) -> None:
        try:
            self.jvm.start()
        except SingerSparkError as error:
            self._fail(error.message, error.exit_code)
        except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits to hear of it
            self._fail(str(error) or type(error).__name__)
        self.started.set()
        if self._failure is None:
            self._fail(self.jvm.wait())

    def _fail(self, reason: str, code: int = TransientError.exit_code) -> None:
        with self._changing:
            if self._failure is None:  # what comes after it comes of it
                self._failure = {"ended": reason, "code": code}
                for lease in self._leases.values():
                    _notify(lease, self._failure)
            self._changing.notify_all()

    def _watch_life(self) -> None:
        """End a Spark that answers no more: who waits for it would wait for ever."""
        self.started.wait()
        vigil = Vigil(self.jvm.garbage_seconds)
        while not self._is_closing and self._failure is None:
            time.sleep(_LOOK_SECONDS)
            if reason := vigil.look():
                self._fail(reason)

    def _watch_work(self) -> None:
        """Say to a client that its tasks work, which may be silent for hours."""
        self.started.wait()
        before: dict[str, int] = {}
        while not self._is_closing:
            time.sleep(_WORK_SECONDS)
            with suppress(Exception):  # whoever waits for an answer finds out
                leases = dict(self._leases)
                now = {user: self.jvm.work_done(user) for user in leases}
                for user in leases:
                    if now[user] != before.get(user, 0):
                        _notify(leases[user], {"works": now[user]})
                before = now
                # A request that came late may have opened a session after its client had gone.
                for stranger in self.jvm.users() - set(self._leases):
                    self.jvm.dismiss(stranger)
            keep_fresh(self.folder)

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            _begin(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        user = f"lease-{secrets.token_hex(8)}"
        said_goodbye = False
        try:
            with connection, connection.makefile("r", encoding="utf-8") as lines:
                for line in lines:
                    said_goodbye = self._answer(json.loads(line), connection, user)
        except (OSError, ValueError, LookupError, TypeError):
            pass  # what is no question of ours ends the connection
        finally:
            self._end_lease(user, said_goodbye=said_goodbye)

    def _answer(self, asked: dict[str, Any], connection: socket.socket, user: str) -> bool:
        """Answer one line of a client; say whether it was a goodbye."""
        match asked["ask"]:
            case "lease":
                _send(connection, {"heard": True})
                _send(connection, self._lend(Spec.from_json(asked["spec"]), user, connection))
            case "status":
                _send(connection, self._status())
            case "end":
                _send(connection, {"ended": "someone asked for it"})
                self.end()
            case "quiet":
                self._await_quiet()
                _send(connection, self._failure or {"quiet": True})
            case "goodbye":
                return True
            case _:
                _send(connection, {"refused": "an unknown question"})
        return False

    def _lend(self, needed: Spec, user: str, connection: socket.socket) -> dict[str, Any]:
        if reason := self._spec.misfit(needed):
            return {"refused": reason}
        with self._changing:
            self._was_asked = True
            if self._is_closing:
                return self._failure or {"refused": "it is ending"}
            self._leases[user] = connection
        self.started.wait()
        self._await_quiet()
        if not self._failure and (reason := Vigil(self.jvm.garbage_seconds).look()):
            self._fail(reason)
        return self._failure or {"port": self.jvm.port, "token": self.jvm.token, "user": user}

    def _await_quiet(self) -> None:
        """Wait until nothing runs any more of those who left, or who were killed just now."""
        self._end_gone()
        with self._changing:
            while self._leaving and not self._failure:
                self._changing.wait()

    def _status(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "leases": len(self._leases),
            "idle_seconds": self._idle_seconds,
            "is_ready": self.started.is_set(),
            "master": self._spec.conf["spark.master"],
        }

    def _end_lease(self, user: str, *, said_goodbye: bool) -> None:
        with self._changing:
            if self._leases.pop(user, None) is None:
                return
            self._leaving += 1
            is_last = not self._leases
        try:
            # Nobody is left who could wait for an end in order.
            if is_last and not self._idle_seconds and not said_goodbye:
                self._fail("its last client was killed")
            elif self.started.is_set() and not self._failure:
                self._clean_up(user)
        finally:
            with self._changing:
                self._leaving -= 1
                self._ends_at = time.monotonic() + self._idle_seconds
                self._changing.notify_all()

    def _end_gone(self) -> None:
        """End the leases of processes that are dead, whose threads here may not know it yet."""
        for user, connection in list(self._leases.items()):
            if _is_gone(connection):
                self._end_lease(user, said_goodbye=False)

    def _clean_up(self, user: str) -> None:
        try:
            if not self.jvm.dismiss(user):
                self._fail("Spark did not end the work of a client that is gone")
        except Exception as error:  # noqa: BLE001 - Spark has ended, or is no longer to be trusted
            self._fail(first_line(error))


def _begin(work: Callable[..., None], *given: Any) -> None:
    threading.Thread(target=work, args=given, daemon=True).start()


def _is_gone(connection: socket.socket) -> bool:
    """Say whether the other side has closed, whatever it has said before."""
    poll = select.poll()
    try:
        poll.register(connection, 0)
    except ValueError:  # closed by us
        return True
    return bool(poll.poll(0))


def _notify(connection: socket.socket, news: dict[str, Any]) -> None:
    """Send what nobody has asked for; one who does not read must not hold up the others."""
    with suppress(OSError):
        connection.send(_line(news), socket.MSG_DONTWAIT)


def _send(connection: socket.socket, answer: dict[str, Any]) -> None:
    connection.sendall(_line(answer))


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def listen(folder: Path, *, is_shared: bool) -> socket.socket:
    """Open the socket of an engine, before anybody can have heard of it."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(folder / SOCKET))
    listening.listen(128)
    if is_shared:
        (folder / SHARED).touch()
    return listening


def main(request: IO[str]) -> None:
    """Keep the engine that the request describes; print its id once it can be asked, or why not."""
    asked: dict[str, Any] = json.load(request)
    try:
        keeper, listening = _open(asked)
    except (SingerSparkError, OSError) as error:
        code = getattr(error, "exit_code", TransientError.exit_code)
        _say({"ended": f"it did not start: {error}", "code": code})
        return
    folder = keeper.folder
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: keeper.end())
    _say({"engine": folder.name})
    try:
        keeper.run(listening)
    finally:
        remove_scratch(folder)


def _open(asked: dict[str, Any]) -> tuple[Keeper, socket.socket]:
    """Make all that an engine is found by."""
    folder = make_engine_folder()
    with (folder / "log").open("ab") as log:
        if asked["idle_seconds"] or not os.environ.get(LOG_LEVEL):
            os.dup2(log.fileno(), 2)
    (folder / RUN).write_text(os.environ.get(RUN_ID, ""))
    keeper = Keeper(Spec.from_json(asked["spec"]), asked["idle_seconds"], folder)
    return keeper, listen(folder, is_shared=bool(asked["idle_seconds"]))


def _say(answer: dict[str, Any]) -> None:
    """Answer who has started this process, who listens to one line."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)


if __name__ == "__main__":
    main(sys.stdin)
