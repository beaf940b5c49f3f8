"""How far a failed run got, and what kind of run it was, so that `--resume` goes on with that run.

The document holds the Singer state under `state` and all else under `singer_spark`. Earlier
versions wrote the state alone. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_KIND = "singer_spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A failed run.

    Args:
        state: The last state that its target has committed to, or the one that it began from.
        mode: Its mode: `full`, `refresh` or `incremental`.
        streams: The streams that `--refresh` named.
        reload: The streams whose rows it loaded afresh; `*` is each one.
        base: The digest of the stored state that it leads on from; None where nobody knows.
        belongs: The source and the tables that `state` belongs to, as `meta.json` keeps them.
    """

    state: Mapping[str, Any]
    mode: str = "incremental"
    streams: tuple[str, ...] = ()
    reload: frozenset[str] = frozenset()
    base: str | None = None
    belongs: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Checkpoint:
        """Read a document.

        Raises:
            ValueError: It is none of ours.
        """
        kind, state = value.get(_KIND), value.get("state")
        if not isinstance(kind, Mapping) or not isinstance(state, Mapping):
            return cls(state=value)
        try:
            streams, reload = (tuple(map(str, kind[key])) for key in ("streams", "reload"))
            return cls(
                state=state,
                mode=str(kind["mode"]),
                streams=streams,
                reload=frozenset(reload),
                base=kind.get("base"),
                belongs=dict(kind.get("belongs") or {}),
            )
        except (KeyError, TypeError) as error:
            raise ValueError("not a checkpoint") from error

    def to_dict(self) -> dict[str, Any]:
        """Write the document."""
        kind = {
            "mode": self.mode,
            "streams": list(self.streams),
            "reload": sorted(self.reload),
            "base": self.base,
            "belongs": dict(self.belongs),
        }
        return {_KIND: kind, "state": dict(self.state)}
