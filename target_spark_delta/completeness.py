"""Does a load method fit what the tap read? A part is never taken for the whole."""

from __future__ import annotations

import logging

from singer_spark.errors import SettingsError
from singer_spark.protocol import CHANGES_ONLY, RANGE, Scope
from target_spark_delta.destination import Destination

logger = logging.getLogger(__name__)


def check_completeness(destination: Destination) -> None:
    """Refuse a stream whose rows would take the place of rows that the tap did not read.

    Raises:
        SettingsError: Another load method is needed, or a whole read.
    """
    scope = destination.scope
    if scope is None:
        return
    problem = _lost_by(destination, scope) or _doubled_by(destination, scope)
    if problem:
        raise SettingsError(f"stream {destination.stream}: {problem}")


def warn_of_repetition(destination: Destination, *, remembers: bool) -> None:
    """Say once that what a stream sends again is there twice, where nothing can prevent it.

    Args:
        destination: The stream's.
        remembers: Whether a store remembers the runs that fail.
    """
    by_name = destination.options.load_method == "append-only"
    if not destination.appends:
        return
    if destination.scope is not None:
        follows = destination.scope.why == CHANGES_ONLY and not destination.bookmarks
        if follows and not remembers:
            logger.warning(
                "Stream %s has no key and nothing remembers runs that fail, so rows that one has "
                "committed are appended again; set key_properties in stream_options, or keep the "
                "state in a store: singer-spark run",
                destination.stream,
            )
        return
    if destination.bookmarks and destination.bookmarks[0] not in destination.declared.names:
        logger.warning(
            "Stream %s: its bookmark %s is no column, so rows that are sent again are appended "
            "again",
            destination.stream,
            destination.bookmarks[0],
        )
    elif not destination.bookmarks and not by_name:
        logger.warning(
            "Stream %s has no key and its tap names no bookmark, so rows that are sent again are "
            "appended again; set key_properties, or load_method overwrite, in stream_options",
            destination.stream,
        )


def _lost_by(destination: Destination, scope: Scope) -> str | None:
    """Say what a method that replaces rows would lose."""
    method, column = destination.options.load_method, destination.options.range_column
    if scope.is_whole or not (destination.replaces_parts or destination.overwrites):
        return None
    if method == "delete-insert":
        if scope.rows == RANGE and scope.column == column:
            return None
        return (
            f"delete-insert by {column} needs a whole read, or one by {column}, and this one is "
            f"limited ({_limit(scope)}); set range_column to the replication key, or remove it"
        )
    fitting = "upsert" if destination.keys else "append-only"
    if scope.rows == RANGE:
        fitting += f" or delete-insert with range_column: {scope.column}"
    return (
        f"{method} would replace rows that were not read, because the read is limited "
        f"({_limit(scope)}); set load_method {fitting}, or read the table whole"
    )


def _doubled_by(destination: Destination, scope: Scope) -> str | None:
    """Say what would be there twice after the next run."""
    if not destination.appends:
        return None
    if destination.bookmarks:
        if destination.bookmarks[0] in destination.declared.names:
            return None
        return (
            f"its replication key {destination.bookmarks[0]} does not arrive as a column, so rows "
            "that are sent again cannot be told apart; keep it in stream_maps, or set "
            "key_properties in stream_options"
        )
    if destination.options.load_method == "append-only" or scope.why == CHANGES_ONLY:
        return None
    return (
        f"without a key and without a replication key every run of a limited read ({_limit(scope)})"
        " appends its rows again; set key_properties or load_method append-only in stream_options, "
        "or read the table whole"
    )


def _limit(scope: Scope) -> str:
    """Name what limits a read."""
    return f"by {scope.column}" if scope.rows == RANGE else scope.why or "to a part"
