"""Records on their way to a commit: files of lines on disk, cut into segments.

A line of a segment is written here member by member, never copied from a message, which may have
members of the same names: `record`, as it came, and in front of it `#`, its number in the input,
which is the order of the records, `~`, the properties it carries, where what it does not carry must
be left alone, `@`, when it was received, `!`, why it is not to be loaded, `?`, that nothing says
which row it is of, `version` and `time_extracted`.
"""

from __future__ import annotations

import itertools
import shutil
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from singer_spark.errors import SettingsError, TransientError
from singer_spark.scratch import make_scratch
from target_spark_delta.intake.batch_files import Manifest

# The columns that these members are read into: names that no property has.
LINE_NUMBER = "\0line"
CARRIED = "\0carried"
RECEIVED = "\0received"
REJECTED = "\0rejected"
LOST_KEY = "\0lost_key"
MEMBERS = {"#": LINE_NUMBER, "~": CARRIED, "@": RECEIVED, "!": REJECTED, "?": LOST_KEY}
# So many values of a column are named in a MERGE; of more only the ends.
FEW_VALUES = 50
_BLOCK_BYTES = 1 << 20
_BUFFER_BYTES = 1 << 16
_MOST_OPEN_FILES = 200
_ids = itertools.count(1)
_open_files: deque[Segment] = deque()


class Range(NamedTuple):
    """The values of one column in a batch, as text: the ends, and each where they are few."""

    low: str | None
    high: str | None
    nulls: int
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """What is known of the keys of a batch."""

    rows: int
    keys: int
    ranges: Mapping[str, Range]


def make_folder(place: str | None, *, prefix: str) -> Path:
    """Make the folder of a run's segments, which goes with its process.

    Those of processes that were killed are removed.
    """
    try:
        folder = Path(place).expanduser().absolute() if place else None
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
        return make_scratch(prefix, folder)
    except OSError as error:
        raise SettingsError(
            f"temp_dir cannot be written to: {error.strerror}; set another"
        ) from error


def _no_room(error: OSError) -> TransientError:
    return TransientError(
        f"records cannot be spooled to disk: {error.strerror}; free some space, or set temp_dir"
    )


def _refuse(_: bytes) -> object:
    raise ValueError("the segment is closed")


def new_id() -> int:
    """Return the number of a segment, or of what counts as one."""
    return next(_ids)


