"""Changing a stored state by hand, which a run in progress must not notice too late."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

from singer_spark.bookmark import PROGRESS_MARKERS
from singer_spark.errors import StateError
from singer_spark.state.base import PipelineState, StateStore
from singer_spark.state.lock import locked


def parse_state(text: str | bytes, where: str) -> dict[str, Any]:
    """Read a Singer state, which is a JSON object; `where` names it in the error."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise StateError(
            f"{where} is no Singer state: it must be a JSON object such as "
            '{"bookmarks": {}}. Nothing was changed'
        )
    return value


def move_bookmark(watermark: Mapping[str, Any], stream: str, value: str) -> dict[str, Any]:
    """Give the state with one stream's bookmark at another point; the rest of it stays."""
    bookmarks = watermark.get("bookmarks")
    known = bookmarks if isinstance(bookmarks, Mapping) else {}
    bookmark = known.get(stream)
    if not isinstance(bookmark, Mapping) or "replication_key_value" not in bookmark:
        movable = [
            name
            for name, one in known.items()
            if isinstance(one, Mapping) and "replication_key_value" in one
        ]
        raise StateError(
            f"{stream} has no bookmark that can be moved; there are "
            f"{', '.join(movable) or 'none'}. Run the pipeline once, or give the whole state in a "
            "file. Nothing was changed"
        )
    # What a run had begun from the old point is of no use from the new one.
    kept = {key: one for key, one in bookmark.items() if key != PROGRESS_MARKERS}
    moved = _like(bookmark["replication_key_value"], value, stream)
    return {**watermark, "bookmarks": {**known, stream: {**kept, "replication_key_value": moved}}}


def _like(old: Any, value: str, stream: str) -> Any:
    """Read a value as the old one is: as a text, a number or a list."""
    if old is None or isinstance(old, str):
        return value
    try:
        new = json.loads(value)
    except ValueError:
        new = None
    if type(new) is type(old) or (type(old) is float and type(new) is int):
        return new
    raise StateError(
        f"{stream}: {value} is not of the kind of its bookmark, which is {json.dumps(old)}; "
        "give one like it. Nothing was changed"
    )


def replace_state(store: StateStore, before: PipelineState, watermark: Mapping[str, Any]) -> None:
    """Store another state over the one that was read, while no run is active."""
    with locked(store, before.pipeline_name):
        store.save(replace(before, watermark=watermark))
        # It led on from the old state.
        store.delete_checkpoint(before.pipeline_name)


def delete_state(store: StateStore, name: str) -> None:
    """Forget a pipeline's state, while no run is active; its history stays."""
    with locked(store, name):
        store.delete(name)


def _refuse_constant(_name: str) -> NoReturn:
    raise ValueError("NaN and the infinities are not JSON")
