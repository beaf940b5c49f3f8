"""By what source and tables are known again, kept beside the state that they belong to.

A state is true of one source and of the tables that it was loaded into. `meta.json` keeps both,
under `source` and `tables`, so that a state never goes on with others unnoticed; so does the
checkpoint of a failed run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from singer_spark.assignment import EVERY_STREAM, TableIdentity
from singer_spark.protocol import bookmarked, late_of
from singer_spark.state.change import SOURCE, TABLES, is_filled_by


class Identities(NamedTuple):
    """What tap and target have reported of themselves.

    `claimed` are the streams whose tables were claimed, `reached` the bookmarks of those whose
    tables have rows of a failed run, which the runner did not know. `has_written` says that our
    target has begun to commit rows, `is_outnumbered` that a table has higher numbers than the run.
    """

    source: Mapping[str, Any] | None = None
    tables: Mapping[str, Mapping[str, Any]] = {}
    claimed: Collection[str] = ()
    reached: Mapping[str, Any] = {}
    has_written: bool = False
    is_outnumbered: bool = False


NOTHING = Identities()


def known_tables(belongs: Mapping[str, Any]) -> dict[str, TableIdentity]:
    """Read the tables that are kept; what is none of ours is passed over."""
    kept = belongs.get(TABLES)
    found: dict[str, TableIdentity] = {}
    for stream, values in kept.items() if isinstance(kept, Mapping) else ():
        with suppress(ValueError, AttributeError):
            found[stream] = TableIdentity.from_dict(values)
    return found


def known_source(belongs: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Read the source that is kept."""
    source = belongs.get(SOURCE)
    return source if isinstance(source, Mapping) else None


def known_identities(
    belongs: Mapping[str, Any],
    state: Mapping[str, Any],
    reload: frozenset[str],
    *,
    renamed: bool = False,
) -> tuple[Mapping[str, Any] | None, dict[str, TableIdentity]]:
    """Return the source and the tables that a run must find again.

    A stream without a bookmark is read whole, and one that is loaded afresh may have another table.
    All bookmarks of a state are of one source, whether their streams are read in this run or not.

    Args:
        belongs: What is known.
        state: The state that the run begins from.
        reload: The streams that are loaded afresh.
        renamed: Whether streams may have other names than their bookmarks.
    """
    if EVERY_STREAM in reload or not bookmarked(state) - reload:
        return None, {}
    known, held = known_tables(belongs), _held(belongs, state, reload, renamed=renamed)
    tables = {name: one for name, one in known.items() if (one.state_of or name) in held}
    for name, one in known.items():
        # Late rows are read again with all others of their stream only.
        if name not in tables and (origin := late_of(name)) in held:
            tables[name] = replace(one, state_of=origin)
    return known_source(belongs), tables


def _held(
    belongs: Mapping[str, Any], state: Mapping[str, Any], reload: frozenset[str], *, renamed: bool
) -> frozenset[str]:
    """Name the streams that go on from a bookmark, be it one of another name."""
    held = bookmarked(state) - reload
    if not renamed:
        return held
    named = {*(state.get("bookmarks") or state)} | reload
    streams = {one.state_of or name for name, one in known_tables(belongs).items()}
    return held | {one for one in streams if not {one, late_of(one)} & named}


def without_left_out(belongs: Mapping[str, Any], found: Identities) -> dict[str, Any]:
    """Forget tables that a run, which has succeeded, left out while it filled their siblings.

    They lack its rows. If they are filled again they are refused, as tables of a new name are.
    """
    known = known_tables(belongs)
    filled = {one.get("state_of") or name for name, one in found.tables.items()}
    gone = {name for name, one in known.items() if (one.state_of or name) in filled}
    tables = {name: one.to_dict() for name, one in known.items() if name not in gone}
    return {**belongs, TABLES: tables}


def with_identities(
    belongs: Mapping[str, Any],
    state: Mapping[str, Any],
    found: Identities,
    reload: frozenset[str] = frozenset(),
    *,
    renamed: bool = False,
) -> dict[str, Any]:
    """Lay what a run found over what was known.

    Streams that are gone are forgotten, and what was loaded afresh belongs to what was found only.
    """
    kept = belongs.get(TABLES)
    known = kept if isinstance(kept, Mapping) and EVERY_STREAM not in reload else {}
    held = _held(belongs, state, reload, renamed=renamed)
    tables = {name: one for name, one in known.items() if is_filled_by(held, name, one)}
    tables |= found.tables
    before = None if EVERY_STREAM in reload else known_source(belongs)
    source = found.source or before
    if (
        source
        and before
        and source.get("id") is None
        and source.get("place") == before.get("place")
    ):
        source = before  # whose id could not be asked for this time
    return ({SOURCE: source} if source else {}) | ({TABLES: tables} if tables else {})
