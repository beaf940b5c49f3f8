"""Changing a stored state by hand, which a run in progress must not notice too late."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from singer_spark import exact_json
from singer_spark.errors import StateError
from singer_spark.protocol import AT_BOOKMARK, PROGRESS_MARKERS, late_of
from singer_spark.state.generation import accept_attempts, forget_attempts, settle_attempts
from singer_spark.state.lock import Say, locked
from singer_spark.state.store import PipelineState, StateStore

# What meta.json knows of the source and the tables that a state belongs to.
SOURCE, TABLES = "source", "tables"


def parse_state(text: str | bytes, where: str) -> dict[str, Any]:
    """Read a Singer state, which is a JSON object; `where` names it in the error."""
    try:
        value = exact_json.loads(text, most=exact_json.STATE_LEVELS)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise StateError(
            f"{where} is no Singer state: it must be a JSON object such as "
            '{"bookmarks": {}}. Nothing was changed'
        )
    return value


def is_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Say whether two states are the same, digit by digit; equal doubles may differ."""
    return exact_json.canonical(one) == exact_json.canonical(other)


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
    stale = (PROGRESS_MARKERS, AT_BOOKMARK)
    kept = {key: one for key, one in bookmark.items() if key not in stale}
    moved = _like(bookmark["replication_key_value"], value, stream)
    return {**watermark, "bookmarks": {**known, stream: {**kept, "replication_key_value": moved}}}


def _like(old: Any, value: str, stream: str) -> Any:
    """Read a value as the old one is: as a text, a number or a list."""
    if old is None or isinstance(old, str):
        return value
    try:
        new = exact_json.loads(value)
    except ValueError:
        new = None
    if type(new) is type(old) or (isinstance(old, float) and type(new) in (int, exact_json.Float)):
        return new
    raise StateError(
        f"{stream}: {value} is not of the kind of its bookmark, which is {exact_json.dumps(old)}; "
        "give one like it. Nothing was changed"
    )


def replace_state(
    store: StateStore,
    before: PipelineState,
    watermark: Mapping[str, Any],
    say: Say = lambda _: None,
    *,
    streams: Collection[str] | None = None,
) -> None:
    """Store another state over the one that was read, while no run is active.

    With `streams` their bookmarks alone are new; the others stay what they are. `say` is told what
    is waited for.
    """
    name = before.pipeline_name
    with locked(store, name, say):
        store.save(replace(_without_identity(before, streams), watermark=watermark))
        store.delete_checkpoint(name)
        if streams is None:
            forget_attempts(store, name)
        else:
            settle_attempts(store, name, before.watermark, watermark, streams)


def accept_state(store: StateStore, before: PipelineState, say: Say = lambda _: None) -> None:
    """Let the state, and what failed runs left, belong to what the next run finds."""
    name = before.pipeline_name
    with locked(store, name, say):
        accepted = _without_identity(before)
        if accepted != before:
            store.save(accepted)
        failed = store.read_checkpoint(name)
        if failed and failed.belongs:
            store.save_checkpoint(name, replace(failed, belongs={}))
        accept_attempts(store, name)


def delete_state(store: StateStore, name: str, say: Say = lambda _: None) -> None:
    """Forget a pipeline's state, while no run is active; its history stays."""
    with locked(store, name, say):
        store.delete(name)
        forget_attempts(store, name)


def _without_identity(
    state: PipelineState, streams: Collection[str] | None = None
) -> PipelineState:
    """Return the state without what it belongs to, or without the tables of some streams."""
    kept = {key: one for key, one in state.metadata.items() if key not in (SOURCE, TABLES)}
    if streams is not None:
        kept = without_tables(state.metadata, streams)
    return replace(state, metadata=kept)


def without_tables(belongs: Mapping[str, Any], streams: Collection[str]) -> dict[str, Any]:
    """Return what a state belongs to without the tables that some streams fill."""
    tables = belongs.get(TABLES)
    others = {
        name: one
        for name, one in (tables.items() if isinstance(tables, Mapping) else ())
        if not is_filled_by(streams, name, one)
    }
    kept = {key: one for key, one in belongs.items() if key != TABLES}
    return kept | ({TABLES: others} if others else {})


def is_filled_by(streams: Collection[str], name: str, table: Any) -> bool:
    """Say whether one of these streams of the tap fills a table, be it with its late rows."""
    of = (table.get("state_of") if isinstance(table, Mapping) else None) or name
    return of in streams or late_of(of) in streams
