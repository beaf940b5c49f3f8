"""One child process that cannot be orphaned and never waits on a full pipe of logs.

It leads a process group, so that what it started in turn ends with it, and a Ctrl-C in the
terminal reaches the runner alone. Its settings reach it in files that have no name, so that none
can be left behind: it inherits such a file open and finds it at /dev/fd/N, and the kernel removes
it with the last process that has it open, however that process ends.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

from singer_spark import exact_json
from singer_spark.errors import SettingsError
from singer_spark.secrets import mask
from singer_spark.text import printable

FIRST = 3  # the lowest descriptor that is nobody's standard input, output or error


@dataclass(frozen=True, slots=True)
class Command:
    """A command line, the name that its log lines carry, and values that it reads from files."""

    name: str
    argv: tuple[str, ...]
    values: tuple[tuple[str, Mapping[str, Any]], ...] = field(default=(), repr=False)

    def given(self, option: str, value: Mapping[str, Any]) -> Command:
        """Return the command with one more option, whose value no argument shows."""
        return replace(self, values=(*self.values, (option, value)))


class Launch(NamedTuple):
    """What starts a command: its arguments, and the open files that these name."""

    argv: tuple[str, ...]
    descriptors: tuple[int, ...]


@contextmanager
def pass_values(command: Command) -> Iterator[Launch]:
    """Write a command's values into files without a name, open until its process has started."""
    with ExitStack() as files:
        argv, descriptors = command.argv, []
        for option, value in command.values:
            # Without a name before the first byte is written.
            file = files.enter_context(TemporaryFile())
            file.write(exact_json.dumps(value).encode())
            file.seek(0)
            # Not one of the first three, which a caller may have closed: a child has its own there.
            descriptor = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, FIRST)
            files.callback(os.close, descriptor)
            descriptors.append(descriptor)
            argv = (*argv, option, f"/dev/fd/{descriptor}")
        yield Launch(argv, tuple(descriptors))


LOG_BLOCK = 64 * 2**10  # bytes; a longer log line is printed in pieces
LOG_KEPT = 8 * 2**10  # bytes of the log's end, in which the reason of a failure stands
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
PR_SET_PDEATHSIG = 1
_PRINTING = threading.Lock()


class Child:
    """One command: started at once, watched from `watch` on."""

    def __init__(
        self, name: str, argv: Sequence[str], *, env: Mapping[str, str], **pipes: Any
    ) -> None:
        self.name = name
        self.code = 0
        self.exited = threading.Event()
        self._log_end = b""
        self._watched = False
        self._readers: list[threading.Thread] = []
        try:
            self.process = subprocess.Popen(  # noqa: S603, the user's own commands, no shell
                argv,
                env=env,
                stderr=subprocess.PIPE,
                start_new_session=True,
                preexec_fn=_die_with_runner(),
                **pipes,
            )
        except OSError as error:
            raise SettingsError(
                f"{name}: cannot be started ({error.strerror}); install it, or give its path"
            ) from error

    def watch(self, report: Callable[[Child], None]) -> None:
        """Begin to print the child's log; report its end."""
        if not self._watched:
            self._watched = True
            self.read_with(self._relay_log, self.process.stderr)
            threading.Thread(target=self._await_exit, args=(report,), daemon=True).start()

    def read_with(self, work: Callable[..., None], *arguments: Any) -> None:
        """Run a thread that reads what the child writes, and so ends with it."""
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._readers.append(thread)
        thread.start()

    def send(self, signum: int) -> None:
        """Send a signal to the child and to all that it started."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signum)

    def join(self, seconds: float) -> None:
        """Wait until everything that the child wrote has been read."""
        until = time.monotonic() + seconds
        for reader in self._readers:
            reader.join(max(0.0, until - time.monotonic()))

    def reap(self) -> None:
        """Kill what is left of the group, read the rest, and only then give its number back."""
        self.send(signal.SIGKILL)
        self.exited.wait()
        self.join(1.0)
        self.process.wait()
        if not any(reader.is_alive() for reader in self._readers):
            for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
                if pipe:
                    pipe.close()

    @property
    def reason(self) -> str:
        """The line of the log that says why it failed: its last error, else its last line."""
        text = ESCAPES.sub("", self._log_end.decode(errors="replace"))
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("Error: ")]
        return (errors or lines or [""])[-1].removeprefix("Error: ")

    def _await_exit(self, report: Callable[[Child], None]) -> None:
        self.code = _exit_code(self.process)
        self.exited.set()
        report(self)

    def _relay_log(self, source: IO[bytes]) -> None:
        for block in relay_log(self.name, source):
            self._log_end = (self._log_end + block)[-LOG_KEPT:]


def relay_log(name: str, source: IO[bytes]) -> Iterator[bytes]:
    """Print what a child logs, each line after its name, for as long as it logs."""
    prefix = f"{name} | ".encode()
    rest = b""
    while block := os.read(source.fileno(), LOG_BLOCK):
        yield block
        lines, line_break, rest = (rest + block).rpartition(b"\n")
        if not line_break and len(rest) >= LOG_BLOCK:
            lines, rest = rest, b""
        if lines or line_break:
            _print_log(prefix + lines.replace(b"\n", b"\n" + prefix))
    if rest:
        _print_log(prefix + rest)


def _print_log(text: bytes) -> None:
    with _PRINTING:
        print_error(text.decode(errors="replace"))


def print_error(text: str) -> None:
    """Write to standard error as it is now: a live display stands in for it and keeps order."""
    # One that is closed must not stop the run, nor the reading of logs: the child would hang.
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            sys.stderr.write(f"{printable(mask(text))}\n")
            sys.stderr.flush()


def _exit_code(process: subprocess.Popen[bytes]) -> int:
    """Wait for the end; on Linux without reaping, which keeps the group's number taken."""
    if sys.platform == "linux":
        info = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert info is not None  # noqa: S101, only WNOHANG gives None
        code = info.si_status if info.si_code == os.CLD_EXITED else -info.si_status
    else:
        code = process.wait()
    return code if code >= 0 else 128 - code


def stop_with_parent(signum: int) -> None:
    """Have the kernel send this process a signal when the thread that started it ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signum)


def _die_with_runner() -> Callable[[], None] | None:
    """Have the kernel kill a child whose runner was killed; only Linux can."""
    if sys.platform != "linux":
        return None
    prctl, runner = ctypes.CDLL(None).prctl, os.getpid()

    def prepare() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != runner:
            os._exit(128 + signal.SIGKILL)

    return prepare
