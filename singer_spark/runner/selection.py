"""Choosing streams in a discovered catalog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from singer_spark.errors import ProtocolError
from singer_spark.names import chosen_names
from singer_spark.pipeline import Pipeline


def may_read(pipeline: Pipeline, stream: str) -> bool:
    """Say whether a run of our tap reads a stream, as far as the settings tell."""
    config, selected = pipeline.tap.config, pipeline.streams
    if selected and not _is_chosen(stream, selected):
        return False
    patterns = config.get("tables")
    if not isinstance(patterns, list) or str(config.get("source_url")).startswith("kafka:"):
        return True  # topics have longer names
    # A table `schema.name` is the stream `schema-name`.
    dashes = [at for at, char in enumerate(stream) if char == "-"]
    labels = [stream, *(f"{stream[:at]}.{stream[at + 1 :]}" for at in dashes)]
    return any(_is_chosen(label, map(str, patterns)) for label in labels)


def _is_chosen(name: str, wanted: Iterable[str]) -> bool:
    return any(name == one or fnmatchcase(name, one) for one in wanted)


def select_streams(catalog: Any, wanted: Sequence[str]) -> dict[str, Any]:
    """Mark the wanted streams of a catalog as selected, with all their columns, and no others."""
    chosen = chosen_ids(catalog, wanted)
    streams = [_mark(entry, _stream_id(entry) in chosen) for entry in catalog["streams"]]
    return {**catalog, "streams": streams}


def chosen_ids(catalog: Any, wanted: Sequence[str]) -> list[str]:
    """List the streams that names or shell patterns choose; without any, those that are advised."""
    known = stream_ids(catalog)
    return chosen_names(known, wanted) if wanted else _advised(known, catalog)


def stream_ids(catalog: Any) -> list[str]:
    """List the streams of a catalog."""
    if not isinstance(catalog, dict) or not isinstance(catalog.get("streams"), list):
        raise ProtocolError("the tap's --discover printed no catalog; try it by hand")
    return [_stream_id(entry) for entry in catalog["streams"]]


def key_properties(entry: Mapping[str, Any]) -> list[str]:
    """Name the columns that a catalog's entry says are the key."""
    known = entry.get("key_properties") or _root(entry).get("table-key-properties")
    return list(map(str, known)) if isinstance(known, list) else []


def _advised(ids: Sequence[str], catalog: Mapping[str, Any]) -> list[str]:
    """Leave out the streams that the tap itself advises against."""
    entries = zip(ids, catalog["streams"], strict=True)
    return [name for name, entry in entries if _root(entry).get("selected-by-default", True)]


def _root(entry: Mapping[str, Any]) -> dict[str, Any]:
    nodes = entry.get("metadata") or []
    facts = [node.get("metadata") or {} for node in nodes if not node.get("breadcrumb")]
    return {key: value for known in facts for key, value in known.items()}


def _stream_id(entry: Mapping[str, Any]) -> str:
    return str(entry.get("tap_stream_id") or entry.get("stream"))


def _mark(entry: Mapping[str, Any], selected: bool) -> dict[str, Any]:
    nodes: list[dict[str, Any]] = entry.get("metadata") or []
    marked = {"breadcrumb": [], "metadata": {**_root(entry), "selected": selected}}
    columns = [node for node in nodes if node.get("breadcrumb")]
    if selected:
        columns = [_mark_column(node) for node in columns]
    flag = {"selected": selected} if "selected" in entry else {}
    return {**entry, **flag, "metadata": [marked, *columns]}


def _mark_column(node: Mapping[str, Any]) -> dict[str, Any]:
    """Select a column unless the tap advises against it: many taps send only what is marked."""
    facts = node.get("metadata") or {}
    advised = facts.get("inclusion") != "unsupported" and facts.get("selected-by-default", True)
    return {**node, "metadata": {"selected": bool(advised), **facts}}
