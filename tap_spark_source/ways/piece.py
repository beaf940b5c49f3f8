"""What every way of reading yields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tap_spark_source.again import Again, Below

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Rows that are written together, and the stream's bookmark that is true after them.

    The rows are columns, or with `are_texts` the JSON of the records in the column `record`.
    `version` is that of a numbered load, which the last piece makes the current one. Rows
    `below_bookmark` are read once more, for those among them that came late; `below` counts them
    where they are among others. `again` adds up what the next window would read once more, where
    that is known.
    """

    bookmark: Mapping[str, Any]
    frame: DataFrame | None = None
    are_texts: bool = False
    version: int | None = None
    is_last: bool = False
    below_bookmark: bool = False
    again: Again | None = None
    below: Below | None = None
