"""The keeper: one small process that owns one JVM, and lends it to those who hold a lease.

A client connects to the keeper's socket, says what it needs and learns where Spark listens. The
open connection is its lease. When the connection ends, however that happens, the keeper ends what
the client still has running before it lends Spark to anybody else.

The JVM reads from the keeper: Spark's gateway ends with its standard input, so that a keeper that
is killed takes the JVM along.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, final

from singer_spark.engine.jars import cache_folder
from singer_spark.engine.java import Archive, argument_file, arguments, find_java
from singer_spark.engine.lease import LOG_LEVEL
from singer_spark.engine.place import SHARED, SOCKET, make_engine_folder
from singer_spark.engine.spec import Spec
from singer_spark.scratch import make_scratch, remove_scratch
from singer_spark.settings import has_warehouse

_FIRST_LEASE_SECONDS = 60.0
_START_SECONDS = 180.0
_INTERRUPT_SECONDS = 60.0
_END_SECONDS = 60.0
_LOOK_SECONDS = 0.05
_NEWS_SECONDS = 5.0
_OUT_OF_MEMORY = 3


@final
class Jvm:
    """Spark's process: started, asked, ended."""

    def __init__(self, spec: Spec, folder: Path) -> None:
        self.token = secrets.token_hex(32)
        self.port = 0
        self._spec, self._folder = spec, folder
        self._scratch = make_scratch("singer-spark-jvm-")
        self._made = folder / "classes.jsa"
        self._archive = Archive.of(find_java(), spec.class_path, cache_folder() / "classes")
        self._process: subprocess.Popen[bytes] | None = None
        self.gateway: Any = None

    def start(self) -> None:
        """Start Java and Spark in it, and learn where it listens."""
        java = find_java()
        options = [*self._archive.options(self._made), *self._paths(), *self._spec.options]
        command = arguments(java, self._spec.class_path, self._conf(), options)
        answer = self._folder / "gateway"
        environment = {
            **os.environ,
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer),
            "SPARK_CONNECT_AUTHENTICATE_TOKEN": self.token,
            "SPARK_HOME": str(Path(self._spec.class_path[-1]).parent.parent),
        }
        environment.setdefault("PYSPARK_PYTHON", sys.executable)  # where Spark's workers find us
        with _private_file(argument_file(command), self._folder) as (file, descriptors):
            self._process = subprocess.Popen(  # noqa: S603
                [java.command, f"@{file}"],
                stdin=subprocess.PIPE,
                stdout=2,
                env=environment,
                cwd=self._folder,
                pass_fds=descriptors,
            )
            port, secret = self._await_gateway(self._process, answer)
        self._connect(port, secret)

    def wait(self) -> str:
        """Wait for the end of Java, and say how it ended."""
        code = self._process.wait() if self._process else 0
        if code == _OUT_OF_MEMORY:
            return "Spark ran out of memory; raise spark.driver.memory in spark_conf"
        return f"Spark's process ended (code {code})"

    def dismiss(self, user: str, *, looks: int) -> bool:
        """End what a user's sessions are doing, and release them; say whether that worked.

        Args:
            user: Whose sessions.
            looks: How often nothing must be found. A request of a killed client may still be on
                its way, so one look is not enough there.
        """
        deadline = time.monotonic() + _INTERRUPT_SECONDS
        quiet = 0
        while True:
            running = [one for one in self._executions(user) if one.isExecuteThreadRunnerAlive()]
            for one in running:
                one.interrupt()
            quiet = 0 if running else quiet + 1
            if quiet >= looks:
                break
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_SECONDS)
        for key in self._sessions(user):
            self._service.sessionManager().closeSession(key, False)
        return True

    def end(self, *, at_once: bool) -> None:
        """End Java: by its standard input, so that it leaves in order, or at once."""
        process = self._process
        if process is not None and process.poll() is None:
            if at_once:
                process.kill()
            with suppress(OSError):
                _input(process).close()
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        with suppress(OSError):
            self._archive.keep(self._made)
        remove_scratch(self._scratch)

    @property
    def _service(self) -> Any:
        name = "org.apache.spark.sql.connect.service.SparkConnectService$"
        return getattr(getattr(self.gateway.jvm, name), "MODULE$")

    def _executions(self, user: str) -> Iterator[Any]:
        holders = self._service.executionManager().listExecuteHolders()
        for place in range(holders.size()):
            holder = holders.apply(place)
            if holder.executeKey().userId() == user:
                yield holder

    def _sessions(self, user: str) -> list[Any]:
        known = self._service.sessionManager().listActiveSessions()
        key = self.gateway.jvm.org.apache.spark.sql.connect.service.SessionKey
        infos = [known.apply(place) for place in range(known.size())]
        return [key(user, one.sessionId()) for one in infos if one.userId() == user]

    def _await_gateway(self, process: subprocess.Popen[bytes], answer: Path) -> tuple[int, str]:
        deadline = time.monotonic() + _START_SECONDS
        while not answer.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(self._last_words())
            time.sleep(0.01)
        content = answer.read_bytes()
        answer.unlink()
        port, length = struct.unpack("!ii", content[:8])
        return port, content[8 : 8 + length].decode()

    def _connect(self, port: int, secret: str) -> None:
        from py4j.java_gateway import GatewayParameters, JavaGateway

        parameters = GatewayParameters(port=port, auth_token=secret, auto_convert=True)
        self.gateway = JavaGateway(gateway_parameters=parameters)
        try:
            self.gateway.jvm.org.apache.spark.sql.classic.SparkSession.builder().getOrCreate()
            self.port = self._service.localPort()
        except Exception as error:
            raise RuntimeError(_first_line(error)) from error

    def _paths(self) -> list[str]:
        beside = Path(__file__).parent
        memory = self._spec.conf.get("spark.driver.memory", "1g")
        # A name that Java's locale cannot read stays away from it.
        scratch = [f"-Djava.io.tmpdir={self._scratch}"] if str(self._scratch).isascii() else []
        return [
            f"-Xmx{memory}",
            f"-Dlog4j2.configurationFile={(beside / 'log4j2.properties').as_uri()}",
            f"-Dderby.stream.error.file={os.devnull}",
            *scratch,
        ]

    def _conf(self) -> dict[str, str]:
        """Add what lies in folders of this process."""
        beside = Path(__file__).parent
        conf = {
            **self._warehouse(),
            "spark.local.dir": str(self._scratch),
            "spark.scheduler.allocation.file": (beside / "fairscheduler.xml").as_uri(),
            **self._spec.conf,
        }
        if not conf["spark.master"].startswith("local"):
            conf["spark.jars"] = ",".join(self._spec.jars)
        return conf

    def _warehouse(self) -> dict[str, str]:
        """Keep Spark from making a warehouse in its working folder, where no table must go."""
        if has_warehouse(self._spec.conf):
            return {}
        return {"spark.sql.warehouse.dir": (self._scratch / "spark-warehouse").as_uri()}

    def _last_words(self) -> str:
        log = self._folder / "log"
        lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
        return f"Spark did not start: {lines[-1] if lines else 'Java said nothing'}"


