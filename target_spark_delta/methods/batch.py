"""The rows of one segment on their way into a table, and what is known of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from target_spark_delta.options import StreamSettings
from target_spark_delta.spool import KeyFacts
from target_spark_delta.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Typed rows, in any order, that a load method writes.

    Args:
        rows: The rows, with their line numbers and the properties that they carry.
        count: How many there are.
        columns: The columns to write.
        always: The columns that each row carries even where it is partial.
        keys: The key columns; none where the stream has no key.
        facts: What is known of the keys, if spooling has noted it.
        table: Where the rows go.
        schema: The table's schema.
        is_new: Whether the table was made for this batch and has no rows.
        is_partial: Whether some rows carry only some of their columns.
        removes: Whether some rows are deletions that remove what they name.
        skip_unchanged: Whether rows that are equal are left alone.
        options: What the user chose for the stream.
    """

    rows: DataFrame
    count: int
    columns: Sequence[str]
    always: Collection[str]
    keys: Sequence[str]
    facts: KeyFacts | None
    table: Table
    schema: T.StructType
    is_new: bool
    is_partial: bool
    removes: bool
    skip_unchanged: bool
    options: StreamSettings
