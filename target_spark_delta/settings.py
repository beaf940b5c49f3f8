"""The target's settings: declared once, parsed once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from singer_sdk import typing as th

from singer_spark.names import merged_options
from singer_spark.plugin import SHOW_VALUES, SPARK
from singer_spark.settings import SparkSettings, own_catalog
from target_spark_delta.intake.batch_files import BatchRoots
from target_spark_delta.stream_options import LOAD_METHODS, STREAM_OPTIONS, StreamSettings

CONFIG_JSONSCHEMA = th.PropertiesList(
    th.Property(
        "path",
        th.StringType,
        title="Root of the tables",
        description=(
            "Root of the tables, local, s3a://, gs:// or abfss://; a table is at "
            "PATH/[SCHEMA/]TABLE. Required, unless catalog is set."
        ),
    ),
    th.Property(
        "catalog",
        th.StringType,
        title="Catalog",
        description=(
            "Write tables of this Spark catalog, such as spark_catalog, instead of tables at paths."
        ),
    ),
    th.Property(
        "default_target_schema",
        th.StringType,
        title="Schema",
        description="Sub-folder of every table, or its schema in the catalog.",
    ),
    th.Property(
        "load_method",
        th.StringType(allowed_values=list(LOAD_METHODS)),
        default="upsert",
        title="Load method",
        description=(
            "upsert (without a key: a whole read replaces the table, anything else is appended), "
            "append-only, overwrite (staged, swapped in at the confirmed end of the stream), "
            "partition-overwrite, delete-insert or scd2."
        ),
    ),
    th.Property(
        "hard_delete",
        th.BooleanType,
        default=False,
        title="Hard delete",
        description="Remove the rows that a deletion names; otherwise they are kept and marked.",
    ),
    th.Property(
        "add_record_metadata",
        th.BooleanType,
        default=False,
        title="Add record metadata",
        description=(
            "Add _sdc_extracted_at, _sdc_received_at, _sdc_batched_at, _sdc_deleted_at, "
            "_sdc_sequence, _sdc_table_version and _sdc_run_id."
        ),
    ),
    th.Property(
        "batch_size_rows",
        th.IntegerType(minimum=1),
        default=1_000_000,
        title="Batch rows",
        description="A batch is merged when it has this many rows.",
    ),
    th.Property(
        "batch_size_bytes",
        th.IntegerType(minimum=1),
        default=536_870_912,
        title="Batch bytes",
        description="A batch is merged when it has this many bytes.",
    ),
    th.Property(
        "batch_wait_seconds",
        th.NumberType(minimum=0),
        default=60,
        title="Batch wait",
        description="A batch is merged when its first record is this old.",
    ),
    th.Property(
        "flush_all_streams",
        th.BooleanType,
        default=False,
        title="Flush all streams",
        description="When a batch of one stream is full, merge what all streams have.",
    ),
    th.Property(
        "validate_records",
        th.BooleanType,
        default=True,
        title="Validate records",
        description=(
            "Validate each record against its JSON Schema. Even when off, a value that does not "
            "fit its column is never bent."
        ),
    ),
    th.Property(
        "on_invalid_record",
        th.StringType(allowed_values=["fail", "quarantine"]),
        default="fail",
        title="Invalid records",
        description=(
            "fail, or quarantine: the record, its error, stream, line and time go to the table "
            "PATH/_quarantine/TABLE, and the run goes on."
        ),
    ),
    th.Property(
        "schema_changes",
        th.StringType(allowed_values=["evolve", "freeze"]),
        default="evolve",
        title="Schema changes",
        description="evolve: new columns and lossless widening; freeze: any change is an error.",
    ),
    th.Property(
        "skip_unchanged",
        th.BooleanType,
        default=True,
        title="Skip unchanged rows",
        description=(
            "Do not rewrite a row that is equal, nor append one that the table has, _sdc_* "
            "columns aside."
        ),
    ),
    th.Property(
        "stream_options",
        th.ObjectType(additional_properties=STREAM_OPTIONS),
        default={},
        title="Options by stream",
        description=(
            "Shell pattern of stream names to load_method, key_properties, dedupe_by, "
            "range_column, merge_predicate, partial_records, partition_by, cluster_by, "
            "table_properties, required_constraints, date_to_timestamp, allow_rewrite, "
            "optimize_after_commits, vacuum_retention_hours; of each option the last match wins."
        ),
    ),
    th.Property(
        "compression",
        th.StringType(allowed_values=["zstd", "snappy", "gzip", "lz4", "none"]),
        default="zstd",
        title="Compression",
        description="Parquet codec.",
    ),
    th.Property(
        "table_properties",
        th.ObjectType(additional_properties=th.StringType),
        default={},
        title="Table properties",
        description="Delta properties at creation, such as delta.enableChangeDataFeed.",
    ),
    th.Property(
        "process_activate_version_messages",
        th.BooleanType,
        default=True,
        title="Process ACTIVATE_VERSION",
        description="Remove or mark the rows of older versions when a version is activated.",
    ),
    th.Property(
        "clean_up_batch_files",
        th.BooleanType,
        default=False,
        title="Clean up BATCH files",
        description=(
            "Remove the files of a BATCH message, local or in S3, once they are committed. Only "
            "files below batch_roots are removed."
        ),
    ),
    th.Property(
        "batch_roots",
        th.ArrayType(th.StringType),
        title="Roots of BATCH files",
        description=(
            "Folders and prefixes, such as /data/batches or s3://lake/batches, whose files a BATCH "
            "message may name; others are refused. Unset, any file may be read and none is "
            "removed. singer-spark run adds the folder that it makes."
        ),
    ),
    th.Property(
        "primary_key_required",
        th.BooleanType,
        default=False,
        title="Require keys",
        description="Refuse streams without key properties.",
    ),
    th.Property(
        "temp_dir",
        th.StringType,
        title="Spool folder",
        description="Where records wait for their commit; the system's temporary folder if unset.",
    ),
    th.Property(
        "parallelism",
        th.IntegerType(minimum=1),
        default=2,
        title="Parallel streams",
        description="How many streams are merged at the same time.",
    ),
    SHOW_VALUES,
    *SPARK,
).to_dict()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the user chose."""

    path: str
    catalog: str | None
    schema: str | None
    load_method: str
    hard_delete: bool
    add_record_metadata: bool
    batch_size_rows: int
    batch_size_bytes: int
    batch_wait_seconds: float
    flush_all_streams: bool
    validate_records: bool
    quarantine: bool
    freeze: bool
    skip_unchanged: bool
    stream_options: Mapping[str, Mapping[str, Any]]
    compression: str
    table_properties: Mapping[str, str]
    process_activate_version: bool
    clean_up_batch_files: bool
    batch_roots: BatchRoots
    primary_key_required: bool
    temp_dir: str | None
    parallelism: int
    maps: Mapping[str, Any] | None
    spark: SparkSettings

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Settings:
        """Read a validated config, whose defaults are filled in."""
        plain = {name: config[name] for name in cls.__slots__ if name in config}
        special = {
            "path": re.sub("(?<=.)/+$", "", config.get("path") or ""),
            "catalog": own_catalog(config.get("catalog") or None),
            "schema": config.get("default_target_schema") or None,
            "quarantine": config["on_invalid_record"] == "quarantine",
            "freeze": config["schema_changes"] == "freeze",
            "process_activate_version": config["process_activate_version_messages"],
            "batch_roots": BatchRoots(config.get("batch_roots") or ()),
            "temp_dir": config.get("temp_dir"),
            "maps": _maps(config),
            "spark": SparkSettings.from_config(config),
        }
        return cls(**{**plain, **special})

    def for_stream(self, stream: str) -> StreamSettings:
        """Return what holds for a stream."""
        options = merged_options(stream, self.stream_options)
        return StreamSettings.from_options({"load_method": self.load_method, **options})


_MAP_SETTINGS = (
    "stream_maps",
    "stream_map_config",
    "faker_config",
    "flattening_enabled",
    "flattening_max_depth",
    "flattening_max_key_length",
    "flattening_separator",
)


def _maps(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the settings that change records on the way, None where none does."""
    given = {name: config[name] for name in _MAP_SETTINGS if config.get(name) is not None}
    return given if given.get("stream_maps") or given.get("flattening_enabled") else None


def place_problems(config: Mapping[str, Any]) -> list[str]:
    """Say what is missing to know where tables go."""
    if config.get("path"):
        return []
    if not config.get("catalog"):
        return ["path is required, or catalog"]
    if config.get("spark_remote") or not config.get("spark_master", "local").startswith("local"):
        return ["path is required beside catalog, as a folder that Spark's machines can read"]
    return []
