"""Whose table is it? What one pipeline has loaded is never replaced unasked by another."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from singer_spark.errors import DataError
from target_spark_delta.table import Table, answer

_FEW_COMMITS = 10
_REPLACING = ("CREATE OR REPLACE TABLE AS SELECT", "REPLACE TABLE AS SELECT")


class NotOursError(DataError):
    """A table is not this pipeline's alone. Say how it is to be loaded, or load into another."""

    def __init__(self, table: Table, why: str) -> None:
        self.why = f"{table} {why}"
        super().__init__(
            f"{self.why}, so a read of a stream without a key does not replace it; set load_method "
            "overwrite or append-only in stream_options, or load into another path"
        )


def check_owner(spark: SparkSession, table: Table, pipeline: str | None) -> None:
    """Refuse to replace a table that another pipeline loads, or that nobody of ours has made.

    Raises:
        NotOursError: It is not this pipeline's.
    """
    # The newest commits nearly always decide; all of a long log take seconds to read.
    if not _is_known(_commits(spark, table, f"limit {_FEW_COMMITS}"), table, pipeline):
        _is_known(_commits(spark, table, ""), table, pipeline, are_all=True)


def _commits(spark: SparkSession, table: Table, limit: str) -> list[dict[str, Any]]:
    return answer(spark, f"describe history {table.sql} {limit}")


def _is_known(
    commits: Iterable[Mapping[str, Any]],
    table: Table,
    pipeline: str | None,
    *,
    are_all: bool = False,
) -> bool:
    """Say whether commits, newest first, leave no doubt that a table is this pipeline's."""
    is_ours, oldest = False, 0
    for commit in commits:
        oldest = commit["version"]
        said = _said(commit["userMetadata"])
        if said is None:
            continue
        owner = said.get("pipeline")
        if owner is not None and owner != pipeline:
            raise NotOursError(table, f"is loaded by the pipeline {owner} too")
        is_ours = True
        if owner == pipeline and _replaces(commit):
            # Then it was this pipeline's alone.
            return True
    if are_all and not is_ours:
        raise NotOursError(table, "was not made by this target, as far as its log tells")
    return oldest == 0 and is_ours


def _said(text: str | None) -> dict[str, Any] | None:
    """Read what a commit of ours says of itself; of others nothing is known."""
    try:
        said = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) and {"pipeline", "run_id"} <= said.keys() else None


def _replaces(commit: Mapping[str, Any]) -> bool:
    """Say whether a commit has replaced all rows."""
    parameters = dict(commit["operationParameters"] or ())
    is_whole = parameters.get("mode") == "Overwrite" and parameters.get("predicate", "[]") == "[]"
    return commit["operation"] in _REPLACING or (commit["operation"] == "WRITE" and is_whole)
