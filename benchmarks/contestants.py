"""Who takes part: a name, the works it can do, and the command that does one.

A job is a folder of its own in which a contestant keeps its configuration, its tables and what it
remembers between runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.source import Source, Table

FULL, INCREMENTAL, NO_CHANGE, SMALL_WORK = WORKS = ("full", "incremental", "no change", "small")
ALL = frozenset(WORKS)
Bins = dict[str, Path]


@dataclass(frozen=True)
class Job:
    """Tables to load, and the folder to do it in."""

    source: Source
    tables: tuple[Table, ...]
    folder: Path

    @property
    def url(self) -> str:
        server = self.source.server
        return f"postgresql://{server.user}:{server.password}@127.0.0.1:{server.port}/{server.database}"

    def note(self, name: str, content: object) -> Path:
        """Write a file of the job; YAML reads JSON as well."""
        file = self.folder / name
        file.write_text(json.dumps(content))
        return file


def _lake(job: Job, table: Table) -> Path | None:
    return job.folder / "lake" / table.name


def _nothing(_job: Job, _bins: Bins) -> list[str] | None:
    return None


@dataclass(frozen=True)
class Contestant:
    """One way to do the works."""

    name: str
    label: str
    environments: tuple[str, ...]
    command: Callable[[Job, Bins], list[str]]
    works: frozenset[str] = ALL
    # What it does in a run of `make bench` that names no contestants.
    by_default: frozenset[str] = ALL
    prepare: Callable[[Job, Bins], list[str] | None] = _nothing
    place: Callable[[Job, Table], Path | None] = _lake
    reads_few: bool = False
    is_warm: bool = False
    is_ours: bool = False
