"""Spark's process: started, asked, ended. The keeper owns it.

It reads from the keeper: Spark's gateway ends with its standard input, so that a keeper that is
killed takes it along.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, final

from singer_spark.engine.failures import check_master, early_end, failed_start, late_end
from singer_spark.engine.jars import cache_folder
from singer_spark.engine.java import (
    OPTION_VARIABLES,
    Archive,
    argument_file,
    arguments,
    find_java,
    options_of_environment,
)
from singer_spark.engine.registry import JVM_ID
from singer_spark.engine.spec import PLACES, Spec
from singer_spark.errors import SingerSparkError
from singer_spark.scratch import JVM, make_scratch, owner_of, remove_scratch
from singer_spark.settings import WAREHOUSE, has_warehouse

_SERVICE = "org.apache.spark.sql.connect.service"
_START_SECONDS = 180.0
_ANSWER_SECONDS = 20.0
_INTERRUPT_SECONDS = 60.0
_END_SECONDS = 60.0
_LOOKS, _LOOK_SECONDS = 3, 0.02


@final
class Jvm:
    """Spark's process: started, asked, ended."""

    def __init__(self, spec: Spec, folder: Path, *, work: Path | None = None) -> None:
        self.token = secrets.token_hex(32)
        self.port = 0
        self.gateway: Any = None
        self._spec, self._folder = spec, folder
        self._scratch = make_scratch(JVM, work)
        self._archive = Archive.of(find_java(), spec.class_path, cache_folder() / "classes")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start Java and Spark in it, and learn where it listens."""
        check_master(self._spec.conf["spark.master"])
        try:
            port, secret = self._launch()
        except SingerSparkError:
            if self._archive.path is None or not self._has_crashed():
                raise
            self._archive.remove()  # what is damaged in it may have been the reason
            port, secret = self._launch()
        self._connect(port, secret)

    def _launch(self) -> tuple[int, str]:
        """Start Java; return where its gateway listens, and the word that opens it."""
        java = find_java()
        archive = self._archive.options(self._folder.name)
        first, last = options_of_environment(os.environ)
        options = [*archive, *self._paths(), *self._spec.options, *last]
        command = [*first, *arguments(java, self._spec.class_path, self._conf(), options)]
        answer = self._folder / "gateway"
        with _private_file(argument_file(command), self._folder) as (file, descriptors):
            self._process = subprocess.Popen(  # noqa: S603
                [java.command, f"@{file}"],
                stdin=subprocess.PIPE,
                stdout=2,
                env=self._environment(answer),
                cwd=self._folder,
                # The folder is Java's as well: who waits for its end waits for both.
                pass_fds=[*descriptors, owner_of(self._folder)],
            )
            (self._folder / JVM_ID).write_text(str(self._process.pid))
            return self._await_gateway(self._process, answer)

    def _has_crashed(self) -> bool:
        """Say whether Java ended by a signal other than that of somebody who kills it."""
        code = self._process.poll() if self._process else None
        return code is not None and code < 0 and code != -signal.SIGKILL

    def wait(self) -> str:
        """Wait for the end of Java, and say how it ended."""
        return late_end(self._process.wait() if self._process else 0)

    def garbage_seconds(self) -> float:
        """Say how long Java has stood still to collect garbage, or raise if it does not answer."""
        management = self.gateway.jvm.java.lang.management.ManagementFactory
        beans = management.getGarbageCollectorMXBeans()
        return sum(float(bean.getCollectionTime()) for bean in beans) / 1000

    def work_done(self, user: str) -> int:
        """Count what a user's stages have read and written by now; it grows while tasks work."""
        context = self._context
        tracker, store = context.statusTracker(), context.statusStore()
        done = 0
        for execution in self._executions(user):
            for job in tracker.getJobIdsForTag(execution.jobTag()):
                for stage in tracker.getJobInfo(job).get().stageIds():
                    with suppress(Exception):  # it has not begun yet
                        one = store.lastStageAttempt(stage)
                        done += one.inputRecords() + one.outputRecords() + one.numCompleteTasks()
                        done += one.shuffleReadRecords() + one.shuffleWriteRecords()
        return done

    def dismiss(self, user: str) -> bool:
        """End what a user's sessions are doing, and release them; say whether that worked.

        A request of a killed client may still be on its way, so one look is not enough; Spark
        strikes work off its list before it has ended, and a job that begins just then goes on.
        """
        deadline = time.monotonic() + _INTERRUPT_SECONDS
        seen: dict[str, Any] = {}
        quiet = 0
        while quiet < _LOOKS:
            seen |= {one.jobTag(): one for one in self._executions(user)}
            running = [one for one in seen.values() if one.isExecuteThreadRunnerAlive()]
            for one in running:
                one.interrupt()
            has_jobs = self._cancel_jobs(seen)
            quiet = 0 if running or has_jobs else quiet + 1
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_SECONDS)
        for key in self._sessions(user):
            self._service.sessionManager().closeSession(key, False)
        return not any(one.isExecuteThreadRunnerAlive() for one in self._executions(user))

    def users(self) -> set[str]:
        """Name the users that have sessions."""
        return {str(one.userId()) for one in self._active()}

    def _cancel_jobs(self, tags: Iterable[str]) -> bool:
        """Cancel the jobs that carry one of these tags; say whether there are any."""
        context = self._context
        active = set(context.statusTracker().getActiveJobIds())
        found = [tag for tag in tags if active & {*context.statusTracker().getJobIdsForTag(tag)}]
        for tag in found:
            context.cancelJobsWithTag(tag)
        return bool(found)

    def end(self, *, at_once: bool) -> None:
        """End Java: by its standard input, so that it leaves in order, or at once."""
        process = self._process
        if process is not None and process.poll() is None:
            if at_once:
                process.kill()
            with suppress(OSError):
                if process.stdin:
                    process.stdin.close()
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process is not None and process.returncode == 0:
            self._archive.keep(self._folder.name)
        else:
            self._archive.drop_made(self._folder.name)
        remove_scratch(self._scratch)

    @property
    def _context(self) -> Any:
        return self.gateway.jvm.org.apache.spark.SparkContext.getOrCreate()

    @property
    def _service(self) -> Any:
        return getattr(getattr(self.gateway.jvm, f"{_SERVICE}.SparkConnectService$"), "MODULE$")

    def _executions(self, user: str) -> list[Any]:
        holders = _listed(self._service.executionManager().listExecuteHolders())
        return [one for one in holders if one.executeKey().userId() == user]

    def _active(self) -> list[Any]:
        return _listed(self._service.sessionManager().listActiveSessions())

    def _sessions(self, user: str) -> list[Any]:
        key = getattr(self.gateway.jvm, f"{_SERVICE}.SessionKey")
        return [key(user, one.sessionId()) for one in self._active() if one.userId() == user]

    def _await_gateway(self, process: subprocess.Popen[bytes], answer: Path) -> tuple[int, str]:
        deadline = time.monotonic() + _START_SECONDS
        while not answer.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                log = self._folder / "log"
                said = log.read_text(errors="replace") if log.exists() else ""
                raise early_end(process.poll(), said)
            time.sleep(0.01)
        content = answer.read_bytes()
        answer.unlink()
        port, length = struct.unpack("!ii", content[:8])
        return port, content[8 : 8 + length].decode()

    def _connect(self, port: int, secret: str) -> None:
        starting = _gateway(port, secret, _START_SECONDS)
        try:
            session = starting.jvm.org.apache.spark.sql.classic.SparkSession.builder().getOrCreate()
            session.sessionState()  # reads the whole configuration
            self.gateway = _gateway(port, secret, _ANSWER_SECONDS)
            self.port = self._service.localPort()
        except Exception as error:
            raise failed_start(error) from error
        starting.close(keep_callback_server=True)

    def _environment(self, answer: Path) -> dict[str, str]:
        apart = {*PLACES, *OPTION_VARIABLES}
        environment = {
            **{name: value for name, value in os.environ.items() if name not in apart},
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer),
            "SPARK_CONNECT_AUTHENTICATE_TOKEN": self.token,
            "SPARK_HOME": str(Path(self._spec.class_path[-1]).parent.parent),
            "LC_ALL": "C.UTF-8",  # Java reads names of files by it
        }
        environment.setdefault("PYSPARK_PYTHON", sys.executable)  # where Spark's workers find us
        if self._spec.conf["spark.master"].startswith("local"):
            # Not every machine can look up its own name.
            environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        return environment

    def _paths(self) -> list[str]:
        return [
            f"-Xmx{self._spec.conf.get('spark.driver.memory', '1g')}",
            f"-Dlog4j2.configurationFile={_beside('log4j2.properties')}",
            f"-Dderby.stream.error.file={os.devnull}",
            f"-Djava.io.tmpdir={self._scratch}",
        ]

    def _conf(self) -> dict[str, str]:
        """Add what lies in folders of this process."""
        conf = {
            "spark.local.dir": str(self._scratch),
            "spark.scheduler.allocation.file": _beside("fairscheduler.xml"),
            **self._spec.conf,
        }
        if not has_warehouse(conf):  # Spark would make one in its working folder
            conf[WAREHOUSE] = (self._scratch / "spark-warehouse").as_uri()
        if not conf["spark.master"].startswith("local"):
            conf["spark.jars"] = ",".join(self._spec.jars)
        return conf


