"""The others: a script of one's own, a bare session, dlt, and the usual Singer tap and target."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from benchmarks.contestants import FULL, NO_CHANGE, Bins, Contestant, Job
from singer_spark.engine.jars import DELTA, packages_for, resolve
from singer_spark.engine.machine import driver_memory_mb

_SCRIPTS = Path(__file__).parent / "scripts"
_DUCKDB = "singer.duckdb"


def _script(environment: str, name: str) -> Callable[[Job, Bins], list[str]]:
    def command(job: Job, bins: Bins) -> list[str]:
        jdbc = job.source.server.config
        jars = resolve([DELTA, packages_for(jdbc["source_url"])])
        file = job.note(
            "job.json",
            {
                "folder": str(job.folder),
                "tables": [asdict(table) for table in job.tables],
                "url": job.url,
                "jdbc_url": jdbc["source_url"],
                "user": jdbc["source_user"],
                "password": jdbc["source_password"],
                "jars": [str(jar) for jar in jars],
                "memory_mb": driver_memory_mb(),  # as ours has by default
                "cores": os.cpu_count() or 2,
            },
        )
        return [str(bins[environment] / "python"), str(_SCRIPTS / name), str(file)]

    return command


def _discover(job: Job, bins: Bins) -> list[str]:
    """Write the settings of the Singer pair, and a catalog with the one table selected."""
    url = job.url.replace("postgresql:", "postgresql+psycopg2:")
    job.note("tap.json", {"sqlalchemy_url": url, "filter_schemas": ["public"]})
    job.note("target.json", {"path": str(job.folder / _DUCKDB), "default_target_schema": "main"})
    tap = bins["tap-postgres"]
    return _shell(
        job,
        f"'{tap}/tap-postgres' --config tap.json --discover "
        f"| '{tap}/python' '{_SCRIPTS}/select_table.py' {job.tables[0].name} > catalog.json",
    )


def _singer(job: Job, bins: Bins) -> list[str]:
    return _shell(
        job,
        f"'{bins['tap-postgres']}/tap-postgres' --config tap.json --catalog catalog.json "
        f"| '{bins['target-duckdb']}/target-duckdb' --config target.json",
    )


def _shell(job: Job, script: str) -> list[str]:
    return ["bash", "-c", f'set -euo pipefail; cd "$1"; {script}', "bash", str(job.folder)]


PEERS = (
    Contestant("script", "hand-written PySpark", ("script",), _script("script", "handwritten.py")),
    Contestant(
        "session",
        "bare Delta session",
        ("script",),
        _script("script", "session.py"),
        works=frozenset({NO_CHANGE}),
        place=lambda _job, _table: None,
    ),
    Contestant(
        "dlt",
        "dlt, connectorx",
        ("dlt",),
        _script("dlt", "dlt_merge.py"),
        place=lambda job, table: job.folder / "lake" / "public" / table.name,
    ),
    # Of the targets that install, the fastest: less than half the CPU time of those for JSONL, CSV.
    Contestant(
        "tap-postgres",
        "tap-postgres | target-duckdb",
        ("tap-postgres", "target-duckdb"),
        _singer,
        works=frozenset({FULL}),
        prepare=_discover,
        place=lambda job, _table: job.folder / _DUCKDB,
        reads_few=True,
    ),
)
