"""The work of an engine, counted from Spark's own log of events: clients, jobs, tasks, bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_CLIENT = re.compile(r"User_(lease-[0-9a-f]+)_")


def logged(folder: Path) -> dict[str, str]:
    """Let an engine log its events into a folder: one file for each start of Spark."""
    folder.mkdir(exist_ok=True)
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }


@dataclass
class Job:
    """One job of Spark, and what its tasks did."""

    client: str
    submitted: float
    said: str
    tasks: int = 0
    read: int = 0
    written: int = 0
    fetched: int = 0  # what came back to the driver, and may go on to Python


@dataclass
class Client:
    """A process that had a lease, and its jobs."""

    name: str
    jobs: list[Job] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(
            f"  {n}. {job.tasks} tasks, read {job.read}, written {job.written}, "
            f"fetched {job.fetched}: {job.said}"
            for n, job in enumerate(self.jobs, 1)
        )


def clients(log: Path) -> list[Client]:
    """List the clients of an engine that ran jobs, in the order of their first."""
    found: dict[str, Client] = {}
    for job in _jobs(log):
        found.setdefault(job.client, Client(job.client)).jobs.append(job)
    return list(found.values())


def _events(log: Path) -> Iterator[dict[str, Any]]:
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):  # the engine may be writing the last one
                yield json.loads(line)


def _jobs(log: Path) -> list[Job]:
    jobs: dict[int, Job] = {}
    stages: dict[int, int] = {}
    for event in _events(log):
        kind = event["Event"].rpartition(".")[2]
        if kind == "SparkListenerJobStart":
            jobs[event["Job ID"]] = _job(event)
            # A stage whose result is known is named again by the next job, and does nothing there.
            for stage in event["Stage IDs"]:
                stages.setdefault(stage, event["Job ID"])
        elif kind == "SparkListenerTaskEnd" and event["Stage ID"] in stages:
            _add_task(jobs[stages[event["Stage ID"]]], event.get("Task Metrics") or {})
    return list(jobs.values())


def _job(event: dict[str, Any]) -> Job:
    properties = event.get("Properties") or {}
    tags = _CLIENT.search(properties.get("spark.job.tags", ""))
    # Delta says what it is doing, behind the beginning of the request.
    said = properties.get("spark.job.description", "").rpartition("...")[2]
    return Job(
        client=tags[1] if tags else "",
        submitted=event["Submission Time"] / 1000,
        said=said.strip(" :-"),
    )


def _add_task(job: Job, metrics: dict[str, Any]) -> None:
    job.tasks += 1
    job.read += metrics.get("Input Metrics", {}).get("Bytes Read", 0)
    job.written += metrics.get("Output Metrics", {}).get("Bytes Written", 0)
    job.fetched += metrics.get("Result Size", 0)
