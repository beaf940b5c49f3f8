"""Our own ways: by the runner, in a pipe, under Meltano; as records, as files; cold and warm."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from itertools import product
from pathlib import Path

import yaml

from benchmarks.contestants import ALL, SMALL_WORK, Bins, Contestant, Job
from benchmarks.environments import ROOT, environment

WAYS = {"runner": "singer-spark run", "pipe": "tap | target", "meltano": "meltano run"}
LANES = {"files": "batch", "records": "records"}  # and the transport of each
# Which works each way does where nobody says who takes part.
_BY_DEFAULT = {
    ("runner", "files", False): ALL,
    ("runner", "files", True): ALL,
    ("runner", "records", False): ALL - {SMALL_WORK},
    ("pipe", "records", False): ALL,
    ("pipe", "records", True): ALL,
    ("meltano", "records", False): {SMALL_WORK},
    ("meltano", "records", True): {SMALL_WORK},
}


def name_of(way: str, lane: str, *, is_warm: bool) -> str:
    return f"{way}-{lane}{'-warm' if is_warm else ''}"


def _spark(*, is_warm: bool) -> dict[str, str]:
    """Name the engine, so that no other engine of this user is taken for it."""
    return {"spark.app.name": f"bench-{'warm' if is_warm else 'cold'}-{os.getpid()}"}


def _tap(job: Job, *, is_warm: bool) -> dict[str, object]:
    return {
        **job.source.server.config,
        "tables": [f"public.{table.name}" for table in job.tables],
        "default_replication_method": "INCREMENTAL",
        "default_replication_key": job.tables[0].cursor,
        "spark_conf": _spark(is_warm=is_warm),
    }


def _target(job: Job, *, is_warm: bool) -> dict[str, object]:
    return {"path": str(job.folder / "lake"), "spark_conf": _spark(is_warm=is_warm)}


def _by_files(job: Job, tap: dict, target: dict) -> None:
    """Let a pipe pass its rows in files, by the settings that any Singer tap has for it."""
    (job.folder / "files").mkdir(exist_ok=True)
    root = (job.folder / "files").as_uri()
    tap["batch_config"] = {"encoding": {"format": "parquet"}, "storage": {"root": root}}
    target |= {"batch_roots": [root], "clean_up_batch_files": True}


def pipeline_file(job: Job, lane: str, *, is_warm: bool) -> Path:
    """Write the pipeline of a job."""
    return job.note(
        "bench.yml",
        {
            "name": "bench",
            "source": {"tap": "tap-spark-source", "config": _tap(job, is_warm=is_warm)},
            "destination": {
                "target": "target-spark-delta", "config": _target(job, is_warm=is_warm)
            },
            "transport": LANES[lane],
        },
    )  # fmt: skip


def _runner(job: Job, bins: Bins, lane: str, *, is_warm: bool) -> list[str]:
    file = pipeline_file(job, lane, is_warm=is_warm)
    return ["env", _path(bins), str(bins["ours"] / "singer-spark"), "run", str(file)]


def _pipe(job: Job, bins: Bins, lane: str, *, is_warm: bool) -> list[str]:
    tap, target = _tap(job, is_warm=is_warm), _target(job, is_warm=is_warm)
    if lane == "files":
        _by_files(job, tap, target)
    job.note("tap.json", tap)
    job.note("target.json", target)
    state = job.folder / "state.json"
    script = (
        'set -euo pipefail; cd "$1"; '
        f"tap-spark-source --config tap.json {'--state state.json' if state.exists() else ''} "
        "| target-spark-delta --config target.json > states; "
        "if [ -s states ]; then tail -n 1 states > state.json; fi"
    )
    return ["env", _path(bins), "bash", "-c", script, "bash", str(job.folder)]


def _meltano(job: Job, bins: Bins, lane: str, *, is_warm: bool) -> list[str]:
    tap, target = _tap(job, is_warm=is_warm), _target(job, is_warm=is_warm)
    if lane == "files":
        _by_files(job, tap, target)
    project = yaml.safe_load((ROOT / "meltano.yml").read_text())
    sides = {"extractors": ("ours-tap", tap), "loaders": ("ours-target", target)}
    for kind, (env, config) in sides.items():
        plugin = project["plugins"][kind][0]
        plugin |= {"config": config, "executable": str(bins[env] / plugin["name"])}
    job.note("meltano.yml", project)
    names = [project["plugins"][kind][0]["name"] for kind in sides]
    return [str(bins["meltano"] / "meltano"), "--cwd", str(job.folder), "run", *names]


def _meltano_state(job: Job, bins: Bins, lane: str, *, is_warm: bool) -> list[str]:
    """Let Meltano make its own database."""
    command = _meltano(job, bins, lane, is_warm=is_warm)
    return [*command[: command.index("run")], "state", "list"]


def _path(bins: Bins) -> str:
    return f"PATH={bins['ours']}{os.pathsep}{os.environ['PATH']}"


def _contestant(way: str, lane: str, *, is_warm: bool) -> Contestant:
    make = {"runner": _runner, "pipe": _pipe, "meltano": _meltano}[way]
    more = {}
    environments = ("ours", "ours-tap", "ours-target", "meltano") if way == "meltano" else ("ours",)
    if way == "meltano":
        more["prepare"] = lambda job, bins: _meltano_state(job, bins, lane, is_warm=is_warm)
    return Contestant(
        name_of(way, lane, is_warm=is_warm),
        f"{WAYS[way]}, {lane}, {'warm' if is_warm else 'cold'}",
        environments,
        lambda job, bins: make(job, bins, lane, is_warm=is_warm),
        by_default=frozenset(_BY_DEFAULT.get((way, lane, is_warm), ())),
        place=lambda job, table: job.folder / "lake" / f"public_{table.name}",
        is_warm=is_warm,
        is_ours=True,
        **more,
    )


OURS = tuple(
    _contestant(way, lane, is_warm=is_warm)
    for way, lane, is_warm in product(WAYS, LANES, (False, True))
)


class WarmEngine:
    """A Spark that stays between runs: started by the command that users have for it."""

    def __init__(self, bins: Bins, job: Job) -> None:
        self._commands, self._env = bins["ours"], environment()
        file = pipeline_file(job, "files", is_warm=True)
        start = time.monotonic()
        said = self._call("engine", "start", "--idle", "2h", "--pipeline", str(file))
        self.start_seconds = time.monotonic() - start
        running = json.loads(self._call("engine", "status", "--json"))
        self.pid = next(one["pid"] for one in running if one["engine"] in said)

    def stop(self) -> None:
        """End this one; `engine stop` would end every engine of the user."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def _call(self, *arguments: str) -> str:
        done = subprocess.run(
            [self._commands / "singer-spark", *arguments],
            env=self._env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"singer-spark {' '.join(arguments[:2])} failed:\n{done.stderr}")
        return done.stdout
