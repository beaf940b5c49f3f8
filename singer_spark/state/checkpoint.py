"""How far a failed run got, and what kind of run it was, so that `--resume` goes on with that run.

The document holds the Singer state under `state` and the kind of the run under `singer_spark`.
Earlier versions wrote the state alone. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
    """

    state: Mapping[str, Any]
    mode: str = "incremental"
    streams: tuple[str, ...] = ()
    reload: frozenset[str] = frozenset()

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
                state=state, mode=str(kind["mode"]), streams=streams, reload=frozenset(reload)
            )
        except (KeyError, TypeError) as error:
            raise ValueError("not a checkpoint") from error

    def to_dict(self) -> dict[str, Any]:
        """Write the document."""
        streams, reload = list(self.streams), sorted(self.reload)
        kind = {"mode": self.mode, "streams": streams, "reload": reload}
        return {_KIND: kind, "state": dict(self.state)}
