"""What every run of a pipeline did.

`PIPELINE/runs/RUN_ID.json` is one run's record, written once; the oldest go at last.
`PIPELINE/summary.json` holds the last ones together, so that a look at a pipeline costs the same
after 1,000 runs as after 10. The summary is written first: a run that it does not know has no
record either. Lost or damaged it is built again from the records.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from singer_spark.errors import StateError
from singer_spark.state.holder import Holder, is_run_id, read_lock
from singer_spark.state.store import DamagedError, NewerSchemaError, StateStore, key_of
from singer_spark.storage.objects import ConflictError, Expect, Stored, tag_of

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


ATTEMPTS = 20  # each lost to a run that ended at the same moment
PRUNED_RUNS = 100  # at most, at the end of one run
PRUNED_EVERY = 16  # runs, where many are kept: to list them all costs more than a few too many


def save_run(
    store: StateStore, name: str, record: Mapping[str, Any], expected: Expect = Expect.ANYTHING
) -> None:
    """Write the record of a run and add it to the summary.

    With Expect.ABSENT, for others who tell of a run, what the run told of itself is kept.
    """
    if not is_run_id(record["run_id"]):
        raise StateError(f"{name}: its run has no valid id; nothing is recorded of it")
    told = _add_to_summary(store, name, record, keep=expected is Expect.ABSENT)
    key = key_of(name, f"runs/{record['run_id']}.json")
    store.documents.write_own(key, told, expected)


def prune_runs(store: StateStore, name: str, keep: int, run_id: str) -> None:
    """Remove the oldest records beyond those to keep, at the end of a run."""
    if keep >= KEPT_RUNS and crc32(run_id.encode()) % PRUNED_EVERY:
        return
    for file in _list_files(store, name)[keep:][-PRUNED_RUNS:]:
        store.objects.delete(key_of(name, f"runs/{file}"))


def begin_history(store: StateStore, name: str) -> None:
    """See that a pipeline has a summary from its first run on: a look asks for nothing else."""
    key = key_of(name, "summary.json")
    if store.objects.read(key) is None:
        with suppress(ConflictError):
            store.documents.write_own(key, {"runs": _rebuild(store, name).runs}, Expect.ABSENT)


def look_at(store: StateStore, name: str) -> tuple[Summary, Holder | None]:
    """Read the last runs of a pipeline and who runs it now, in two requests."""
    stored = store.objects.read(key_of(name, "summary.json"))
    if stored is None:
        known = store.objects.list(name)
        summary = _rebuild(store, name) if "runs/" in known else Summary(name)
        return summary, read_lock(store, name)[0] if "lock" in known else None
    return _parse(store, name, stored) or _rebuild(store, name), read_lock(store, name)[0]


def list_runs(store: StateStore, name: str, limit: int | None = None) -> list[dict[str, Any]]:
    """Read the records of the last runs, newest first; those of the summary cost one request."""
    if limit is not None:
        summary = _parse(store, name, store.objects.read(key_of(name, "summary.json")))
        if summary and (summary.is_complete or limit <= len(summary.runs)):
            return [_whole(store, name, run) for run in summary.runs[:limit]]
    return [_read(store, name, file) for file in _list_files(store, name)[:limit]]


def _add_to_summary(
    store: StateStore, name: str, record: Mapping[str, Any], *, keep: bool
) -> Mapping[str, Any]:
    """Note a run and give its record; the summary of a newer version is left alone."""
    key = key_of(name, "summary.json")
    for _ in range(ATTEMPTS):
        stored = store.objects.read(key)
        try:
            before = _parse(store, name, stored) or _rebuild(store, name)
        except NewerSchemaError:
            return record
        known = before.find(record["run_id"])
        if keep and known:
            return known
        try:
            runs = before.adding(record).runs
            store.documents.write_own(key, {"runs": runs}, tag_of(stored))
        except ConflictError:
            continue
        return record
    raise StateError(f"{store.objects.locate(key)}: too many runs end at once; run again")


def _parse(store: StateStore, name: str, stored: Stored | None) -> Summary | None:
    """Read a summary; None where there is none, or a damaged one."""
    try:
        value = store.documents.parse_own(key_of(name, "summary.json"), stored)
        return Summary(name, tuple(run for run in value["runs"] if is_run_id(run["run_id"])))
    except (DamagedError, KeyError, TypeError):
        return None


def _rebuild(store: StateStore, name: str) -> Summary:
    """Build the summary from the records; those that cannot be understood are left out."""
    records = []
    for file in _list_files(store, name)[:KEPT_RUNS]:
        try:
            record = _read(store, name, file)
        except (DamagedError, NewerSchemaError):
            continue
        if is_run_id(record.get("run_id")):
            records.append(record)
    return Summary.of(name, records)


def _list_files(store: StateStore, name: str) -> list[str]:
    files = sorted(store.objects.list(key_of(name, "runs")), reverse=True)
    return [file for file in files if file.endswith(".json") and is_run_id(file[:-5])]


def _whole(store: StateStore, name: str, run: Mapping[str, Any]) -> dict[str, Any]:
    known = {} if is_whole(run) else _read(store, name, f"{run['run_id']}.json")
    return known or dict(run)


def _read(store: StateStore, name: str, file: str) -> dict[str, Any]:
    key = key_of(name, f"runs/{file}")
    return store.documents.parse_own(key, store.objects.read(key))
