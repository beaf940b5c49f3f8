"""By what source and tables are known again, kept beside the state that they belong to.

A state is true of one source and of the tables that it was loaded into. `meta.json` keeps both,
under `source` and `tables`, so that a state never goes on with others unnoticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from singer_spark.assignment import EVERY_STREAM, TableIdentity
from singer_spark.bookmark import bookmarked
from singer_spark.state.change import SOURCE, TABLES


class Identities(NamedTuple):
    """What tap and target have reported of themselves."""

    source: Mapping[str, Any] | None = None
    tables: Mapping[str, Mapping[str, Any]] = {}


NOTHING = Identities()


def known_tables(metadata: Mapping[str, Any]) -> dict[str, TableIdentity]:
    """Read the tables that are kept; what is none of ours is passed over."""
    kept = metadata.get(TABLES)
    found: dict[str, TableIdentity] = {}
    for stream, values in kept.items() if isinstance(kept, Mapping) else ():
        with suppress(ValueError, AttributeError):
            found[stream] = TableIdentity.from_dict(values)
    return found


def known_identities(
    metadata: Mapping[str, Any], state: Mapping[str, Any], reload: frozenset[str]
) -> tuple[Mapping[str, Any] | None, dict[str, TableIdentity]]:
    """Return the source and the tables that a run must find again.

    A stream without a bookmark is read whole, and one that is loaded afresh may have another table.
    """
    if EVERY_STREAM in reload or not state:
        return None, {}
    source = metadata.get(SOURCE)
    held = bookmarked(state) - reload
    known = known_tables(metadata)
    tables = {name: one for name, one in known.items() if (one.state_of or name) in held}
    return source if isinstance(source, Mapping) else None, tables


def with_identities(
    metadata: Mapping[str, Any],
    state: Mapping[str, Any],
    found: Identities,
    reload: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """Lay what a run found over what was known.

    Streams that are gone are forgotten, and what was loaded afresh belongs to what was found only.
    """
    if EVERY_STREAM in reload:
        metadata = {key: one for key, one in metadata.items() if key not in (SOURCE, TABLES)}
    kept = metadata.get(TABLES)
    known = kept if isinstance(kept, Mapping) else {}
    held = bookmarked(state) - reload
    kept_tables = {name: one for name, one in known.items() if _fills(name, one) in held}
    tables = kept_tables | dict(found.tables)
    after = {key: value for key, value in metadata.items() if key not in (SOURCE, TABLES)}
    source = found.source or metadata.get(SOURCE)
    return after | ({SOURCE: source} if source else {}) | ({TABLES: tables} if tables else {})


def _fills(name: str, table: Any) -> str:
    """Name the stream of the tap that fills a table."""
    of = table.get("state_of") if isinstance(table, Mapping) else None
    return str(of) if of else name
