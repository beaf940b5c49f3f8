"""Runs a command and watches it: time, records, memory of its Python process."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

_RECORD = b'"RECORD"'


@dataclass(frozen=True)
class Measured:
    """What a command took."""

    seconds: float
    records: int
    first_record: float
    peak_mb: float

    @property
    def rate(self) -> float:
        """Records per second, start-up included."""
        return self.records / self.seconds

    @property
    def steady_rate(self) -> float:
        """Records per second from the first record on."""
        return self.records / (self.seconds - self.first_record)


def command(name: str) -> list[str]:
    return [str(Path(sys.executable).with_name(name))]


def tap(folder: Path, name: str, /, **settings: object) -> list[str]:
    """Return the command of our tap, with a config file of this name."""
    file = folder / f"{name}.json"
    file.write_text(json.dumps(settings))
    return [*command("tap-spark-source"), "--config", str(file)]


def run(arguments: list[str], *, source: Path | None = None, records: int = 0) -> Measured:
    """Run a command; count the records it prints, unless told how many it is given."""
    start = time.monotonic()
    stdin = source.open("rb") if source else subprocess.DEVNULL
    with subprocess.Popen(
        arguments, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        watch = _Watch(process.pid)
        log = _Drain(process.stderr)
        counted, first, rest = 0, 0.0, b""
        while block := process.stdout.read1(1 << 20):
            counted += (rest + block).count(_RECORD)
            rest = block[1 - len(_RECORD) :]
            first = first or (time.monotonic() - start if counted else 0.0)
        code = process.wait()
        peak = watch.stop()
    if code:
        raise SystemExit(f"{arguments[0]} failed with {code}:\n{log.tail()}")
    return Measured(time.monotonic() - start, records or counted, first, peak)


class _Drain(threading.Thread):
    """Reads a pipe so that it never fills."""

    def __init__(self, pipe) -> None:
        super().__init__(daemon=True)
        self._pipe, self._last = pipe, b""
        self.start()

    def run(self) -> None:
        while block := self._pipe.read1(1 << 16):
            self._last = (self._last + block)[-4000:]

    def tail(self) -> str:
        self.join(5)
        return self._last.decode(errors="replace")


class _Watch(threading.Thread):
    """Asks the kernel for a process's resident memory, ten times a second."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._status = Path(f"/proc/{pid}/status")
        self._peak, self._done = 0.0, threading.Event()
        self.start()

    def run(self) -> None:
        while not self._done.wait(0.1):
            try:
                lines = self._status.read_text().splitlines()
            except OSError:
                return
            for line in lines:
                if line.startswith("VmRSS:"):
                    self._peak = max(self._peak, int(line.split()[1]) / 1024)

    def stop(self) -> float:
        self._done.set()
        self.join()
        return self._peak
