"""What every run of a pipeline did: `PIPELINE/runs/RUN_ID.json`, written once and kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from singer_spark.state.base import StateStore
from singer_spark.state.documents import key_of
from singer_spark.state.objects import Expect


def save_run(
    store: StateStore, name: str, record: Mapping[str, Any], expected: Expect = Expect.ANYTHING
) -> None:
    """Write the record of a run; what the run itself tells replaces what others told of it."""
    store.documents.write(key_of(name, f"runs/{record['run_id']}.json"), record, expected)


def list_runs(store: StateStore, name: str, limit: int | None = None) -> list[dict[str, Any]]:
    """Read the records of the last runs, newest first; run ids sort by time."""
    files = sorted(store.objects.list(key_of(name, "runs")), reverse=True)
    keys = [key_of(name, f"runs/{file}") for file in files if file.endswith(".json")][:limit]
    return [store.documents.parse(key, store.objects.read(key)) for key in keys]
