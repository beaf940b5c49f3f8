"""Identifiers: quoted for Spark SQL, folded into table names, checked for clashes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from singer_spark.errors import SettingsError


def quote(name: str) -> str:
    """Quote one identifier for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def quote_path(*parts: str) -> str:
    """Quote a nested identifier such as catalog.schema.table."""
    return ".".join(quote(part) for part in parts)


def literal(text: str) -> str:
    """Quote a text as a Spark SQL string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def names_variable(name: str) -> bool:
    """Say whether Hadoop, which carries the names of Parquet columns, would replace a part of one.

    It puts a setting, or a variable of Java, in the place of `${...}`: secrets among them.
    """
    return "${" in name


def table_name(stream: str) -> str:
    """Fold a stream's name into a table's: what is no letter, digit or underscore becomes one."""
    return re.sub(r"[^A-Za-z0-9_]", "_", stream)


def chosen_names(known: Collection[str], wanted: Iterable[str]) -> list[str]:
    """List the known names that names or shell patterns choose; each has to choose one."""
    found = {
        one: [name for name in known if name == one or fnmatchcase(name, one)] for one in wanted
    }
    if unknown := sorted(one for one, names in found.items() if not names):
        raise SettingsError(
            f"source.streams: the source offers no {', '.join(unknown)}; "
            f"available: {', '.join(sorted(known)) or 'none'}"
        )
    return list(dict.fromkeys(name for names in found.values() for name in names))


def case_clashes(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Find the names that differ only by case, which Spark cannot tell apart."""
    folded: dict[str, list[str]] = defaultdict(list)
    for name in names:
        folded[name.lower()].append(name)
    return [tuple(group) for group in folded.values() if len(group) > 1]


def merged_options(name: str, options: Mapping[str, Mapping[str, Any]] | None) -> dict[str, Any]:
    """Gather the options of every shell pattern that matches; of each key the last match wins."""
    merged: dict[str, Any] = {}
    for pattern, values in (options or {}).items():
        if fnmatchcase(name, pattern):
            merged |= values
    return merged


def unmatched(options: Mapping[str, Any] | None, streams: Collection[str]) -> list[str]:
    """List the shell patterns of stream_options that no stream matches, as misspelled ones."""
    patterns = options or () if streams else ()
    return [one for one in patterns if not any(fnmatchcase(stream, one) for stream in streams)]
