"""Whether and how a stream is compared with what it held before, as the settings say. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from singer_spark.duration import parse_duration
from singer_spark.errors import SettingsError


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A comparison by keys or by whole rows, and the seconds between two of them."""

    mode: str
    path: str
    every: int = 0


def plan_snapshot(stream: str, options: Mapping[str, Any], path: str | None) -> Snapshot | None:
    """Read the options of a stream."""
    mode = options.get("snapshot") or "off"
    if mode == "off":
        return None
    if not path:
        raise SettingsError(f"{stream}: snapshot {mode} needs snapshot_path, where snapshots live")
    every = options.get("snapshot_every")
    seconds = parse_duration(every) if every is not None else 0
    if seconds is None:
        raise SettingsError(
            f"{stream}: snapshot_every must be a duration with its unit, such as 6h, 30m or 90s"
        )
    return Snapshot(mode=mode, path=path.rstrip("/"), every=seconds)
