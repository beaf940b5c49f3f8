"""The rule of the state store; backends only keep bytes under keys.

Layout: `PIPELINE/state.json` is the plain Singer state, `PIPELINE/meta.json` what the runner
knows beside it, `PIPELINE/checkpoint.json` how far a failed run got, `PIPELINE/lock` who runs it
now, `PIPELINE/generation.json` the number of that holder, `PIPELINE/runs/RUN_ID.json` what a run
did, `PIPELINE/summary.json` the last runs together.
Invariant: state is only ever written over what was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, final

from singer_spark.errors import StateError
from singer_spark.state.checkpoint import Checkpoint
from singer_spark.state.documents import PIPELINE_NAME, Documents, key_of
from singer_spark.state.objects import ConflictError, Expect, ObjectStore, Stored, tag_of

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
        meta = _meta_of(self)
        return {"pipeline_name": self.pipeline_name, "watermark": dict(self.watermark), **meta}

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
        state, meta = (
            self.objects.read(key_of(name, file)) for file in ("state.json", "meta.json")
        )
        version = Version(tag_of(state), tag_of(meta))
        self._seen[name] = version
        if state is None and meta is None:
            return None
        return PipelineState(
            name,
            watermark=self.documents.parse(key_of(name, "state.json"), state),
            **self._parse_meta(key_of(name, "meta.json"), meta),
            version=version,
        )

    def save(self, state: PipelineState) -> PipelineState:
        """Store a state over the version it was made from, else over what this store last read."""
        name = state.pipeline_name
        version = state.version or self._seen.get(name, Version())
        tag = version.state
        if state.watermark or tag is not Expect.ABSENT:
            tag = self.documents.write(key_of(name, "state.json"), state.watermark, tag)
        key = key_of(name, "meta.json")
        try:
            meta = self.documents.write_own(key, _meta_of(state), version.meta)
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

    def get_checkpoint(self, name: str) -> dict[str, Any] | None:
        """Read the last committed Singer state of a failed run."""
        found = self.read_checkpoint(name)
        return None if found is None else dict(found.state)

    def save_checkpoint(self, name: str, reached: Checkpoint | Mapping[str, Any]) -> None:
        """Keep how far a failed run got; a plain Singer state is one of an incremental run."""
        value = reached.to_dict() if isinstance(reached, Checkpoint) else reached
        self.documents.write(key_of(name, CHECKPOINT), value, Expect.ANYTHING)

    def delete_checkpoint(self, name: str) -> None:
        """Drop the checkpoint of an earlier failure."""
        self.objects.delete(key_of(name, CHECKPOINT))

    def _parse_meta(self, key: str, stored: Stored | None) -> dict[str, Any]:
        try:
            known = PipelineState.from_dict(
                {"pipeline_name": "", **self.documents.parse_own(key, stored)}
            )
        except (TypeError, ValueError):
            self.documents.refuse(key)
        return _meta_of(known)


def _meta_of(state: PipelineState) -> dict[str, Any]:
    return {
        "last_run_id": state.last_run_id,
        "last_run_at": state.last_run_at,
        "run_count": state.run_count,
        "metadata": dict(state.metadata),
    }
