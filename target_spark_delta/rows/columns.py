"""The columns of a batch: those that the SCHEMA declares, and those that the target adds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pyspark.sql import types as T

from target_spark_delta.intake.validation import DELETED_AT

HISTORY_COLUMNS = VALID_FROM, VALID_TO, IS_CURRENT = "valid_from", "valid_to", "is_current"
# What tells a record's time, first to last, where `dedupe_by` does not.
HISTORY_TIMES = ("_sdc_extracted_at", "_sdc_received_at", "_sdc_batched_at")
# What must be read of a record beside its columns, whether or not the table keeps it.
HISTORY_NEEDS = (*HISTORY_TIMES, DELETED_AT)
TABLE_VERSION = "_sdc_table_version"
METADATA: dict[str, T.DataType] = {
    "_sdc_extracted_at": T.TimestampType(),
    "_sdc_received_at": T.TimestampType(),
    "_sdc_batched_at": T.TimestampType(),
    DELETED_AT: T.TimestampType(),
    "_sdc_sequence": T.LongType(),
    TABLE_VERSION: T.LongType(),
    "_sdc_run_id": T.StringType(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What the columns of a batch are."""

    declared: T.StructType  # the columns that the stream's schema declares, with their types
    metadata: Sequence[str]  # the `_sdc_*` columns that are added
    table: T.StructType  # the table's schema, which has all of them
    run_id: str  # the run, for `_sdc_run_id`
    batched_at: str  # now, for `_sdc_batched_at`; one value, so that a repeated read is the same
    # Whether the time of a deletion counts, even if the table does not keep it.
    dates_deletions: bool = False
    partition_by: Collection[str] = ()  # the columns of the table's partitions

    @property
    def columns(self) -> list[str]:
        """Name the columns of the batch."""
        return [*self.declared.names, *self.metadata]


def history_columns(declared: T.StructType, dedupe_by: str | None) -> list[T.StructField]:
    """Return the columns that the table has beside those of the stream."""
    time = declared[dedupe_by].dataType if dedupe_by in declared.names else T.TimestampType()
    return [
        T.StructField(VALID_FROM, time),
        T.StructField(VALID_TO, time),
        T.StructField(IS_CURRENT, T.BooleanType()),
    ]
