"""Runs a command and watches the whole tree of its processes: `watch.py RESULT [PID] -- COMMAND`.

It adopts what outlives its parent, as Spark's keeper does, so that nothing of a run is missed: the
CPU time is what the kernel counted of every process that ended. The tree of PID, which serves the
command but was there before it, is added by what it used meanwhile.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil

_PR_SET_CHILD_SUBREAPER = 36
_SAMPLE_SECONDS = 0.2
# So long what the command left behind may take to end.
_LEFT_SECONDS = 60.0


class Memory(threading.Thread):
    """Samples the memory of trees of processes; what they share counts once."""

    def __init__(self, roots: list[int]) -> None:
        super().__init__(daemon=True)
        self._roots, self._done, self.peak = roots, threading.Event(), 0

    def run(self) -> None:
        while not self._done.wait(_SAMPLE_SECONDS):
            self.peak = max(self.peak, sum(map(_memory, _members(self._roots))))

    def stop(self) -> int:
        self._done.set()
        self.join()
        return self.peak


def watch(command: list[str], served_by: int | None) -> dict[str, object]:
    """Run a command to its end and to that of all it started."""
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise SystemExit("the processes of a run can be counted on Linux only")
    served = [served_by] if served_by else []
    used_before = _cpu_of(served)
    memory = Memory([os.getpid(), *served])
    memory.start()
    start = time.monotonic()
    process = subprocess.Popen(command)
    cpu, code = _reap_until(process.pid)
    wall = time.monotonic() - start
    cpu += _cpu_of(served) - used_before + _reap_rest()
    return {
        "code": code,
        "wall": round(wall, 3),
        "cpu": round(cpu, 3),
        "peak_mb": round(memory.stop() / 2**20, 1),
        "gone": round(time.monotonic() - start, 3),
    }


def _reap_until(first: int) -> tuple[float, int]:
    """Wait for a process; return its exit code, and what it and others that ended have used."""
    cpu = 0.0
    while True:
        pid, status, used = os.wait4(-1, 0)
        cpu += used.ru_utime + used.ru_stime
        if pid == first:
            return cpu, os.waitstatus_to_exitcode(status)


def _reap_rest() -> float:
    """Wait for whatever is left to us; end it where it stays."""
    cpu, deadline = 0.0, time.monotonic() + _LEFT_SECONDS
    with suppress(ChildProcessError):
        while True:
            pid, _, used = os.wait4(-1, os.WNOHANG)
            cpu += used.ru_utime + used.ru_stime
            if pid:
                continue
            if time.monotonic() > deadline:
                for left in psutil.Process().children(recursive=True):
                    with suppress(psutil.Error):
                        left.kill()
            time.sleep(0.01)
    return cpu


def _members(roots: list[int]) -> list[psutil.Process]:
    found = []
    for root in roots:
        with suppress(psutil.Error):
            process = psutil.Process(root)
            own = [] if root == os.getpid() else [process]
            found += own + process.children(recursive=True)
    return found


def _memory(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        full = process.memory_full_info()
        return getattr(full, "pss", 0) or full.rss
    return 0


def _cpu_of(roots: list[int]) -> float:
    used = 0.0
    for process in _members(roots):
        with suppress(psutil.Error):
            times = process.cpu_times()
            used += times.user + times.system
    return used


def main() -> None:
    cut = sys.argv.index("--")
    result, *served_by = sys.argv[1:cut]
    found = watch(sys.argv[cut + 1 :], int(served_by[0]) if served_by else None)
    Path(result).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
