"""Whether and how a stream is compared with what it held before, as the settings say. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from singer_spark.errors import SettingsError
from singer_spark.text import parse_duration
from tap_spark_source.settings import Settings
from tap_spark_source.table import Column, Table

# Parameters of a JDBC URL that say where the tables are; all others say how to get there.
_PLACES = ("database", "databasename", "db", "schema", "currentschema", "servicename", "catalog")


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Of which source keys are, and how they are written: keys of another form do not compare."""

    source: str
    key: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Write the form as it is kept beside the keys."""
        return {"source": self.source, "key": list(self.key)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A comparison by keys or by whole rows, and the seconds between two of them."""

    mode: str
    path: str
    form: Form
    every: int = 0


def plan_snapshot(
    table: Table, settings: Settings, *, key_properties: Sequence[str]
) -> Snapshot | None:
    """Read the options of a table's stream."""
    stream, path = table.stream, settings.snapshot_path
    options = settings.of_stream(stream)
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
    keys = [column for column in map(table.column, key_properties) if column]
    written = tuple(_written(column, as_text=settings.singer_decimal) for column in keys)
    form = Form(source=source_of(settings.url), key=written)
    return Snapshot(mode=mode, path=path, form=form, every=seconds)


def _written(column: Column, *, as_text: bool) -> str:
    """Name a column and what its JSON depends on; a wider type of the same texts is the same."""
    if column.is_integer:
        return f"{column.name} integer"
    if scale := re.fullmatch(r"decimal\(\d+,(\d+)\)", column.datatype):
        return f"{column.name} decimal of scale {scale[1]}{' as text' if as_text else ''}"
    return f"{column.name} {column.datatype}"


def source_of(url: str) -> str:
    """Return what tells a source from others: a hash of where it is, without who asks it how."""
    place, *options = re.split("[?;&]", url)
    named = (option for option in options if option.partition("=")[0].lower() in _PLACES)
    # Who logs in stands before an @; Oracle writes it without slashes.
    place = re.sub(r"//[^@/]*@", "//", re.sub(r":thin:[^@]*@", ":thin:", place)).rstrip("/")
    return hashlib.sha256(";".join([place, *sorted(named)]).encode()).hexdigest()[:16]
