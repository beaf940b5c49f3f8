"""What every kind of source can do, and how its errors reach the user."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from singer_spark.engine.session import SPARK_ERRORS, lost_engine
from singer_spark.errors import (
    DataError,
    SettingsError,
    SingerSparkError,
    SourceError,
    TransientError,
    innermost_cause,
)
from singer_spark.secrets import mask
from singer_spark.shown import A_VALUE, HIDDEN, shows_values, without_values
from singer_spark.types import to_ddl, to_json_schema
from tap_spark_source.dialects.reading import MISFITS, PLAIN, Reading
from tap_spark_source.plan.key import Key, Reach, Slice, Survey
from tap_spark_source.plan.read_plan import ReadPlan
from tap_spark_source.plan.table import Column, Table
from tap_spark_source.settings import Settings
from tap_spark_source.sources.row_json import REREAD, RowDigest, row_hash

_TEXTS = ("string", "binary", "date", "timestamp", "timestamp_ntz")


class Source(ABC):
    """A place with tables."""

    # Whether reading a part of a table costs less than reading it whole.
    can_slice = True

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self.spark = spark
        self._settings = settings

    def sorts_as_spark(self, table: Table, column: Column) -> bool:
        """Say whether a range of the column holds the same rows here and in Spark."""
        del table, column
        return True

    def own_id(self) -> str | None:
        """Return the id that the source itself has, where it tells one."""
        return None

    def _column_of(
        self, field: T.StructField, native: str = "", reading: Reading = PLAIN
    ) -> Column:
        """Describe a column of a loaded frame."""
        schema = to_json_schema(field.dataType, singer_decimal=self._settings.singer_decimal)
        kind = schema.get("x-sql-datatype")
        if kind and schema["type"] == ["string", "null"]:
            # What has no JSON form of its own travels as text.
            known = kind in _TEXTS or kind.startswith("decimal")
            schema["x-sql-datatype"] = kind if known else "string"
        return Column(
            name=field.name,
            datatype=to_ddl(field.dataType),
            schema={**schema, **reading.hint},
            native=native,
            read=reading.read,
            parse=reading.parse,
            has_order=reading.can_be_key,
        )

    @abstractmethod
    def discover(self) -> list[Table]:
        """Describe the tables that the settings ask for."""

    def prefetch(self, places: Iterable[Place]) -> None:
        """Learn of tables that will be looked for, where asking for all at once costs less."""
        del places

    @abstractmethod
    def find(self, place: Place) -> Table | None:
        """Describe the one table of a stream, or return None where it is gone."""


class TableSource(Source):
    """A place whose tables can be read as they are now, whole or in slices."""

    # Whether a query is read by one connection, unless it is cut.
    reads_by_connections = False

    @abstractmethod
    def describe(self, table: Table, expression: str) -> Column:
        """Describe an SQL expression over the columns of a table."""

    @abstractmethod
    def frame(self, plan: ReadPlan, part: Slice | None = None) -> DataFrame:
        """Return the rows of a plan, or those of one slice, filtered by the source itself."""

    @abstractmethod
    def survey(self, plan: ReadPlan, key: Key, reach: Reach) -> Survey:
        """Look ahead along a key without reading rows."""

    def resent(self, plan: ReadPlan, part: Slice) -> RowDigest:
        """Sum up the rows of a slice without keeping them."""
        with source_errors(self._settings, plan.table.stream):
            frame = self.frame(plan, replace(part, at_once=True))
            # What one connection reads needs no exchange, which would be a job of its own.
            one = frame.coalesce(1) if self.reads_by_connections else frame
            hashes = one.selectExpr(f"{row_hash(frame.schema.fields, plan)} as {REREAD}")
            (row,) = hashes.agg(*RowDigest.sums(REREAD)).toArrow().to_pylist()
        return RowDigest.of(row, REREAD)

    @abstractmethod
    def count(self, plan: ReadPlan, part: Slice | None = None) -> int:
        """Count the rows of a plan, or those of one slice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a stream's table is, as far as a catalog says it."""

    stream: str
    schema: str | None = None
    name: str | None = None


def one_per_stream(tables: Iterable[Table]) -> list[Table]:
    """Return the tables, unless two of them would become one stream."""
    labels = defaultdict(list)
    found = list(tables)
    for table in found:
        labels[table.stream].append(table.label)
    if clashes := [" and ".join(group) for group in labels.values() if len(group) > 1]:
        raise SourceError(
            f"one stream for {'; '.join(clashes)}; name the one to read in tables, or rename one"
        )
    return found


@contextmanager
def source_errors(settings: Settings, what: str) -> Iterator[None]:
    """Turn Spark's and the drivers' errors into one line that says what, where and what next."""
    try:
        yield
    except SingerSparkError:
        raise
    except Exception as error:
        if not isinstance(error, SPARK_ERRORS):
            raise
        if gone := lost_engine(error):
            raise gone from error
        login = {"password": settings.password}
        reason = mask(innermost_cause(error), login)
        raise _translated(reason, f"{what} ({mask(settings.url, login)})") from error


def _translated(reason: str, where: str) -> SingerSparkError:
    if re.search(r"No suitable driver|ClassNotFoundException|DATA_SOURCE_NOT_FOUND", reason):
        return SettingsError(
            f"cannot read {where}: its driver is missing ({reason}); name it in spark_packages or "
            "spark_jars, and its class in source_options driver"
        )
    if re.search(f"SQLSTATE: 22|{'|'.join(MISFITS)}|Bad value for type|overflow", reason):
        return DataError(
            f"cannot read {where}: a value does not fit its type: {_misfit(reason)}; correct it, "
            "or deselect its column"
        )
    if found := re.search(r"event \d+ of partition .*?(?= SQLSTATE|$)", reason):
        return DataError(f"cannot read {where}: {found[0]}; correct the topic, or go on behind it")
    if found := re.search(r"(\{.*\}) is the key of several rows", reason):
        key = found[1] if shows_values() else f"one {_names_of(found[1])}"
        return DataError(
            f"cannot read {where}: {key} is the key of several rows; set key_properties that are "
            "unique"
        )
    if re.search(r"may have been lost|KAFKA_DATA_LOSS|out of range for partition", reason):
        return SourceError(
            f"cannot read {where}: events behind the bookmark are no longer kept; remove the "
            "stream's bookmark from the state, and it is read from its first event"
        )
    if re.search(r"(?i)(read|connect|connection|attempt) timed out|SocketTimeout", reason):
        return TransientError(
            f"cannot read {where}: the server did not answer in time ({reason}); run again, or set "
            "the driver's timeouts in source_options"
        )
    if "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND" in reason:
        return TransientError(f"cannot read {where}: Spark has lost what it had read; run again")
    said = without_values(reason)
    return SourceError(f"cannot read {where}: {said}; check that it is there and may be read")


def _misfit(reason: str) -> str:
    """Say what is wrong with a value; the value itself only where it may be shown."""
    if shows_values():
        return reason
    ours = re.search(rf"(?:[\w.]+: {A_VALUE} )?(?:{'|'.join(MISFITS)})", reason)
    said = ours[0] if ours else without_values(reason)
    if said == reason:
        return said
    return f"{'it ' if said.startswith('is ') else ''}{said} (show_values: true shows it)"


def _names_of(key: str) -> str:
    """Name the columns of a key, given as a JSON object."""
    try:
        return ", ".join(json.loads(key))
    except ValueError:
        return HIDDEN
