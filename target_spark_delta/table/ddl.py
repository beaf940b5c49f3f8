"""A table is made, and changed so that what is coming fits."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from singer_spark.errors import SchemaError
from singer_spark.names import literal, quote, quote_path
from singer_spark.types import column_names, comment_ddl, to_ddl
from target_spark_delta.table import log, races
from target_spark_delta.table.evolve import (
    AddColumn,
    Relax,
    Widen,
    changes,
    relaxed,
    unify,
    widens_in_place,
)
from target_spark_delta.table.log import forget_last_commit, last_commit
from target_spark_delta.table.races import with_retry
from target_spark_delta.table.table import WHOLLY, Table

logger = logging.getLogger(__name__)

# Parquet cannot name a column with these; Delta then maps names to names of its own.
_NEEDS_MAPPING = re.compile(r"[ ,;{}()\n\t=]")
_MAPPING = {"delta.columnMapping.mode": "name"}
# What Spark says of a place where something is that is no table.
_IN_THE_WAY = {"TABLE_OR_VIEW_ALREADY_EXISTS", "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"}
_REWRITE_LIMIT_BYTES = 10 * 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Which changes of a table are allowed."""

    freeze: bool = False  # refuse any change
    allow_rewrite: bool = False  # rewrite even a large table to widen a column
    dates: bool = False  # let a date become a timestamp
    constraints: bool = False  # let go of NOT NULL where the stream's schema does


def adapt(
    spark: SparkSession, table: Table, incoming: T.StructType, policy: Policy
) -> T.StructType:
    """Change an existing table so that the incoming columns fit, and return its schema."""
    # As a whole: what another writer has changed meanwhile may be what is needed.
    return with_retry(table, lambda: _adapt(spark, table, incoming, policy))


def _adapt(
    spark: SparkSession, table: Table, incoming: T.StructType, policy: Policy
) -> T.StructType:
    before = table.rows(spark).schema
    after = unify(before, incoming, name=table.name, dates=policy.dates)
    needed = changes(before, after)
    if policy.constraints:
        needed += relaxed(before, incoming)
    if not needed:
        return before
    if policy.freeze:
        raise frozen(table, (".".join(change.path) for change in needed))
    widened = [change for change in needed if isinstance(change, Widen)]
    # Refused first, so that a table which may not be rewritten stays as it is.
    rewritten = _rewritten(spark, table, widened, policy) if widened else None
    races.confirm(spark)
    for change in needed:
        if isinstance(change, Relax):
            column = quote_path(*change.path)
            spark.sql(f"alter table {table.sql} alter column {column} drop not null")
    if added := [change for change in needed if isinstance(change, AddColumn)]:
        _add_columns(spark, table, added)
    if rewritten:
        _rewrite(spark, table, after, rewritten)
    else:
        _widen_in_place(spark, table, widened)
    return table.rows(spark).schema


def frozen(table: Table, names: Iterable[str]) -> SchemaError:
    """Return the error that refuses changes."""
    return SchemaError(
        f"{table}: the schema would change ({', '.join(names)}) and schema_changes is freeze; "
        "change the table or set schema_changes to evolve"
    )


def warn_of_lost_constraints(table: Table, before: T.StructType) -> None:
    """Warn of what Delta forgets of a table whose schema was replaced."""
    if required := [column.name for column in before if not column.nullable]:
        logger.warning("%s: %s may be null from now on", table, ", ".join(required))


def regain_clusters(
    spark: SparkSession, table: Table, detail: Mapping[str, Any], clusters: Sequence[str]
) -> Sequence[str]:
    """Return a table's clusters; one that was made so and lost them in a crash is given these."""
    known: Sequence[str] = detail["clusteringColumns"]
    if known or not clusters or "clustering" not in detail["tableFeatures"]:
        return known
    cluster(spark, table, clusters)
    return clusters


def cluster(spark: SparkSession, table: Table, columns: Sequence[str]) -> None:
    """Cluster what is written to a table from now on."""
    if columns:
        alter(spark, table, _columns_ddl("cluster by", columns))


def allow_names(spark: SparkSession, table: Table, columns: T.StructType) -> None:
    """Make an existing table take columns of these names."""
    if properties := naming(columns):
        set_properties(spark, table, properties)


def alter(spark: SparkSession, table: Table, change: str) -> None:
    """Change what a table says of itself."""
    races.confirm(spark)
    with_retry(table, lambda: spark.sql(f"alter table {table.sql} {change}"))


def set_properties(spark: SparkSession, table: Table, properties: Mapping[str, str]) -> None:
    """Give a table properties."""
    alter(spark, table, f"set {_properties_ddl(properties)}")


def _add_columns(spark: SparkSession, table: Table, added: Sequence[AddColumn]) -> None:
    fields = [T.StructField(change.path[-1], change.datatype) for change in added]
    allow_names(spark, table, T.StructType(fields))
    columns = ", ".join(
        f"{quote_path(*change.path)} {to_ddl(change.datatype, comments=True)}"
        + (f" comment {literal(change.comment)}" if change.comment else "")
        for change in added
    )
    logger.info("%s: adding %s", table, _listed(added))
    spark.sql(f"alter table {table.sql} add columns ({columns})")


