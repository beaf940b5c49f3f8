"""The rounds: everybody does every work in turns, is measured, and its tables are checked."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import environments
from benchmarks.check import differs
from benchmarks.contestants import (
    FULL,
    INCREMENTAL,
    NO_CHANGE,
    SMALL_WORK,
    Bins,
    Contestant,
    Job,
)
from benchmarks.ours import WarmEngine
from benchmarks.source import FEW, ORDERS, SMALL, Source, Table

ORDERS_WORKS = (FULL, INCREMENTAL, NO_CHANGE)
_WATCH = Path(__file__).with_name("watch.py")


@dataclass(frozen=True)
class Run:
    """What one run of a contestant took."""

    work: str
    contestant: str
    round: int
    rows: int
    wall: float
    cpu: float
    peak_mb: float
    gone: float


@dataclass
class Contest:
    """Contestants, the works asked of each, and what they took."""

    source: Source
    bins: Bins
    asked: dict[Contestant, frozenset[str]]
    rows: int
    rounds: int
    # Runs before the first that counts: of warm contestants; of the others it is one.
    warm_ups: int
    folder: Path
    runs: list[Run] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    engine: WarmEngine | None = None
    _out: set[tuple[str, str]] = field(default_factory=set)

    def hold(self) -> None:
        """Do everything that is asked for."""
        try:
            if self.warm_ups:
                self._rehearse()
            if self._doers({SMALL_WORK}):
                self._small()
            if self._doers(set(ORDERS_WORKS)):
                self._orders()
        finally:
            if self.engine:
                self.engine.stop()

    def _rehearse(self) -> None:
        """Let everybody load a little once: jars, caches and bytecode are there from then on."""
        self.source.make_small()
        self.source.make_orders(1_000)
        for one in self.asked:
            if one.is_warm:
                continue
            tables = SMALL if SMALL_WORK in one.works else self._tables(one)
            self._run(one, self._job(one, tables, "rehearsal"), FULL, None)
        self._clear("rehearsal")

    def _small(self) -> None:
        """Load three small tables; then, in each round, eight rows that changed."""
        self.source.make_small()
        doers = self._doers({SMALL_WORK})
        jobs = {one: self._job(one, SMALL, "small") for one in doers}
        for one in doers:
            self._run(one, jobs[one], SMALL_WORK, None)
        for number in range(-self.warm_ups, self.rounds):
            self.source.change_small()
            for one in _in_turn(doers, number):
                if number >= 0 or one.is_warm:
                    self._run(one, jobs[one], SMALL_WORK, number)
        self._clear("small")

    def _orders(self) -> None:
        """Load a large table, then what changed in it, then nothing."""
        everyone = self._doers(set(ORDERS_WORKS))
        steps = [work for work in ORDERS_WORKS if work == FULL or self._doers({work})]
        for number in range(-self.warm_ups, self.rounds):
            doers = [one for one in _in_turn(everyone, number) if number >= 0 or one.is_warm]
            if doers:
                self._orders_once(doers, steps, number)

    def _orders_once(self, doers: list[Contestant], steps: list[str], number: int) -> None:
        self.source.make_orders(self.rows)
        jobs = {one: self._job(one, self._tables(one), "orders") for one in doers}
        for place, work in enumerate(steps):
            if work == INCREMENTAL:
                self.source.change_orders()
            for one in doers:
                # Who is asked for a later step has to do those before it as well.
                is_needed = bool(self.asked[one] & set(steps[place:]))
                if is_needed and work in one.works:
                    self._run(one, jobs[one], work, number)
        self._clear("orders")

    def _run(self, one: Contestant, job: Job, work: str, number: int | None) -> None:
        """Run one contestant and check its tables; one that fails is out of this work."""
        stage = job.folder.parent.name
        if (one.name, stage) in self._out:
            return
        if one.is_warm and self.engine is None:
            self.engine = WarmEngine(self.bins, job)
            print(f"engine start: {self.engine.start_seconds:.1f} s", flush=True)
        problem, found = self._watched(one, job)
        problem = problem or self._wrong(one, job)
        if problem:
            self._out.add((one.name, stage))
            self.failures.append(f"{work}, {one.name}: {problem}")
            print(f"{work}, {one.name}: FAILED: {problem}", file=sys.stderr, flush=True)
            return
        counts = number is not None and number >= 0 and work in self.asked[one]
        if counts:
            rows = sum(map(self.source.rows, job.tables))
            self.runs.append(Run(work, one.name, number, rows, **found))
        print(
            f"{work}, {one.name}{'' if counts else ' (not counted)'}: {found['wall']:.2f} s, "
            f"{found['cpu']:.1f} CPU s, {found['peak_mb']:,.0f} MB",
            flush=True,
        )

    def _watched(self, one: Contestant, job: Job) -> tuple[str | None, dict[str, float]]:
        if not (job.folder / "prepared").exists():
            (job.folder / "prepared").touch()
            if prepare := one.prepare(job, self.bins):
                self._call(prepare, job.folder / "log")
        command = one.command(job, self.bins)
        result = job.folder / "watched"
        served_by = [str(self.engine.pid)] if one.is_warm and self.engine else []
        log = job.folder / "log"
        self._call([sys.executable, str(_WATCH), str(result), *served_by, "--", *command], log)
        if not result.exists():
            return f"it could not be watched:\n{_tail(log)}", {}
        found = json.loads(result.read_text())
        result.unlink()
        if code := found.pop("code"):
            return f"exit code {code}:\n{_tail(log)}", {}
        return None, found

    def _call(self, command: list[str], log: Path) -> None:
        with log.open("wb") as file:
            subprocess.run(
                command, cwd=log.parent, env=environments.environment(),
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False,
            )  # fmt: skip

    def _wrong(self, one: Contestant, job: Job) -> str | None:
        for table in job.tables:
            place = one.place(job, table)
            if place and (difference := differs(self.source, table, place)):
                return difference
        return None

    def _doers(self, works: set[str]) -> list[Contestant]:
        return [one for one, asked in self.asked.items() if asked & works]

    def _tables(self, one: Contestant) -> tuple[Table, ...]:
        return (FEW,) if one.reads_few else (ORDERS,)

    def _job(self, one: Contestant, tables: Iterable[Table], stage: str) -> Job:
        folder = self.folder / stage / one.name
        folder.mkdir(parents=True)
        return Job(self.source, tuple(tables), folder)

    def _clear(self, stage: str) -> None:
        shutil.rmtree(self.folder / stage, ignore_errors=True)


def _in_turn(everyone: list[Contestant], number: int) -> list[Contestant]:
    """Every other round goes the other way: who comes later finds warmer files."""
    return everyone[::-1] if number % 2 else everyone


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-8:])