@dataclass(slots=True, eq=False)
class Segment:
    """A run of one stream's records in a file of its own.

    `rows` counts all its records, `rejected` those that go to quarantine. `keys` are the keys of
    its records, where Python can tell whether two are the same. A BATCH message makes a segment
    too, whose path is a folder for what Spark needs to read its files.
    """

    stream: str
    path: Path
    id: int = field(default_factory=new_id)
    rows: int = 0
    rejected: int = 0
    size: int = 0
    opened_at: float = field(default_factory=time.monotonic)
    is_partial: bool = False
    has_versions: bool = False
    has_deletions: bool = False
    keys: set[Any] | None = None
    facts: KeyFacts | None = None
    manifest: Manifest | None = None
    _marked_rows: int = 0
    _marked_size: int = 0
    _marked_rejected: int = 0
    _file: BinaryIO | None = None
    _write: Callable[[bytes], object] = _refuse

    @classmethod
    def of_files(cls, folder: Path, manifest: Manifest) -> Segment:
        """Make a segment of the files of a BATCH message."""
        segment = cls(manifest.rules.stream, folder, manifest=manifest)
        segment.path = folder / str(segment.id)
        segment.path.mkdir()
        return segment

    @classmethod
    def open(cls, folder: Path, stream: str) -> Segment:
        """Start an empty segment."""
        segment = cls(stream, folder)
        segment.path = folder / f"{segment.id}.jsonl"
        segment._write = segment._open_and_write
        return segment

    def _open_and_write(self, entry: bytes) -> None:
        """Open the file for the first or another time; of many files some are closed meanwhile."""
        while len(_open_files) >= _MOST_OPEN_FILES:
            paused = _open_files.popleft()
            paused.close()
            paused._write = paused._open_and_write
        self._file = self.path.open("ab", buffering=_BUFFER_BYTES)
        self._write = self._file.write
        _open_files.append(self)
        self._write(entry)

    def append(self, record: bytes | msgspec.Raw, number: int, members: bytes = b"") -> None:
        """Write one record, which is JSON; each of the members has its comma."""
        entry = b"%b\n" % entry_of(record, number, members)
        try:
            self._write(entry)
        except OSError as error:
            raise _no_room(error) from error
        self.rows += 1
        self.size += len(entry)

    def mark(self) -> None:
        """Remember that a STATE speaks of everything up to here."""
        self._marked_rows, self._marked_size = self.rows, self.size
        self._marked_rejected = self.rejected

    @property
    def loaded(self) -> int:
        """Count the records that are not rejected."""
        return self.rows - self.rejected

    @property
    def is_marked(self) -> bool:
        """Say whether a STATE came after a record of this segment."""
        return self._marked_rows > 0

    def close(self) -> None:
        """End the file."""
        if self._file is not None:
            file, self._file = self._file, None
            try:
                file.close()
            except OSError as error:
                raise _no_room(error) from error
            if self in _open_files:
                _open_files.remove(self)
        self._write = _refuse

    def check_size(self) -> None:
        """See that the file has all that was written to it."""
        if self.manifest:
            return
        found = self.path.stat().st_size if self.path.exists() else 0
        if found != self.size:
            raise TransientError(
                f"stream {self.stream}: {found} of {self.size} bytes are left of what was spooled "
                f"to {self.path.parent}; no STATE is released; run again, and see that nobody "
                "changes files there, or set temp_dir"
            )

    def split_at_mark(self, folder: Path) -> Segment | None:
        """Move what came after the last STATE into a new segment, and close this one."""
        self.close()
        if self._marked_rows == self.rows:
            return None
        rest = Segment.open(folder, self.stream)
        try:
            self._move_rest(rest)
        except OSError as error:
            raise _no_room(error) from error
        rest.rows, rest.size = self.rows - self._marked_rows, self.size - self._marked_size
        rest.is_partial, rest.has_versions = self.is_partial, self.has_versions
        rest.has_deletions = self.has_deletions
        rest.rejected, self.rejected = self.rejected - self._marked_rejected, self._marked_rejected
        self.rows, self.size = self._marked_rows, self._marked_size
        return rest

    def _move_rest(self, rest: Segment) -> None:
        with self.path.open("rb+") as file:
            file.seek(self._marked_size)
            while block := file.read(_BLOCK_BYTES):
                rest._write(block)
            file.truncate(self._marked_size)

    def note_rows(self, rows: int, deletions: int, versioned: int) -> None:
        """Note what the files of a BATCH hold."""
        self.rows, self.has_deletions, self.has_versions = rows, deletions > 0, versioned > 0
        self.is_partial = deletions > 0 or (
            self.manifest is not None and self.manifest.rules.partial
        )

    def note_facts(self, names: Sequence[str]) -> None:
        """Sum up the keys, which take memory, in what a merge needs to know of them."""
        if self.keys:
            self.facts = _facts_of(self.loaded, self.keys, names)
        self.keys = None

    def remove(self) -> None:
        """Delete the file, once its rows are committed."""
        if self.manifest:
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            self.path.unlink(missing_ok=True)


def _facts_of(rows: int, keys: set[Any], names: Sequence[str]) -> KeyFacts | None:
    columns: list[set[Any]] = [keys] if len(names) == 1 else list(map(set, zip(*keys, strict=True)))
    if any(type(value) is float for column in columns for value in column):
        return None  # 9007199254740993.0 is a whole number, and another one as a double
    ranges = {name: _range_of(column) for name, column in zip(names, columns, strict=True)}
    return KeyFacts(rows, len(keys), ranges)


def _range_of(values: Collection[Any]) -> Range:
    present = [value for value in values if value is not None]
    nulls = len(values) - len(present)
    if not present:
        return Range(None, None, nulls)
    few = sorted(present) if len(present) <= FEW_VALUES else ()
    low, high, *values = map(str, (min(present), max(present), *few))
    return Range(low, high, nulls, tuple(values))


def entry_of(record: bytes | msgspec.Raw, number: int, members: bytes) -> bytes:
    """Write a line of a segment, without its end."""
    return b'{"#":%d,%b"record":%b}' % (number, members, record)


def carried_member(names: Iterable[str]) -> bytes:
    """Write the member that names the properties a record carries."""
    return b'"~":%b,' % msgspec.json.encode(list(names))


def received_member(microseconds: int) -> bytes:
    """Write the member that tells when a record was received."""
    return b'"@":%d,' % microseconds


def version_member(version: int | None) -> bytes:
    """Write the member that tells a record's version of its stream, where it has one."""
    return b"" if version is None else b'"version":%d,' % version


def extracted_member(time: bytes | msgspec.Raw) -> bytes:
    """Write the member that tells when a record was extracted, given as JSON."""
    return b'"time_extracted":%b,' % time if time else b""


def rejected_member(reason: str, *, lost_key: bool = False) -> bytes:
    """Write the members that tell why a record is not to be loaded, and that its key is unknown."""
    return b'"!":%b,%b' % (msgspec.json.encode(reason), b'"?":true,' if lost_key else b"")