def _rewritten(
    spark: SparkSession, table: Table, widened: Sequence[Widen], policy: Policy
) -> Mapping[str, Any] | None:
    """Return what Delta says of a table that must be rewritten, if it must and may be."""
    detail = table.detail(spark)
    is_allowed = detail["properties"].get("delta.enableTypeWidening") == "true"
    if is_allowed and all(map(widens_in_place, widened)):
        return None
    size = detail["sizeInBytes"] or 0
    logger.info("%s: rewriting %d bytes to widen %s", table, size, _listed(widened))
    if size > _REWRITE_LIMIT_BYTES and not policy.allow_rewrite:
        raise SchemaError(
            f"{table}: {_listed(widened)} must be widened, which rewrites "
            f"{size / 1e9:.0f} GB; set allow_rewrite: true in stream_options to let it"
        )
    return detail


def _widen_in_place(spark: SparkSession, table: Table, widened: Iterable[Widen]) -> None:
    for change in widened:
        path, after = quote_path(*change.path), to_ddl(change.after, comments=True)
        spark.sql(f"alter table {table.sql} alter column {path} type {after}")


def _rewrite(
    spark: SparkSession, table: Table, schema: T.StructType, detail: Mapping[str, Any]
) -> None:
    columns = [
        F.expr(f"cast({quote(column.name)} as {to_ddl(column.dataType)})").alias(
            column.name, metadata=column.metadata
        )
        for column in schema
    ]
    writer = table.rows(spark).select(*columns).write.format("delta").mode("overwrite")
    writer = writer.options(overwriteSchema="true", **WHOLLY)
    forget_last_commit(spark)
    with races.transaction(spark):
        table.save(writer.partitionBy(*detail["partitionColumns"]))
    if races.is_fenced(spark) and last_commit(spark) is None:
        raise races.overtaken(table)
    cluster(spark, table, detail["clusteringColumns"])
    warn_of_lost_constraints(table, schema)


def _listed(listed: Iterable[AddColumn | Widen]) -> str:
    return ", ".join(
        f"{'.'.join(change.path)} ({change.datatype.simpleString()})"
        if isinstance(change, AddColumn)
        else f"{'.'.join(change.path)} ({change.before.simpleString()} to "
        f"{change.after.simpleString()})"
        for change in listed
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a table is made, beside its columns."""

    partition_by: Sequence[str] = ()
    cluster_by: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None


def create(spark: SparkSession, table: Table, schema: T.StructType, layout: Layout) -> None:
    """Make an empty table, in the place of one whose making was interrupted too."""
    races.confirm(spark)
    table.make_schema(spark)
    properties = {**naming(schema), **layout.properties}
    columns = ", ".join(
        f"{quote(column.name)} {to_ddl(column.dataType, comments=True)}"
        f"{'' if column.nullable else ' not null'}{comment_ddl(column)}"
        for column in schema
    )
    definition = " ".join(
        [
            f"table {table.sql} ({columns}) using delta",
            _columns_ddl("partitioned by", layout.partition_by),
            _columns_ddl("cluster by", layout.cluster_by),
            f"comment {literal(layout.comment)}" if layout.comment else "",
            _properties_ddl(properties),
        ]
    )
    try:
        spark.sql(f"create {definition}")
    except AnalysisException as error:
        if error.getCondition() not in _IN_THE_WAY or table.schema(spark) is not None:
            raise
        _create_over(spark, table, schema, layout, definition, error)


def _create_over(
    spark: SparkSession,
    table: Table,
    schema: T.StructType,
    layout: Layout,
    definition: str,
    error: AnalysisException,
) -> None:
    """Make a table where a log without a commit is in the way, which is no table."""
    found = re.search(r"location \('([^']+)'\)", str(error))
    location = table.path or (found[1] if found else "")
    if location and log.is_half_made(location):
        log.remove_folder(f"{location.rstrip('/')}/_delta_log")
        spark.sql(f"create {definition}")
    elif table.path and (log.has_log(table.path) or not _holds_files(spark, table.path)):
        # Among files that were never committed only a write makes a table.
        properties = {**naming(schema), **layout.properties}
        writer = spark.createDataFrame([], schema).write.format("delta").mode("append")
        writer = writer.options(**{k: v for k, v in properties.items() if k.startswith("delta.")})
        table.save(writer.partitionBy(*layout.partition_by))
        cluster(spark, table, layout.cluster_by)
        if properties:
            set_properties(spark, table, properties)
    else:
        raise error


def _holds_files(spark: SparkSession, path: str) -> bool:
    """Say whether a folder has files of somebody else."""
    found = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(path)
    return not found.select("path").isEmpty()


def naming(*datatypes: T.DataType) -> dict[str, str]:
    """Return the properties of a table that can name these columns."""
    odd = any(_NEEDS_MAPPING.search(name) for kind in datatypes for name in column_names(kind))
    return dict(_MAPPING) if odd else {}


def _columns_ddl(clause: str, names: Sequence[str]) -> str:
    return f"{clause} ({', '.join(map(quote, names))})" if names else ""


def _properties_ddl(properties: Mapping[str, str]) -> str:
    listed = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in properties.items())
    return f"tblproperties ({listed})" if listed else ""
