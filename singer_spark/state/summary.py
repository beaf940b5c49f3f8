"""The last runs of a pipeline as one bounded value. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

KEPT_RUNS = 100
WHOLE_BYTES = 1_000_000  # of records with their streams; older ones are kept without
PER_STREAM = ("streams", "bookmarks_before", "bookmarks_after")


@dataclass(frozen=True, slots=True)
class Summary:
    """The last runs of a pipeline.

    `runs` holds the records that `save_run` was given, newest first, at most `KEPT_RUNS`. Where
    they would exceed `WHOLE_BYTES` the older ones lack the keys of `PER_STREAM`; everything else
    of a record is always there.
    """

    pipeline: str
    runs: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def of(cls, pipeline: str, records: Iterable[Mapping[str, Any]]) -> Summary:
        """Summarise records; run ids sort by time."""
        newest = sorted(records, key=lambda run: str(run["run_id"]), reverse=True)[:KEPT_RUNS]
        room = WHOLE_BYTES
        runs: list[Mapping[str, Any]] = []
        for run in newest:
            room -= len(json.dumps(run, default=str))
            runs.append(run if room >= 0 or not runs else _without_streams(run))
        return cls(pipeline, tuple(runs))

    @property
    def is_complete(self) -> bool:
        """Tell that no run is older than those here."""
        return len(self.runs) < KEPT_RUNS

    def find(self, run_id: str) -> Mapping[str, Any] | None:
        """Find the record of one run."""
        return next((run for run in self.runs if run["run_id"] == run_id), None)

    def adding(self, record: Mapping[str, Any]) -> Summary:
        """Give the summary with one more record, or with another record of the same run."""
        others = [run for run in self.runs if run["run_id"] != record["run_id"]]
        return Summary.of(self.pipeline, [*others, record])


def is_whole(run: Mapping[str, Any]) -> bool:
    """Tell that a record of a summary kept its streams."""
    return PER_STREAM[0] in run


def _without_streams(run: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in run.items() if key not in PER_STREAM}
