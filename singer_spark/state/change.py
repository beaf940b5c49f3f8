"""Changing a stored state by hand, which a run in progress must not notice too late."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from singer_spark import digits
from singer_spark.bookmark import PROGRESS_MARKERS
from singer_spark.errors import StateError
from singer_spark.state.base import PipelineState, StateStore
from singer_spark.state.generation import forget_attempts
from singer_spark.state.lock import locked

# What meta.json knows of the source and the tables that a state belongs to.
SOURCE, TABLES = "source", "tables"
Say = Callable[[str], None]


def _silent(_text: str) -> None:
    pass


def parse_state(text: str | bytes, where: str) -> dict[str, Any]:
    """Read a Singer state, which is a JSON object; `where` names it in the error."""
    try:
        value = digits.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise StateError(
            f"{where} is no Singer state: it must be a JSON object such as "
            '{"bookmarks": {}}. Nothing was changed'
        )
    return value


def is_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Say whether two states are the same, digit by digit; equal doubles may differ."""
    return digits.canonical(one) == digits.canonical(other)


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
        new = digits.loads(value)
    except ValueError:
        new = None
    if type(new) is type(old) or (isinstance(old, float) and type(new) in (int, digits.Float)):
        return new
    raise StateError(
        f"{stream}: {value} is not of the kind of its bookmark, which is {digits.dumps(old)}; "
        "give one like it. Nothing was changed"
    )


def replace_state(
    store: StateStore, before: PipelineState, watermark: Mapping[str, Any], say: Say = _silent
) -> None:
    """Store another state over the one that was read, while no run is active."""
    with locked(store, before.pipeline_name, say):
        store.save(replace(_without_identity(before), watermark=watermark))
        _forget(store, before.pipeline_name)


def accept_state(store: StateStore, before: PipelineState, say: Say = _silent) -> None:
    """Let the stored state belong to whatever source and tables the next run finds."""
    with locked(store, before.pipeline_name, say):
        accepted = _without_identity(before)
        if accepted != before:
            store.save(accepted)


def delete_state(store: StateStore, name: str, say: Say = _silent) -> None:
    """Forget a pipeline's state, while no run is active; its history stays."""
    with locked(store, name, say):
        store.delete(name)
        forget_attempts(store, name)


def _forget(store: StateStore, name: str) -> None:
    """Drop what led on from the state as it was: a checkpoint, the commits of failed runs."""
    store.delete_checkpoint(name)
    forget_attempts(store, name)


def _without_identity(state: PipelineState) -> PipelineState:
    kept = {key: one for key, one in state.metadata.items() if key not in (SOURCE, TABLES)}
    return replace(state, metadata=kept)
