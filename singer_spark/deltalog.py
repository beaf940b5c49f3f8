"""Delta tables' logs, read without Spark: commits, who made them, and the id of a table."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from singer_spark import exact_json

if TYPE_CHECKING:
    from singer_spark.storage.objects import ObjectStore

# What a commit of ours says that takes back the one before it: the version of that.
UNDOES = "undoes"
# Folders that lie beside tables, or in one.
NO_TABLES = ("_quarantine", "_singer_spark", "_delta_log")
COMMIT_FILE = re.compile(r"(\d{20})\.json")
_TURNED_BACK = ("RESTORE", "CLONE", "REPLACE TABLE")
# One file, parts of several, or one named by an id (the second version of checkpoints).
_CHECKPOINT_FILE = re.compile(r"(\d{20})\.checkpoint(?:\.[\w-]+)*\.(parquet|json)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitInfo:
    """What a commit says of itself."""

    version: int  # the version of the table that it made
    operation: str  # WRITE, MERGE, RESTORE, …
    metadata: dict[str, Any]  # what we wrote into it, empty where it is not ours
    metrics: dict[str, str]  # what Delta counted; a number that is missing is unknown
    committed_at: str = "unknown"  # when it was made

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

    def wrote_rows_of(self, pipeline: str | None) -> bool:
        """Say whether it is a pipeline's, and wrote rows."""
        return self.metadata.get("pipeline") == pipeline and self.metadata.get("rows") is not None

    @property
    def lacks_rows(self) -> bool:
        """Say whether it appended fewer rows than came, so that its bookmark is not true.

        A run takes such a commit back, unless it is killed or others have committed since.
        """
        rows, written = self.metadata.get("rows"), self.metric("numOutputRows")
        if self.metadata.get("appends") is not True or written is None:
            return False
        return isinstance(rows, int) and written < rows

    @property
    def run_id(self) -> str | None:
        """Name the run that made it."""
        return self.metadata.get("run_id")

    @property
    def stream(self) -> str:
        """Name the stream of its table."""
        return str(self.metadata.get("stream"))

    @property
    def source(self) -> str:
        """Name the stream of the tap that it is of; the table's may have another name."""
        return str(self.metadata.get("state_of") or self.stream)

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
    info: dict[str, Any] = next(_actions(stored.body, "commitInfo"), {})
    return CommitInfo(
        version=version,
        operation=str(info.get("operation")),
        metadata=parsed(info.get("userMetadata")),
        metrics={name: str(value) for name, value in (info.get("operationMetrics") or {}).items()},
        committed_at=_moment(info.get("timestamp")),
    )


def standing_commits(
    versions: Sequence[int], read: Callable[[int], CommitInfo | None]
) -> Iterator[CommitInfo]:
    """Give the commits of a table, newest first, without those that a run of ours took back.

    The versions are those that the log lists, lowest first. It ends where the log does: what was
    cleaned up says nothing any more.
    """
    undone: set[int] = set()
    for version in reversed(versions):
        if version in undone:
            continue
        commit = read(version)
        if commit is None:
            return
        if commit.undoes is None:
            yield commit
        else:
            undone.add(commit.undoes)


def newest_rows(commits: Iterable[CommitInfo], pipeline: str | None) -> CommitInfo | None:
    """Find the newest commit of a pipeline that wrote rows, unless the table was turned back."""
    for commit in commits:
        if commit.turns_back:
            return None
        if commit.wrote_rows_of(pipeline):
            return commit
    return None


def tables_in(objects: ObjectStore) -> Iterator[tuple[str, list[int], Iterator[CommitInfo]]]:
    """Give the Delta tables of a folder: the name, the versions and the standing commits of each.

    What is no Delta table is passed over.
    """
    for entry in sorted(objects.list("")):
        if not entry.endswith("/") or entry.startswith(".") or entry[:-1] in NO_TABLES:
            continue
        if versions := log_versions(objects, entry):
            read = functools.partial(commit_info, objects, table=entry)
            yield entry[:-1], versions, standing_commits(versions, read)


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """What a table's log says of the table: its id, partitions and properties."""

    id: str
    partition_columns: tuple[str, ...]
    properties: Mapping[str, str]

    @classmethod
    def of(cls, action: Mapping[str, Any]) -> TableMetadata:
        """Read the action of a log."""
        properties = action.get("configuration") or {}
        return cls(str(action["id"]), tuple(action.get("partitionColumns") or ()), dict(properties))


def table_id(objects: ObjectStore, table: str = "") -> str | None:
    """Find the id that Delta gave a table."""
    known = table_metadata(objects, table)
    return known.id if known else None


def table_metadata(objects: ObjectStore, table: str = "") -> TableMetadata | None:
    """Find what is said of a table: in the commits since a checkpoint, or in that."""
    files = objects.list(_log(table))
    checkpoints = sorted(filter(_CHECKPOINT_FILE.fullmatch, files), reverse=True)
    newest = checkpoints[0][:20] if checkpoints else ""
    # A commit that changes the columns or properties says all of it anew.
    for file in sorted(filter(COMMIT_FILE.fullmatch, files), reverse=True):
        stored = objects.read(f"{_log(table)}/{file}") if file[:20] > newest else None
        for action in _actions(stored.body if stored else b"", "metaData"):
            return TableMetadata.of(action)
    for file in checkpoints:
        if known := _in_checkpoint(objects, f"{_log(table)}/{file}"):
            return known
    return None


def _in_checkpoint(objects: ObjectStore, key: str) -> TableMetadata | None:
    stored = objects.read(key)
    if stored is None:
        return None
    if key.endswith(".json"):
        return next(map(TableMetadata.of, _actions(stored.body, "metaData")), None)
    # Only where it is needed: it takes a while to load.
    import pyarrow.parquet as pq

    names = [f"metaData.{name}" for name in ("id", "partitionColumns", "configuration")]
    with io.BytesIO(stored.body) as file:
        found = pq.ParquetFile(file).read(columns=names)
    values = found.column("metaData").to_pylist() if found.num_columns else []
    return next((TableMetadata.of(one) for one in values if one and one["id"]), None)


def _log(table: str) -> str:
    return f"{table.rstrip('/')}/_delta_log" if table else "_delta_log"


def _actions(body: bytes, kind: str) -> Iterator[dict[str, Any]]:
    """Give the actions of a kind; the others, which may be thousands, are not parsed."""
    start = f'"{kind}"'.encode()
    for line in body.splitlines():
        if start in line[:40]:
            value = parsed(line).get(kind)
            if isinstance(value, dict):
                yield value


def parsed(text: str | bytes | None) -> dict[str, Any]:
    """Read a JSON object; anything else, such as the note of another program, is an empty one."""
    try:
        value = exact_json.loads(text or "")
    except (TypeError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _moment(milliseconds: Any) -> str:
    if not isinstance(milliseconds, int):
        return "unknown"
    moment = datetime.fromtimestamp(milliseconds / 1000, timezone.utc)
    return moment.isoformat(timespec="milliseconds")
