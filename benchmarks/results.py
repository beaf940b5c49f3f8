"""What was measured: kept as JSON, condensed to medians, held against the goals."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.contestants import FULL, INCREMENTAL, NO_CHANGE, SMALL_WORK
from benchmarks.ours import OURS

MEASURES = ("wall", "cpu", "peak_mb", "gone")


def machine() -> dict[str, Any]:
    """Describe the machine."""
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "java": java.stderr.splitlines()[0].split('"')[1] if '"' in java.stderr else "?",
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def today() -> str:
    return datetime.now(timezone.utc).date().isoformat()


@dataclass(frozen=True)
class Median:
    """What a contestant takes for a work at a size of the large table."""

    work: str
    contestant: str
    size: int
    rows: int
    rounds: int
    date: str
    wall: float
    cpu: float
    peak_mb: float
    gone: float


class Results:
    """The runs of one machine, of one size of the large table or of several."""

    def __init__(self, about: dict[str, Any], runs: list[dict[str, Any]]) -> None:
        self.about, self.runs = about, runs

    @classmethod
    def read(cls, file: Path) -> Results:
        content = json.loads(file.read_text())
        return cls(content["machine"], content["runs"])

    def write(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(json.dumps(run) for run in self.runs)
        file.write_text(f'{{"machine": {json.dumps(self.about)},\n"runs": [\n{lines}\n]}}\n')

    def followed_by(self, newer: Results) -> Results:
        """Keep what the newer ones did not measure again, if it is of the same machine."""
        if self.about != newer.about:
            return newer
        again = {_key(run) for run in newer.runs}
        return Results(
            newer.about, [run for run in self.runs if _key(run) not in again] + newer.runs
        )

    @property
    def sizes(self) -> list[int]:
        return sorted({run["size"] for run in self.runs})

    def medians(self) -> list[Median]:
        groups: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
        for run in self.runs:
            groups.setdefault(_key(run), []).append(run)
        return [
            Median(
                *key,
                rows=runs[0]["rows"],
                rounds=len(runs),
                date=max(run["date"] for run in runs),
                **{name: statistics.median(run[name] for run in runs) for name in MEASURES},
            )
            for key, runs in groups.items()
        ]


def _key(run: dict[str, Any]) -> tuple[str, str, int]:
    return run["work"], run["contestant"], run["size"]


@dataclass(frozen=True)
class Verdict:
    """A goal, and how far it is reached."""

    work: str
    ours: str
    against: str
    ratio: float | None
    must: float
    aim: float
    at_least: bool = False

    @property
    def reached(self) -> str:
        if self.ratio is None:
            return "not measured"
        for name, limit in (("aim", self.aim), ("must", self.must)):
            if (self.ratio >= limit) if self.at_least else (self.ratio <= limit):
                return name
        return "missed"


_COLD, _WARM = "runner-files", "runner-files-warm"
_PIPE, _PIPE_WARM, _MELTANO = "pipe-records", "pipe-records-warm", "meltano-records"
# Work, ours, against whom, at most so many times as long: must and aim.
_TIMES = (
    (SMALL_WORK, _COLD, "script", 0.8, 0.5),
    (SMALL_WORK, _WARM, "script", 0.2, 0.1),
    (NO_CHANGE, _COLD, "session", 0.8, 0.5),
    (NO_CHANGE, _WARM, "session", 0.15, 0.1),
    (SMALL_WORK, _PIPE, _COLD, 1.2, 1.05),
    (SMALL_WORK, _MELTANO, _COLD, 1.2, 1.05),
    (FULL, _COLD, "script", 1.0, 0.8),
    (INCREMENTAL, _COLD, "script", 1.0, 0.8),
    (FULL, _WARM, "dlt", 0.9, 0.6),
    (INCREMENTAL, _WARM, "dlt", 1.2, 0.8),
    (FULL, _PIPE_WARM, _WARM, 2.0, 1.5),
)


def verdicts(medians: Iterable[Median]) -> list[Verdict]:
    """Hold the medians against every goal, at the smallest size and from there to the largest."""
    known = {(one.work, one.contestant, one.size): one for one in medians}
    sizes = sorted({size for _, _, size in known})
    low, high = sizes[0], sizes[-1]

    def ratio(ours: Median | None, other: Median | None, name: str) -> float | None:
        return getattr(ours, name) / getattr(other, name) if ours and other else None

    def at(work: str, name: str, size: int = low) -> Median | None:
        return known.get((work, name, size))

    found = [
        Verdict(work, ours, other, ratio(at(work, ours), at(work, other), "wall"), must, aim)
        for work, ours, other, must, aim in _TIMES
    ]
    found.append(_rate(at(FULL, _PIPE), at(FULL, "tap-postgres")))
    memory = ratio(at(FULL, _COLD), at(FULL, "script"), "peak_mb")
    found.append(Verdict(f"{FULL}, peak memory", _COLD, "script", memory, 0.7, 0.5))
    if high == low:
        return found
    for name in (one.name for one in OURS if at(FULL, one.name, high)):
        grown = _growth(at(FULL, name), at(FULL, name, high), at(NO_CHANGE, name))
        limit = high / low
        found.append(
            Verdict(f"{FULL}, growth of wall less start", name, f"{low:,} rows", grown,
                    limit * 1.05, limit)
        )  # fmt: skip
    memory = ratio(at(FULL, _COLD, high), at(FULL, _COLD), "peak_mb")
    found.append(Verdict(f"{FULL}, growth of memory", _COLD, f"{low:,} rows", memory, 1.2, 1.2))
    return found


def _rate(ours: Median | None, other: Median | None) -> Verdict:
    """Compare rows per second: the other way reads fewer."""
    ratio = ours.rows / ours.wall / (other.rows / other.wall) if ours and other else None
    return Verdict(f"{FULL}, rows per second", _PIPE, "tap-postgres", ratio, 5, 8, at_least=True)


def _growth(low: Median | None, high: Median | None, start: Median | None) -> float | None:
    """How many times as long more rows take; a run that finds nothing is nothing but start."""
    if not (low and high and start) or low.wall <= start.wall:
        return None
    return (high.wall - start.wall) / (low.wall - start.wall)
