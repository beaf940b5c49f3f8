"""What is known of a topic and of some of its events, before they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tap_spark_source.sources import connect, debezium

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Offsets = Mapping[str, int]
Fields = tuple[connect.Field, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the events of one topic look like; the user may have given it."""

    fields: Fields
    keys: tuple[str, ...]
    is_given: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What some events look like.

    `schemas` are the columns that the events of a partition have from an offset on, `orphans` the
    tombstones that no deletion precedes.
    """

    schemas: Mapping[str, Sequence[tuple[int, Fields]]]
    orphans: DataFrame | None = None


def label_of(topic: str) -> str:
    """Name the table of a topic: what follows the connector's prefix."""
    return topic.partition(".")[2] or topic


def read_events(events: DataFrame) -> list[debezium.Event]:
    """Fetch a few events."""
    texts = events.selectExpr("cast(key as string) as key", "cast(value as string) as value")
    rows: list[dict[str, Any]] = texts.toArrow().to_pylist()
    return [event for row in rows if (event := debezium.read_event(row["key"], row["value"]))]