@final
class Keeper:
    """Lends one JVM to the holders of leases, until nobody has one."""

    def __init__(self, spec: Spec, idle_seconds: float, folder: Path) -> None:
        self._spec, self._idle_seconds, self._folder = spec, idle_seconds, folder
        self.jvm = Jvm(spec, folder)
        self.started = threading.Event()
        self._failure: str | None = None
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
        threading.Thread(target=self._start, daemon=True).start()
        threading.Thread(target=self._accept, args=(listening,), daemon=True).start()
        with self._changing:
            while not self._is_over():
                self._changing.wait(0.5)
            at_once = self._failure is not None or bool(self._leases)
            self._is_closing = True
        with suppress(OSError):
            (self._folder / SOCKET).unlink()
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
        except (OSError, RuntimeError) as error:
            self._fail(str(error))
        self.started.set()
        if self._failure is None:
            self._fail(self.jvm.wait())

    def _fail(self, reason: str) -> None:
        with self._changing:
            self._failure = reason
            for lease in self._leases.values():
                with suppress(OSError):
                    _send(lease, {"ended": reason})
            self._changing.notify_all()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        user = f"lease-{secrets.token_hex(8)}"
        said_goodbye = False
        try:
            with connection, connection.makefile("r", encoding="utf-8") as lines:
                for line in lines:
                    said_goodbye = self._answer(json.loads(line), connection, user)
        except (OSError, ValueError):
            pass
        if user in self._leases:
            self._end_lease(user, said_goodbye=said_goodbye)

    def _answer(self, asked: dict[str, Any], connection: socket.socket, user: str) -> bool:
        """Answer one line of a client; say whether it was a goodbye."""
        match asked["ask"]:
            case "lease":
                _send(connection, self._lend(Spec.from_json(asked["spec"]), user, connection))
            case "status":
                _send(connection, self._status())
            case "end":
                _send(connection, {"ended": "someone asked for it"})
                self.end()
            case "quiet":
                self._await_quiet()
                _send(connection, {"quiet": True})
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
                return {"ended": self._failure} if self._failure else {"refused": "it is ending"}
            self._leases[user] = connection
        self.started.wait()
        self._await_quiet()
        if self._failure:
            return {"ended": self._failure}
        return {"port": self.jvm.port, "token": self.jvm.token, "user": user}

    def _await_quiet(self) -> None:
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
            del self._leases[user]
            self._leaving += 1
            is_last = not self._leases
        is_over = is_last and not self._idle_seconds
        # Nobody is left who could wait for an end in order.
        if is_over and not said_goodbye:
            self._fail("its last client was killed")
        elif self.started.is_set() and not is_over:
            self._clean_up(user, said_goodbye=said_goodbye)
        with self._changing:
            self._leaving -= 1
            self._ends_at = time.monotonic() + self._idle_seconds
            self._changing.notify_all()

    def _clean_up(self, user: str, *, said_goodbye: bool) -> None:
        try:
            if not self.jvm.dismiss(user, looks=1 if said_goodbye else 3):
                self._fail("Spark did not end the work of a client that is gone")
        except Exception as error:  # noqa: BLE001 - Spark has ended, or is no longer to be trusted
            self._fail(_first_line(error))


