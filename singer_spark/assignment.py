"""What the runner tells tap and target of the run that they work for.

Names travel in the environment, all else in a private file that the variable SINGER_SPARK_RUN_FILE
names. In a plain pipe there is neither: a run then has a new id, no pipeline and no memory.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from singer_spark.names import merged_options

PIPELINE = "SINGER_SPARK_PIPELINE"
RUN_ID = "SINGER_SPARK_RUN_ID"
# The names and patterns of the streams that our tap reads, as JSON; without it all of them.
STREAMS = "SINGER_SPARK_STREAMS"
RUN_FILE = "SINGER_SPARK_RUN_FILE"
# The URL of the state store, which may hold a password and so stands in no file.
STATE_URL = "SINGER_SPARK_STATE_URL"
EVERY_STREAM = "*"
REPLACING = ("overwrite", "partition-overwrite", "delete-insert")


def is_same_source(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Say whether two identities are of one source: by its own id, else by its place."""
    if one.get("id") is not None and other.get("id") is not None:
        return bool(one["id"] == other["id"])
    return None in (one.get("place"), other.get("place")) or one["place"] == other["place"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableIdentity:
    """A table as the pipeline left it: where it is, and by what it is known again."""

    location: str  # its path or URL, or its name in a catalog
    id: str  # the id that Delta gave it when it was made; empty where no row has come yet
    version: int  # the version of the pipeline's last commit there
    run_id: str  # the run that made that commit
    # The key that its rows were merged by; empty where they were appended.
    key: tuple[str, ...] = ()
    # The stream of the tap that fills it, where stream_maps give it another name.
    state_of: str | None = None

    @property
    def is_absent(self) -> bool:
        """Say whether there was no table yet."""
        return not self.id

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TableIdentity:
        """Read what `to_dict` wrote; ValueError where it is no identity."""
        return msgspec.convert(values, cls)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        known = {**asdict(self), "key": list(self.key)}
        return {name: value for name, value in known.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A run that began while a state was stored, and has not succeeded."""

    # The streams that it did not begin from the stored state; `*` is each one.
    fresh: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()  # the streams whose bookmark someone has set since
    # The only streams that it still counts for, because a run that has succeeded since did not read
    # them; none is all streams.
    owes: tuple[str, ...] = ()
    # The identity of its source, as far as it is known, unless someone has accepted any.
    source: Mapping[str, Any] | None = None

    def counts_for(self, stream: str) -> bool:
        """Say whether rows of a stream that it has left are not known to the stored state."""
        return stream not in self.settled and (not self.owes or stream in self.owes)


class Loaded(NamedTuple):
    """What becomes of a stream's rows; in doubt no key tells that two of them are one.

    `by_key` says that rows which come twice are one, `replaces` that rows which do not come may be
    removed; neither is an append. It `is_sure` where all that the stream may be called is one way.
    """

    by_key: bool = False
    replaces: bool = False
    is_sure: bool = True

    @classmethod
    def by(cls, options: Mapping[str, Any], keys: Collection[str]) -> Loaded:
        """Read it off the options of the target and the key of the tap."""
        given, method = options.get("key_properties"), options.get("load_method") or "upsert"
        by_key = bool(keys if given is None else given) and method != "append-only"
        by_range = method != "delete-insert" or bool(options.get("range_column"))
        return cls(by_key=by_key, replaces=method in REPLACING and by_range)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One run, as its tap and target know it."""

    run_id: str
    pipeline: str | None = None  # None in a plain pipe
    # The number of the lock's holder, higher than every earlier one; None where there is no lock.
    generation: int | None = None
    # Whether the lock was taken from a holder that had not released it, so that tables must be
    # claimed before anything else.
    claims: bool = False
    # The streams whose tables an earlier run has claimed from that holder.
    claimed: frozenset[str] = frozenset()
    # The streams whose rows are loaded afresh, by --full or --refresh; `*` is each one.
    reload: frozenset[str] = frozenset()
    # How our target loads streams: options by the pattern of their names; None where nobody says,
    # as in a plain pipe.
    loads: Mapping[str, Mapping[str, Any]] | None = None
    renames: bool = False  # whether streams may have other names there than the tap gives them
    copied: Collection[str] = ()  # patterns of the streams that stream_maps make further tables of
    resumes: bool = False  # whether it goes on from the checkpoint of a run that failed
    # Whether runs before it have failed or died, so that they may have left things.
    cleans: bool = False
    # The identity that the source must have; None where it may be any.
    source: Mapping[str, Any] | None = None
    # The tables that the state belongs to, by stream.
    tables: Mapping[str, TableIdentity] = field(default_factory=dict)
    # The runs that have not succeeded since the state was stored.
    failed: Mapping[str, Attempt] = field(default_factory=dict)
    # The newest versions of the tables, by the names of their folders, that the runner has looked
    # at to see how far those got.
    read: Mapping[str, int] = field(default_factory=dict)
    # The bookmarks that streams begin from, as canonical texts; None where nobody says, or where a
    # range is read.
    begins: Mapping[str, str] | None = None
    # Whether the pipeline reads everything in each run, because it is not incremental.
    rereads: bool = False
    remembers: bool = False  # whether a store remembers the run if it fails

    def reloads(self, stream: str) -> bool:
        """Say whether the rows of a stream are loaded afresh."""
        return bool(self.reload & {stream, EVERY_STREAM})

    def tables_of(self, stream: str) -> int:
        """Count the tables that a stream of the tap fills at least."""
        copies = sum(fnmatchcase(stream, one) for one in self.copied)
        return max(2, copies) if copies else 1

    def begins_afresh(self, stream: str) -> bool:
        """Say whether a stream begins without a bookmark, as far as that is known."""
        return self.begins is not None and self.begins.get(stream) in (None, "{}", "null")

    def loaded(self, stream: str, keys: Collection[str]) -> Loaded:
        """Say what becomes of the rows of a stream whose key the tap knows."""
        loads = self.loads
        if loads is None:
            return Loaded()
        if not self.renames:
            return Loaded.by(merged_options(stream, loads), keys)
        ways = {Loaded.by({**loads.get(EVERY_STREAM, {}), **one}, keys) for one in loads.values()}
        return Loaded(
            by_key=all(one.by_key for one in ways),
            replaces=any(one.replaces for one in ways),
            is_sure=len(ways) == 1,
        )

    def ways_on(self, stream: str | None = None, keys: Collection[str] = ()) -> str:
        """Name the commands that go on where the state belongs to another source or table.

        What is appended would be there twice, unless its table is removed.
        """
        run = f"singer-spark run {self.pipeline or 'PIPELINE'}"
        first = ""
        if stream and self.loads is not None and self.loaded(stream, keys) == Loaded():
            first = "remove the table if it is appended to, then "
        elif not stream and self.loads is not None:
            first = "remove the tables that are appended to, then "
        if self.resumes:
            ways = f"start without --resume: {run}"
        elif stream:
            ways = f"{first}load it anew: {run} --refresh {stream}"
        else:
            ways = f"{first}load everything anew: {run} --full"
        return f"{ways}; if it is meant: singer-spark state accept {self.pipeline or 'PIPELINE'}"

    def to_json(self) -> str:
        """Write what the private file holds."""
        names = {*self.__slots__} - {"run_id", "pipeline"}
        return json.dumps({name: getattr(self, name) for name in sorted(names)}, default=_plain)

    @classmethod
    def here(cls) -> Assignment:
        """Read what this process was told."""
        path = os.environ.get(RUN_FILE)
        known = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
        names = {
            "run_id": os.environ.get(RUN_ID) or str(uuid.uuid4()),
            "pipeline": os.environ.get(PIPELINE) or None,
        }
        return msgspec.convert({**known, **names}, cls)


def _plain(value: Any) -> Any:
    """Write as JSON what `json` does not know."""
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, TableIdentity):
        return value.to_dict()
    return dict(value) if isinstance(value, Mapping) else asdict(value)
