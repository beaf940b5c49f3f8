"""Several pipelines at once: each in a process of its own, a table at the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any, NamedTuple, final

import click

from singer_spark import exact_json
from singer_spark.cli.output import cut, lay_out
from singer_spark.errors import EXIT_SIGTERM, SingerSparkError
from singer_spark.figures import format_count, format_milliseconds
from singer_spark.runner.process import relay_log, stop_with_parent
from singer_spark.runner.supervisor import Events, Failed, caught_signals

HEAD = ("PIPELINE", "RECORDS", "TOOK", "EXIT")


class Outcome(NamedTuple):
    """How one pipeline ended; `results` are those of its runs, a failed one too."""

    name: str
    code: int
    results: Sequence[dict[str, Any]]


@final
class Fleet:
    """Processes that are started one after another and stopped all together."""

    def __init__(self, options: Sequence[str]) -> None:
        self._options = options
        self._running: set[subprocess.Popen[bytes]] = set()
        self._changing = threading.Lock()
        self._stopped = False

    def run(self, path: Path) -> Outcome | None:
        """Run one pipeline to its end; None where it was stopped before it began."""
        command = [sys.executable, "-m", "singer_spark.cli", "run", str(path), "--json"]
        command += ["--parent", str(os.getpid())]
        with self._changing:
            if self._stopped:
                return None
            process = subprocess.Popen(  # noqa: S603, our own command
                [*command, *self._options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            self._running.add(process)
        with process:
            log = threading.Thread(target=_relay, args=(path.stem, process.stderr))
            log.start()
            lines = process.stdout.read().splitlines() if process.stdout else []
            log.join()
        with self._changing:
            self._running.discard(process)
        code = process.returncode
        return Outcome(
            path.stem, code if code >= 0 else 128 - code, [*map(exact_json.loads, lines)]
        )

    def stop(self) -> None:
        """Ask what runs to end, and start nothing more; asked again, it hurries."""
        with self._changing:
            self._stopped = True
            for process in self._running:
                process.send_signal(signal.SIGTERM)


def follow_parent(_ctx: click.Context, _param: click.Parameter, pid: int | None) -> None:
    """Be stopped, by the kernel, when the process that started us is killed; only Linux can."""
    if pid is None or sys.platform != "linux":
        return
    stop_with_parent(signal.SIGTERM)
    if os.getppid() != pid:
        sys.exit(EXIT_SIGTERM)


def run_several(paths: Sequence[Path], options: Sequence[str], parallel: int) -> list[Outcome]:
    """Run pipelines, so many at the same time, whatever becomes of the others."""
    events: Events = SimpleQueue()
    fleet = Fleet(options)
    stopped: SingerSparkError | None = None
    with caught_signals(events), ThreadPoolExecutor(parallel) as pool:
        pending = {pool.submit(fleet.run, path) for path in paths}
        done: set[Future[Outcome | None]] = set()
        while pending:
            ended, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
            done |= ended
            if error := _signal_in(events):
                stopped = stopped or error
                fleet.stop()
        if stopped:
            raise stopped
    outcomes = [outcome for future in done if (outcome := future.result())]
    return sorted(outcomes, key=lambda outcome: outcome.name)


def show_outcomes(outcomes: Iterable[Outcome]) -> None:
    """Print a table of how the pipelines ended."""
    rows = [
        (
            cut(name, 40),
            format_count(None if code else sum(one["records"] for one in results)),
            format_milliseconds(None if code else sum(one["milliseconds"] for one in results)),
            str(code),
        )
        for name, code, results in outcomes
    ]
    for line in lay_out([HEAD, *rows], right=(1, 2, 3)):
        click.echo(line)


def show_failure(name: str, code: int, error: str) -> None:
    """Print, as JSON, what failed before there was a run."""
    told = {"pipeline": name, "run_id": None, "status": "failed", "exit_code": code}
    click.echo(json.dumps({**told, "error": error, "state": None}))


def _signal_in(events: Events) -> SingerSparkError | None:
    try:
        event = events.get_nowait()
    except Empty:
        return None
    return event.error if isinstance(event, Failed) else None


def _relay(name: str, source: IO[bytes]) -> None:
    for _ in relay_log(name, source):
        pass