@contextmanager
def _private_file(text: str, folder: Path) -> Iterator[tuple[str, list[int]]]:
    """Write what may hold passwords into a file that has no name, where the system allows that.

    Java opens it by way of the descriptor that it inherits. Elsewhere than on Linux it lies in a
    private folder meanwhile.
    """
    has_no_name = sys.platform == "linux"
    make = tempfile.TemporaryFile if has_no_name else tempfile.NamedTemporaryFile
    with make("w", dir=folder, encoding="utf-8") as file:
        file.write(text)
        file.flush()
        if has_no_name:
            yield f"/dev/fd/{file.fileno()}", [file.fileno()]
        else:
            yield file.name, []


def _input(process: subprocess.Popen[bytes]) -> IO[bytes]:
    if process.stdin is None:
        raise OSError("the process has no standard input of ours")
    return process.stdin


def _send(connection: socket.socket, answer: dict[str, Any]) -> None:
    connection.sendall(json.dumps(answer).encode() + b"\n")


def _first_line(error: BaseException) -> str:
    cause = getattr(error, "java_exception", None)
    text = str(cause.getMessage() if cause is not None else error)
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)


def listen(folder: Path, *, is_shared: bool) -> socket.socket:
    """Open the socket of an engine, before anybody can have heard of it."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(folder / SOCKET))
    listening.listen(128)
    if is_shared:
        (folder / SHARED).touch()
    return listening


def main(request: IO[str]) -> None:
    """Keep the engine that the request describes, and print its id once it can be asked."""
    asked: dict[str, Any] = json.load(request)
    folder = make_engine_folder()
    with (folder / "log").open("ab") as log:
        if asked["idle_seconds"] or not os.environ.get(LOG_LEVEL):
            os.dup2(log.fileno(), 2)
    listening = listen(folder, is_shared=bool(asked["idle_seconds"]))
    keeper = Keeper(Spec.from_json(asked["spec"]), asked["idle_seconds"], folder)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: keeper.end())
    sys.stdout.write(f"{folder.name}\n")
    sys.stdout.flush()
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    try:
        keeper.run(listening)
    finally:
        remove_scratch(folder)


if __name__ == "__main__":
    main(sys.stdin)