def _listed(found: Any) -> list[Any]:
    """Read a list of Scala."""
    return [found.apply(place) for place in range(found.size())]


def _beside(name: str) -> str:
    return Path(__file__).with_name(name).as_uri()


def _gateway(port: int, secret: str, answer_seconds: float) -> Any:
    from py4j.java_gateway import GatewayParameters, JavaGateway

    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # what it says is said by its errors
    parameters = GatewayParameters(
        port=port, auth_token=secret, auto_convert=True, read_timeout=answer_seconds
    )
    return JavaGateway(gateway_parameters=parameters)


@contextmanager
def _private_file(text: str, folder: Path) -> Iterator[tuple[str, list[int]]]:
    """Write what may hold passwords into a file that has no name, where the system allows that.

    Java opens it by way of the descriptor that it inherits. Elsewhere it lies in a private folder
    for as long as Java starts.
    """
    has_no_name = sys.platform == "linux" and Path("/dev/fd").is_dir()
    make = tempfile.TemporaryFile if has_no_name else tempfile.NamedTemporaryFile
    with make("w", dir=folder, encoding="utf-8") as file:
        file.write(text)
        file.flush()
        if has_no_name:
            yield f"/dev/fd/{file.fileno()}", [file.fileno()]
        else:
            yield file.name, []
