"""The memory of a process and of all that it started.

The kernel's own sum at a process's end counts neither processes that nobody waited for, such as a
JVM, nor only the command: it begins with what the runner itself held when it forked.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
PEAK = re.compile(rb"VmHWM:\s+(\d+) kB")
SESSION = 3  # of the fields after a process's name in /proc/PID/stat


def peak_bytes(sessions: Iterable[int]) -> dict[int, int]:
    """Sum up, by session, the peaks of all processes alive in it; where there is no /proc, none."""
    wanted = set(sessions)
    peaks: dict[int, int] = defaultdict(int)
    for entry in PROC.glob("[0-9]*") if wanted and PROC.is_dir() else ():
        # A process may end while it is looked at.
        with suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
            session = int(fields[SESSION])
            if session in wanted and (found := PEAK.search((entry / "status").read_bytes())):
                peaks[session] += int(found[1]) * 1024
    return peaks
