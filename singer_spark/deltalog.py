"""What the commits of Delta tables say of the pipeline that made them, read from the logs' JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from singer_spark.state.objects import ObjectStore

COMMIT_FILE = re.compile(r"(\d{20})\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommit:
    """A commit that carries the state which it made true."""

    table: str
    stream: str
    version: int
    committed_at: str
    run_id: str | None
    state: Any
    state_of: str  # the stream of the tap; the table's may have another name
    newer: int  # commits of the pipeline with rows, but without a state, after it


@dataclass(frozen=True, slots=True)
class TableLog:
    """What a table's log tells of one pipeline: its newest commit with a state, if there is one."""

    table: str
    oldest: int
    commit: TableCommit | None
    pipelines: frozenset[str] = frozenset()  # whose commits were met on the way

    @property
    def is_cut(self) -> bool:
        """Tell that older commits were cleaned up."""
        return self.oldest > 0


def read_logs(objects: ObjectStore, pipeline: str) -> list[TableLog]:
    """Read the logs of all tables in a folder; what is no Delta table is passed over."""
    logs = []
    for entry in sorted(objects.list("")):
        if not entry.endswith("/") or entry.startswith(("_", ".")):
            continue
        files = objects.list(f"{entry}_delta_log")
        versions = [int(found[1]) for file in files if (found := COMMIT_FILE.fullmatch(file))]
        if versions:
            logs.append(_read_log(objects, entry[:-1], sorted(versions), pipeline))
    return logs


def _read_log(objects: ObjectStore, table: str, versions: list[int], pipeline: str) -> TableLog:
    met: list[dict[str, Any]] = []
    for version in reversed(versions):
        info = _read_commit(objects, f"{table}/_delta_log/{version:020}.json")
        told = _user_metadata(info)
        if told.get("pipeline") == pipeline and told.get("state") is not None:
            commit = TableCommit(
                table=table,
                stream=str(told.get("stream")),
                version=version,
                committed_at=_moment(info.get("timestamp")),
                run_id=told.get("run_id"),
                state=told["state"],
                state_of=str(told.get("state_of") or told.get("stream")),
                newer=sum(_wrote_rows(later, pipeline) for later in met),
            )
            return TableLog(table, versions[0], commit)
        met.append(told)
    names = frozenset(str(told["pipeline"]) for told in met if told.get("pipeline"))
    return TableLog(table, versions[0], None, names)


def _wrote_rows(told: dict[str, Any], pipeline: str) -> bool:
    return told.get("pipeline") == pipeline and told.get("rows") is not None


def _read_commit(objects: ObjectStore, key: str) -> dict[str, Any]:
    """Read what a commit says of itself; one that was cleaned up meanwhile says nothing."""
    stored = objects.read(key)
    for action in _actions(stored.body if stored else b""):
        info = action.get("commitInfo")
        if isinstance(info, dict):
            return info
    return {}


def _actions(body: bytes) -> Iterator[dict[str, Any]]:
    for line in body.splitlines():
        # The other actions may be thousands.
        if b'"commitInfo"' in line:
            value = _parse(line)
            if value:
                yield value


def _user_metadata(info: dict[str, Any]) -> dict[str, Any]:
    return _parse(info.get("userMetadata") or "")


def _parse(text: str | bytes) -> dict[str, Any]:
    """Read a JSON object; anything else, such as the note of another program, is an empty one."""
    try:
        value = json.loads(text)
    except (TypeError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _moment(milliseconds: Any) -> str:
    if not isinstance(milliseconds, int):
        return "unknown"
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).isoformat(
        timespec="milliseconds"
    )
