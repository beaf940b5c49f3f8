"""Delta tables' logs, read without Spark: commits, who made them, and the id of a table."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from singer_spark import digits

if TYPE_CHECKING:
    from singer_spark.state.objects import ObjectStore

# What a commit of ours says that takes back the one before it: the version of that.
UNDOES = "undoes"
COMMIT_FILE = re.compile(r"(\d{20})\.json")
_TURNED_BACK = ("RESTORE", "CLONE", "REPLACE TABLE")
# One file, parts of several, or one named by an id (the second version of checkpoints).
_CHECKPOINT_FILE = re.compile(r"(\d{20})\.checkpoint(?:\.[\w-]+)*\.(parquet|json)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitInfo:
    """What a commit says of itself.

    Args:
        version: The version of the table that it made.
        operation: WRITE, MERGE, RESTORE, …
        metadata: What we wrote into it, empty where it is not ours.
        metrics: What Delta counted; a number that is missing is unknown.
        committed_at: When it was made.
    """

    version: int
    operation: str
    metadata: dict[str, Any]
    metrics: dict[str, str]
    committed_at: str = "unknown"

    @property
    def undoes(self) -> int | None:
        """Return the version that our own commit takes back, because it lacked rows.

        One that came between them was taken back too: then the table lacks what others wrote.
        """
        undone = self.metadata.get(UNDOES)
        return undone if isinstance(undone, int) and self.version == undone + 1 else None

    def metric(self, name: str) -> int | None:
        """Return a count, None where it is unknown."""
        value = self.metrics.get(name)
        return int(value) if value is not None and value.isdigit() else None

    @property
    def turns_back(self) -> bool:
        """Say whether the table may lack, from here on, what its older commits wrote.

        A catalog says of our own replacement of all rows that it replaced the table.
        """
        is_ours = "run_id" in self.metadata
        if self.undoes is not None or ("REPLACE TABLE" in self.operation and is_ours):
            return False
        return any(word in self.operation for word in _TURNED_BACK)


def log_versions(objects: ObjectStore, table: str = "") -> list[int]:
    """List the versions whose commits a table's log still has, lowest first."""
    files = objects.list(_log(table))
    return sorted(int(found[1]) for file in files if (found := COMMIT_FILE.fullmatch(file)))


def commit_info(objects: ObjectStore, version: int, table: str = "") -> CommitInfo | None:
    """Read what one commit says of itself; None where the log has it no longer."""
    stored = objects.read(f"{_log(table)}/{version:020}.json")
    if stored is None:
        return None
    found = _actions(stored.body, "commitInfo")
    info: dict[str, Any] = next((one["commitInfo"] for one in found), {})
    return CommitInfo(
        version=version,
        operation=str(info.get("operation")),
        metadata=parsed(info.get("userMetadata")),
        metrics={name: str(value) for name, value in (info.get("operationMetrics") or {}).items()},
        committed_at=_moment(info.get("timestamp")),
    )


def table_id(objects: ObjectStore, table: str = "") -> str | None:
    """Find the id that Delta gave a table: in the commits since a checkpoint, or in that."""
    files = objects.list(_log(table))
    checkpoints = sorted(filter(_CHECKPOINT_FILE.fullmatch, files), reverse=True)
    newest = checkpoints[0][:20] if checkpoints else ""
    # A commit that changes the columns or properties names the id as well.
    for file in sorted(filter(COMMIT_FILE.fullmatch, files), reverse=True):
        stored = objects.read(f"{_log(table)}/{file}") if file[:20] > newest else None
        for action in _actions(stored.body if stored else b"", "metaData"):
            return str(action["metaData"]["id"])
    for file in checkpoints:
        if known := _id_in_checkpoint(objects, f"{_log(table)}/{file}"):
            return known
    return None


def _id_in_checkpoint(objects: ObjectStore, key: str) -> str | None:
    stored = objects.read(key)
    if stored is None:
        return None
    if key.endswith(".json"):
        actions = _actions(stored.body, "metaData")
        return next((str(one["metaData"]["id"]) for one in actions), None)
    # Only where it is needed: it takes a while to load.
    import pyarrow.parquet as pq

    with io.BytesIO(stored.body) as file:
        found = pq.ParquetFile(file).read(columns=["metaData.id"])
    values = found.column("metaData").to_pylist() if found.num_columns else []
    return next((str(one["id"]) for one in values if one and one["id"]), None)


def _log(table: str) -> str:
    return f"{table.rstrip('/')}/_delta_log" if table else "_delta_log"


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
    restored_in: int | None = None  # the version that turned it back behind its newest bookmark

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
        if versions := log_versions(objects, entry):
            logs.append(_read_log(objects, entry[:-1], versions, pipeline))
    return logs


def _read_log(objects: ObjectStore, table: str, versions: list[int], pipeline: str) -> TableLog:
    met: list[dict[str, Any]] = []
    restored: int | None = None
    undone: set[int | None] = set()
    for version in reversed(versions):
        commit = commit_info(objects, version, table)
        if commit is None:
            continue
        undone.add(commit.undoes)
        if version in undone or commit.undoes is not None:
            continue
        if restored is None and commit.turns_back:
            restored = version
        said = commit.metadata
        if said.get("pipeline") == pipeline and said.get("state") is not None:
            newer = sum(_wrote_rows(later, pipeline) for later in met)
            # What was committed before a RESTORE may be in the table no more.
            found = None if restored is not None else _table_commit(table, commit, newer)
            return TableLog(table, versions[0], found, restored_in=restored)
        met.append(said)
    names = frozenset(str(said["pipeline"]) for said in met if said.get("pipeline"))
    return TableLog(table, versions[0], None, names)


def _table_commit(table: str, commit: CommitInfo, newer: int) -> TableCommit:
    said = commit.metadata
    return TableCommit(
        table=table,
        stream=str(said.get("stream")),
        version=commit.version,
        committed_at=commit.committed_at,
        run_id=said.get("run_id"),
        state=said["state"],
        state_of=str(said.get("state_of") or said.get("stream")),
        newer=newer,
    )


def _wrote_rows(said: dict[str, Any], pipeline: str) -> bool:
    return said.get("pipeline") == pipeline and said.get("rows") is not None


def _actions(body: bytes, kind: str) -> Iterator[dict[str, Any]]:
    """Give the actions of a kind; the others, which may be thousands, are not parsed."""
    start = f'"{kind}"'.encode()
    for line in body.splitlines():
        if start in line[:40]:
            value = parsed(line)
            if isinstance(value.get(kind), dict):
                yield value


def parsed(text: str | bytes | None) -> dict[str, Any]:
    """Read a JSON object; anything else, such as the note of another program, is an empty one."""
    try:
        value = digits.loads(text or "")
    except (TypeError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _moment(milliseconds: Any) -> str:
    if not isinstance(milliseconds, int):
        return "unknown"
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).isoformat(
        timespec="milliseconds"
    )
