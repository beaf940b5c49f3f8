"""Where the records of one stream go, under one schema."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from pyspark.sql import types as T

from singer_spark.engine.machine import shares_disk
from singer_spark.names import table_name
from singer_spark.protocol import Scope
from target_spark_delta.intake.segments import Segment
from target_spark_delta.intake.validation import DELETED_AT
from target_spark_delta.rows.columns import HISTORY_NEEDS, METADATA, TABLE_VERSION, history_columns
from target_spark_delta.settings import Settings
from target_spark_delta.stream_options import StreamSettings
from target_spark_delta.table.ddl import Layout, Policy
from target_spark_delta.table.table import Table

# What is not the user's own: staged rows, spooled lines and, in a catalog, quarantined records.
_OURS = "_singer_spark"
# The property of a table that names what its rows are merged by.
KEY_PROPERTY = "singer_spark.key"


def waiting_folder(path: str, kind: str, pipeline: str | None) -> str:
    """Return where things wait beside the tables: those of a pipeline in a folder of their own."""
    # Not every file system takes a colon.
    names = [path.rstrip("/"), _OURS, kind, *([pipeline.replace(":", "~")] if pipeline else [])]
    return "/".join(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """A stream's table, and how its records become rows of it."""

    stream: str  # the stream's name
    declared: T.StructType  # the columns that its SCHEMA declares
    keys: tuple[str, ...]  # its key columns; none where it has no key
    options: StreamSettings  # what the user chose for the stream
    settings: Settings  # what the user chose for all
    comment: str | None = None  # what the SCHEMA says of the table
    bookmarks: tuple[str, ...] = ()  # the columns that the tap reads by, where it says
    scope: Scope | None = None  # what the tap reads of the table in this run, where it says
    reloads: bool = False  # whether the run loads the stream's rows afresh
    is_filtered: bool = False  # whether stream_maps leave records out
    is_rekeyed: bool = False  # whether they take the place of rows that were merged by another key
    pipeline: str | None = None  # whose run it is; what waits of another pipeline is not touched
    source: str | None = None  # the stream as the tap names it, where that is another name

    @property
    def read_as(self) -> str:
        """Name the stream as the tap, the state and the runner know it."""
        return self.source or self.stream

    @property
    def method(self) -> str:
        """Name the load method.

        Without a key there is nothing to upsert by: what is the whole table takes the place of
        what was, anything else is appended.
        """
        method = "overwrite" if self.is_rekeyed else self.options.load_method
        if method != "upsert" or self.keys:
            return method
        return "overwrite" if self.is_whole and not self.bookmarks else "append-only"

    @property
    def is_whole(self) -> bool:
        """Say whether the tap says that it reads every row of its table."""
        return self.scope is not None and self.scope.is_whole

    @property
    def appends(self) -> bool:
        """Say whether every record becomes a row of its own."""
        return self.method == "append-only"

    @property
    def merges(self) -> bool:
        """Say whether rows are looked for in the table by their key."""
        return bool(self.keys) and self.method in ("upsert", "delete-insert", "scd2")

    @property
    def retires(self) -> bool:
        """Say whether rows whose key does not come are gone at the source."""
        is_known = self.is_whole and not self.is_filtered
        return self.reloads and is_known and self.merges and not self.replaces_parts

    @property
    def compares_by(self) -> str | None:
        """Name the column by which appended rows are looked for in the table, None if they are not.

        Rows can be told from those that the table has only where the tap says what it reads by.
        """
        if not (self.appends and self.bookmarks and self.settings.skip_unchanged):
            return None
        return self.bookmarks[0] if self.bookmarks[0] in self.declared.names else None

    @property
    def replaces_unasked(self) -> bool:
        """Say whether rows take the table's place because they are all that the source has."""
        return self.overwrites and self.options.load_method != "overwrite"

    @property
    def merges_by(self) -> tuple[str, ...]:
        """Name the key that rows of the table are found by; none where they are not."""
        return self.keys if self.is_rekeyed or not (self.appends or self.overwrites) else ()

    @property
    def overwrites(self) -> bool:
        """Say whether rows wait for the end of the stream."""
        return self.method == "overwrite"

    @property
    def rests_on_table(self) -> bool:
        """Say whether rows come beside those that earlier runs have loaded.

        So do those of a whole read that are merged: what is gone may come as deletions only.
        """
        return not (self.overwrites or self.reloads)

    @property
    def replaces_parts(self) -> bool:
        """Say whether the first records of a run empty the parts of the table that they are in."""
        by_range = self.method == "delete-insert" and self.options.range_column is not None
        return self.method == "partition-overwrite" or by_range

    @property
    def replaces_range(self) -> bool:
        """Say whether the range that the tap read, which is known beforehand, is replaced."""
        return self.method == "delete-insert" and self.replaces_parts and self.scope is not None

    @property
    def removes_at_end(self) -> bool:
        """Say whether rows of a part go only when it is known which records were set aside."""
        return self.replaces_parts and bool(self.keys) and self.settings.quarantine

    @property
    def stages_parts(self) -> bool:
        """Say whether rows of a part wait until it is known that no record was set aside.

        Without a key nothing tells which row of the part such a record is of.
        """
        return self.replaces_parts and not self.keys and self.settings.quarantine

    @property
    def retires_partitions(self) -> bool:
        """Say whether partitions that no record came of are gone at the source."""
        is_known = self.is_whole and not self.is_filtered
        return self.reloads and is_known and self.method == "partition-overwrite"

    @property
    def acts_at_end(self) -> bool:
        """Say whether the end of a stream that replaces parts changes rows."""
        return self.replaces_range or self.is_true_at_end

    @property
    def is_true_at_end(self) -> bool:
        """Say whether a bookmark is true only once the end of the stream has removed rows."""
        by_parts = self.removes_at_end or self.stages_parts or self.retires_partitions
        return by_parts or self.retires

    @property
    def keeps_history(self) -> bool:
        """Say whether every version of a row is kept."""
        return self.method == "scd2"

    @property
    def table(self) -> Table:
        """Return the stream's table."""
        settings, name = self.settings, table_name(self.stream)
        if settings.catalog:
            return Table.in_catalog(settings.catalog, settings.schema or "default", name)
        return Table.at_path(settings.path, settings.schema, name)

    @property
    def quarantine(self) -> Table:
        """Return the table of the records that could not be loaded."""
        settings, name = self.settings, table_name(self.stream)
        if settings.catalog:
            return Table.in_catalog(settings.catalog, _OURS, f"quarantine_{name}")
        return Table.at_path(settings.path, "_quarantine", name)

    def staged_table(self, number: int) -> Table:
        """Return where rows wait for the end of the stream, by the number of their schema."""
        settings, name = self.settings, f"{table_name(self.stream)}_{number}"
        if settings.catalog:
            parts = filter(None, [self.staging_prefix, settings.schema, name])
            return Table.in_catalog(settings.catalog, _OURS, "_".join(parts))
        root = waiting_folder(settings.path, "staging", self.pipeline)
        return Table.at_path(root, settings.schema, name, format="parquet")

    @property
    def staging_prefix(self) -> str:
        """Return what the names of a catalog's staged tables begin with, for each pipeline its own.

        `a_b` may be a pipeline, or a pipeline `a` and a table `b`: a digest tells them apart.
        """
        if self.pipeline is None:
            return "staging"
        digest = hashlib.sha256(self.pipeline.encode()).hexdigest()[:8]
        return f"staging_{table_name(self.pipeline)}_{digest}".lower()

    def spool_folder(self, run_id: str) -> str | None:
        """Return where a run's records wait that Spark cannot read from this machine's disk."""
        if shares_disk():
            return None
        root = waiting_folder(self.settings.path, "spool", self.pipeline)
        return Table.at_path(root, table_name(run_id)).path

    @property
    def layout(self) -> Layout:
        """Return how the table is made."""
        key = {KEY_PROPERTY: json.dumps(self.keys)} if self.merges or self.is_rekeyed else {}
        chosen = {**self.settings.table_properties, **dict(self.options.table_properties)}
        return Layout(
            partition_by=self.options.partition_by,
            cluster_by=self.options.cluster_by,
            properties={**key, **chosen},
            comment=self.comment,
        )

    @property
    def policy(self) -> Policy:
        """Return which changes of the table are allowed."""
        return Policy(
            freeze=self.settings.freeze,
            allow_rewrite=self.options.allow_rewrite,
            dates=self.options.date_to_timestamp,
            constraints=self.options.required_constraints,
        )

    def removes(self, segment: Segment | None) -> bool:
        """Say whether a segment's deletions remove rows."""
        return (
            segment is not None
            and segment.has_deletions
            and self.settings.hard_delete
            and not self.appends
        )

    def kept_metadata(self, segment: Segment | None, before: T.StructType | None) -> list[str]:
        """Choose the `_sdc_*` columns of a batch: what is asked for, and what its records need."""
        present = set(before.names) if before else set()
        needed = set(METADATA) if self.settings.add_record_metadata else set()
        has_versions = segment is not None and segment.has_versions
        counts = has_versions and (bool(self.keys) or not self.replaces_unasked)
        if TABLE_VERSION in present or counts:
            needed.add(TABLE_VERSION)
        has_deletions = segment is not None and segment.has_deletions
        marks = has_deletions and not (self.removes(segment) or self.keeps_history)
        if DELETED_AT in present or marks:
            needed.add(DELETED_AT)
        return [name for name in METADATA if name in needed - set(self.declared.names)]

    def read_metadata(self, segment: Segment, kept: list[str]) -> list[str]:
        """Add what decides about a record, though the table does not keep it."""
        needed = set(kept)
        if self.removes(segment):
            needed.add(DELETED_AT)
        if self.keeps_history:
            needed.update(HISTORY_NEEDS)
        return [name for name in METADATA if name in needed - set(self.declared.names)]

    def incoming(self, metadata: list[str]) -> T.StructType:
        """Return the columns that the table must have."""
        added = history_columns(self.declared, self.options.dedupe_by) if self.keeps_history else []
        fields = [T.StructField(name, METADATA[name]) for name in metadata]
        return T.StructType([*self.declared.fields, *fields, *added])
