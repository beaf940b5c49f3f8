"""The rule of the state store; storage only keeps bytes under keys.

Layout: `PIPELINE/state.json` is the plain Singer state, `PIPELINE/meta.json` what the runner
knows beside it, `PIPELINE/checkpoint.json` how far a failed run got, `PIPELINE/lock` who runs it
now, `PIPELINE/generation.json` the number of that holder, `PIPELINE/runs/RUN_ID.json` what a run
did, `PIPELINE/summary.json` the last runs together.
Invariant: state is only ever written over what was read.

Documents of our own carry the number of their `schema`, which is taken off again when they are
read. `state.json` is the tap's and carries none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, NoReturn, final

import msgspec

from singer_spark import exact_json
from singer_spark.errors import SettingsError, StateError
from singer_spark.storage.objects import ConflictError, Expect, ObjectStore, Stored, tag_of
from singer_spark.storage.open import open_objects

PIPELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")  # as Meltano's state ids, too
SCHEMA = 1  # of meta, run records, summaries; raised when an older version would misread them


class DamagedError(StateError):
    """A document is not what belongs there. Repair it, or delete it."""

    def __init__(self, place: str, key: str) -> None:
        name, _, file = key.partition("/")
        ways = "repair it, or delete it to start without it"
        if file == "generation.json":
            ways = (
                f"take over what the tables have (singer-spark state recover {name}), or give the "
                f"state (singer-spark state set {name} FILE)"
            )
        elif file in ("state.json", "meta.json"):
            ways = (
                f"give another (singer-spark state set {name} FILE), or start without it "
                f"(singer-spark state delete {name})"
            )
        super().__init__(f"{place} is damaged (not the JSON object that belongs there); {ways}")


class NewerSchemaError(StateError):
    """A newer singer-spark wrote this. Upgrade this one."""

    def __init__(self, place: str, schema: object) -> None:
        super().__init__(
            f"{place} was written by a newer singer-spark (schema {schema}, known here is "
            f"{SCHEMA}); upgrade with: pip install --upgrade singer-spark"
        )


def key_of(name: str, file: str) -> str:
    """Name a pipeline's document; an unsafe name reaches no file."""
    if not PIPELINE_NAME.fullmatch(name):
        raise SettingsError(
            "name: a pipeline's name holds letters, digits, '.', '_', ':' and '-' only "
            "and starts with a letter or a digit"
        )
    return f"{name}/{file}"


@final
class Documents:
    """JSON objects under keys."""

    def __init__(self, objects: ObjectStore) -> None:
        self.objects = objects

    def write(self, key: str, value: Mapping[str, Any], expected: str | Expect) -> str:
        """Write a document over the expected version and return the new tag."""
        try:
            text = exact_json.dumps(value, indent=2)
        except (TypeError, ValueError) as error:
            raise StateError(
                f"{self.objects.locate(key)}: the state holds a value that JSON cannot carry; "
                "look at the bookmarks that the tap writes"
            ) from error
        return self.objects.write(key, text.encode() + b"\n", expected)

    def write_own(self, key: str, value: Mapping[str, Any], expected: str | Expect) -> str:
        """Write a document of our own, with its schema."""
        return self.write(key, {"schema": SCHEMA, **value}, expected)

    def parse(self, key: str, stored: Stored | None) -> dict[str, Any]:
        """Read what is stored as a JSON object; nothing stored is an empty one."""
        try:
            value = {} if stored is None else exact_json.loads(stored.body)
        except ValueError:
            value = None
        return value if isinstance(value, dict) else self.refuse(key)

    def parse_own(self, key: str, stored: Stored | None) -> dict[str, Any]:
        """Read a document of our own; one of a newer schema is refused rather than misread."""
        value = self.parse(key, stored)
        schema = value.pop("schema", SCHEMA)
        if not isinstance(schema, int):
            self.refuse(key)
        if schema > SCHEMA:
            raise NewerSchemaError(self.objects.locate(key), schema)
        return value

    def refuse(self, key: str) -> NoReturn:
        """Tell that a document is damaged."""
        raise DamagedError(self.objects.locate(key), key)


_KIND = "singer_spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A failed run."""

    # The last state that its target has committed to, or the one that it began from.
    state: Mapping[str, Any]
    mode: str = "incremental"  # its mode: `full`, `refresh` or `incremental`
    streams: tuple[str, ...] = ()  # the streams that `--refresh` named
    reload: frozenset[str] = frozenset()  # the streams whose rows it loaded afresh; `*` is each one
    # The digest of the stored state that it leads on from; None where nobody knows.
    base: str | None = None
    # The source and the tables that `state` belongs to, as `meta.json` keeps them.
    belongs: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Checkpoint:
        """Read a document; ValueError where it is none of ours."""
        kind, state = value.get(_KIND), value.get("state")
        if not isinstance(kind, Mapping) or not isinstance(state, Mapping):
            return cls(state=value)
        if not {"mode", "streams", "reload"} <= kind.keys():
            raise ValueError("not a checkpoint")
        return msgspec.convert({**kind, "state": state}, cls)

    def to_dict(self) -> dict[str, Any]:
        """Write the document."""
        kind = {name: getattr(self, name) for name in ("mode", "base", "belongs", "streams")}
        return {_KIND: {**kind, "reload": sorted(self.reload)}, "state": self.state}


