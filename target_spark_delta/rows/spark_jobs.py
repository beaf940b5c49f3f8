"""Fewer jobs for the same answer: each takes its time, also where it has nothing to do.

What Spark has written to a disk that this process sees is looked at from here.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.storagelevel import StorageLevel

from target_spark_delta.intake.segments import FEW_VALUES, KeyFacts, Range

if TYPE_CHECKING:
    import pyarrow as pa

FEW_ROWS = 10_000
# Columns, those inside structs included, beyond which generated code takes longer than it saves.
WIDE = 2_000
_ADAPTIVE = "spark.sql.adaptive.enabled"
# What Spark writes into a file's footer.
_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
# Of more rows Spark looks at the keys.
_MANY_ROWS = 3_000_000
_KEY_TYPES = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.StringType)
# How Arrow says that a file is not what it should be; Spark then says so in its own words.
_UNREADABLE = (OSError, ValueError, LookupError, TypeError, NotImplementedError)
_folders = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Footer:
    """What a Parquet file that Spark has written says of itself."""

    file: str
    rows: int
    schema: T.StructType


def read_footer(file: str) -> Footer | None:
    """Read a file's footer, for which Spark would need a job.

    None where Spark must look: the file is elsewhere, of another program or no Parquet at all.
    """
    # Only where it is needed: it takes a while to load.
    import pyarrow.parquet as pq

    if "://" in file:
        return None
    try:
        found = pq.read_metadata(file)
        said = (found.metadata or {})[_SPARK_SCHEMA]
        return Footer(file, found.num_rows, T.StructType.fromJson(json.loads(said)))
    except _UNREADABLE:
        return None


def facts_in_files(
    footers: Sequence[Footer], keys: Sequence[str], table: T.StructType
) -> KeyFacts | None:
    """Count the rows and keys of files, and find the range of each key.

    None where Spark must look: the rows are many, or a key is not what it will be in the table.
    """
    if sum(footer.rows for footer in footers) > _MANY_ROWS or not keys:
        return None
    for schema in [table, *(footer.schema for footer in footers)]:
        types = {field.name: field.dataType for field in schema}
        if any(not isinstance(types.get(key), _KEY_TYPES) for key in keys):
            return None
        if any(types[key] != table[key].dataType for key in keys):
            return None
    try:
        return _facts(_read_columns(footers, keys), keys)
    except _UNREADABLE:
        return None


def _read_columns(footers: Sequence[Footer], names: Sequence[str]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pa.concat_tables(
        [pq.read_table(footer.file, columns=list(names)).select(names) for footer in footers],
        promote_options="permissive",
    )


def _facts(rows: pa.Table, keys: Sequence[str]) -> KeyFacts:
    groups = rows.group_by(list(keys)).aggregate([])
    return KeyFacts(rows.num_rows, groups.num_rows, {key: _range(groups[key]) for key in keys})


def _range(values: pa.ChunkedArray) -> Range:
    import pyarrow.compute as pc

    ends: Mapping[str, Any] = pc.min_max(values).as_py()
    if ends["min"] is None:
        return Range(None, None, values.null_count)
    different = pc.unique(values.drop_null()) if len(values) <= FEW_VALUES else ()
    few = sorted(one.as_py() for one in different)
    return Range(str(ends["min"]), str(ends["max"]), values.null_count, tuple(map(str, few)))


def interpret(spark: SparkSession) -> None:
    """Let statements run as they are planned: Java code for a wide row takes minutes to make."""
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    spark.conf.set("spark.sql.codegen.wholeStage", "false")


@contextmanager
def planned_once(spark: SparkSession) -> Iterator[None]:
    """Let Spark keep to its first plan: to think again after each stage is a job for each."""
    before = spark.conf.get(_ADAPTIVE)
    spark.conf.set(_ADAPTIVE, "false")
    try:
        yield
    finally:
        spark.conf.set(_ADAPTIVE, str(before))


@contextmanager
def kept(rows: DataFrame) -> Iterator[DataFrame]:
    """Have Spark keep rows on its disk, so that they are worked out once."""
    rows = rows.persist(StorageLevel.DISK_ONLY)
    try:
        yield rows
    finally:
        rows.unpersist()


@contextmanager
def worked_out(rows: DataFrame, scratch: Path | None) -> Iterator[tuple[DataFrame, int]]:
    """Give rows that are worked out once, and how many there are.

    Files tell their number, and Spark plans nothing anew when a table changes that they were made
    of, as it does with rows that it keeps itself. They need a folder, `scratch`, that Spark shares
    with this process.
    """
    if scratch is None:
        with kept(rows) as settled:
            yield settled, settled.count()
        return
    folder = scratch / f"rows-{next(_folders)}"
    try:
        rows.write.option("compression", "uncompressed").parquet(str(folder))
        footers = [read_footer(str(file)) for file in folder.glob("*.parquet")]
        known = [footer for footer in footers if footer]
        schema = known[0].schema if known else rows.schema
        written = rows.sparkSession.read.schema(schema).parquet(str(folder))
        # A file that says nothing is not one without rows, nor is a folder that is not seen here.
        is_seen = (folder / "_SUCCESS").exists() and len(known) == len(footers)
        yield written, sum(footer.rows for footer in known) if is_seen else written.count()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