CHECKPOINT = "checkpoint.json"


class Version(NamedTuple):
    """The tags of the two objects that make a pipeline's state."""

    state: str | Expect = Expect.ABSENT
    meta: str | Expect = Expect.ABSENT


@dataclass(frozen=True, slots=True)
class PipelineState:
    """What is known of a pipeline between two runs; `watermark` is its Singer state."""

    pipeline_name: str
    watermark: Mapping[str, Any] = field(default_factory=dict)
    last_run_id: str | None = None
    last_run_at: str | None = None
    run_count: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    # Travels through dataclasses.replace, so that `save` knows what this state was made from.
    version: Version | None = field(default=None, compare=False, repr=False, kw_only=True)

    def to_dict(self) -> dict[str, Any]:
        """Give the state as plain JSON values."""
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.compare}
        return {**values, **{name: dict(values[name]) for name in ("watermark", "metadata")}}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PipelineState:
        """Build the state from what `to_dict` gave; keys that are missing have their defaults."""
        return cls(
            pipeline_name=values["pipeline_name"],
            watermark=dict(values.get("watermark") or {}),
            last_run_id=values.get("last_run_id"),
            last_run_at=values.get("last_run_at"),
            run_count=int(values.get("run_count") or 0),
            metadata=dict(values.get("metadata") or {}),
        )


@final
class StateStore:
    """State by pipeline, kept in any object store."""

    def __init__(self, objects: ObjectStore) -> None:
        self.objects = objects
        self.documents = Documents(objects)
        self._seen: dict[str, Version] = {}

    def get(self, name: str) -> PipelineState | None:
        """Read a pipeline's state; None where the pipeline is unknown."""
        state_key, meta_key = key_of(name, "state.json"), key_of(name, "meta.json")
        state, meta = self.objects.read(state_key), self.objects.read(meta_key)
        self._seen[name] = Version(tag_of(state), tag_of(meta))
        if state is None and meta is None:
            return None
        watermark = self.documents.parse(state_key, state)
        known = self.documents.parse_own(meta_key, meta)
        try:
            found = PipelineState.from_dict({**known, "pipeline_name": name})
        except (TypeError, ValueError):
            self.documents.refuse(meta_key)
        return replace(found, watermark=watermark, version=self._seen[name])

    def save(self, state: PipelineState) -> PipelineState:
        """Store a state over the version it was made from, else over what this store last read."""
        name = state.pipeline_name
        version = state.version or self._seen.get(name, Version())
        tag = version.state
        if state.watermark or tag is not Expect.ABSENT:
            tag = self.documents.write(key_of(name, "state.json"), state.watermark, tag)
        key, known = key_of(name, "meta.json"), state.to_dict()
        del known["pipeline_name"], known["watermark"]
        try:
            meta = self.documents.write_own(key, known, version.meta)
        except ConflictError as error:
            if tag == version.state:
                raise
            raise StateError(
                f"{self.objects.locate(key)} was changed by someone else since it was read and is "
                f"left as it is, but the new state is stored; look for another run: singer-spark "
                f"runs {name}"
            ) from error
        self._seen[name] = Version(tag, meta)
        return replace(state, version=self._seen[name])

    def delete(self, name: str) -> None:
        """Forget a pipeline's state; an unknown pipeline is no error."""
        for file in ("state.json", CHECKPOINT, "meta.json"):
            self.objects.delete(key_of(name, file))
        self._seen.pop(name, None)

    def list_pipelines(self) -> list[str]:
        """List the pipelines that have a state, sorted."""
        marks = {"state.json", "meta.json"}
        return [name for name in self.list_names() if marks & set(self.objects.list(name))]

    def list_names(self) -> list[str]:
        """List every pipeline of which anything is kept, be it only its history; one request."""
        folders = [entry[:-1] for entry in self.objects.list("") if entry.endswith("/")]
        return sorted(folder for folder in folders if PIPELINE_NAME.fullmatch(folder))

    def read_checkpoint(self, name: str) -> Checkpoint | None:
        """Read how far a failed run got; None where there is no such run."""
        key = key_of(name, CHECKPOINT)
        stored = self.objects.read(key)
        if stored is None:
            return None
        try:
            return Checkpoint.from_dict(self.documents.parse(key, stored))
        except ValueError:
            self.documents.refuse(key)

    def save_checkpoint(self, name: str, reached: Checkpoint | Mapping[str, Any]) -> None:
        """Keep how far a failed run got; a plain Singer state is one of an incremental run."""
        value = reached.to_dict() if isinstance(reached, Checkpoint) else reached
        self.documents.write(key_of(name, CHECKPOINT), value, Expect.ANYTHING)

    def delete_checkpoint(self, name: str) -> None:
        """Drop the checkpoint of an earlier failure."""
        self.objects.delete(key_of(name, CHECKPOINT))


def create_state_store(url_or_config: str | os.PathLike[str] | Mapping[str, Any]) -> StateStore:
    """Open the store that a folder's path, a URL or a mapping describes."""
    return StateStore(open_objects(url_or_config))
