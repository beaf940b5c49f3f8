"""Comparison with what the table held before: finds deletions, and changes that no key tells of.

`keys` reads as the stream's method says and then looks which keys have gone; `rows` replaces the
read by a comparison of whole rows. What is compared is the JSON of key and record, which keeps
null and an empty text apart and every type exact; of the record only a hash is kept.

Each comparison is a version of a Delta table under `snapshot_path`, written once: the keys and
hashes of all rows, and the records that changed. The bookmark names the version that was really
emitted. Of a later one, which a failed run left, nobody knows how much has arrived: so a row is
unchanged only where all versions from the bookmark's on agree with it, and every key of theirs that
is gone is a deletion.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import reduce
from typing import TYPE_CHECKING, Any

from singer_spark.errors import SettingsError, StateError
from singer_spark.names import literal, quote, table_name
from tap_spark_source.comparison import Snapshot
from tap_spark_source.plan import DELETED_AT, ReadPlan
from tap_spark_source.sources import FrameSource, Source
from tap_spark_source.ways import full_table
from tap_spark_source.ways.piece import Piece
from tap_spark_source.wire import record_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger("tap-spark-source")

BOOKMARK = "snapshot"
_STAMP = "%Y%m%dT%H%M%S%fZ"


def pieces(
    source: Source, plan: ReadPlan, snapshot: Snapshot, regular: Iterator[Piece]
) -> Iterator[Piece]:
    """Yield the stream's regular pieces and what a comparison adds, or stands for."""
    if not plan.key_properties:
        raise SettingsError(
            f"{plan.table.stream}: snapshot {snapshot.mode} compares by key, and "
            f"{plan.table.label} has none; set key_properties in stream_options"
        )
    now = datetime.now(timezone.utc)
    seen = _seen(plan)
    is_due = seen is None or now - _time_of(seen) >= timedelta(seconds=snapshot.every)
    if snapshot.mode == "rows" and (is_due or not plan.window):
        if is_due:
            yield _compared(source, plan, snapshot, plan.bookmark, now)
        else:
            logger.info("%s: the next comparison is not due yet", plan.table.stream)
            yield Piece(bookmark=plan.bookmark, is_last=True)
        return
    bookmark = plan.bookmark
    for piece in regular:
        bookmark = piece.bookmark
        yield piece
    if is_due:
        yield _compared(source, plan, snapshot, bookmark, now)


def _compared(
    source: Source, plan: ReadPlan, snapshot: Snapshot, bookmark: Any, now: datetime
) -> Piece:
    """Compare the table with the last version, and keep the result as the next one."""
    store = _Store(spark=source.spark, path=f"{snapshot.path}/{table_name(plan.table.stream)}")
    base, version = _seen(plan), now.strftime(_STAMP)
    store.prepare()
    # Without a bookmark every row is new, whatever versions there are.
    versions = None
    if base is not None:
        known = store.versions()
        store.require(base, known, plan.table.stream)
        store.forget_before(base, known)
        versions = sum(found >= base for found in known)
    current = _current(source, plan, with_rows=snapshot.mode == "rows")
    store.write(version, changes_of(store.rows_since(base), current, versions=versions))
    deleted = f',"{DELETED_AT}":"{now.isoformat(timespec="microseconds")}"}}'
    record = (
        f"if(change = 'deleted', concat(left(key, length(key) - 1), {literal(deleted)}), record)"
    )
    found = store.changes(version, with_rows=snapshot.mode == "rows")
    return Piece(
        frame=found.selectExpr(f"{record} as record"),
        are_texts=True,
        bookmark={**bookmark, BOOKMARK: {"version": version}},
        is_last=True,
    )


def _current(source: Source, plan: ReadPlan, *, with_rows: bool) -> DataFrame:
    """Return key, hash and record of every row that the table holds now."""
    columns = [column for column in plan.columns if with_rows or column.name in plan.key_properties]
    frame = _whole(source, replace(plan, columns=tuple(columns), window=None, max_rows=None))
    fields = frame.schema.fields
    keys = [field for field in fields if field.name in plan.key_properties]
    decimal = plan.singer_decimal
    key = f"{record_json(keys, singer_decimal=decimal)} as key"
    if not with_rows:
        return frame.selectExpr(
            key, "cast(null as binary) as hash", "cast(null as string) as record"
        )
    record = f"{record_json(fields, singer_decimal=decimal)} as record"
    kept, compared = [key, record], "record"
    steady = [field for field in fields if field.name != DELETED_AT]
    if len(steady) < len(fields):
        # A flag says that a row is deleted, and not since when: the time is that of the read.
        content, compared = record_json(steady, singer_decimal=decimal), "compared"
        kept.append(f"concat({content}, {DELETED_AT} is null) as compared")
    hashed = f"substring(unhex(sha2({compared}, 256)), 1, 16) as hash"
    return frame.selectExpr(*kept).selectExpr("key", hashed, "record")


def _whole(source: Source, plan: ReadPlan) -> DataFrame:
    """Return all rows; from a database by several connections, as a full read would.

    Never along the replication key: a row that changes while the ranges are read would move from
    one to another, and be seen twice or not at all.
    """
    if isinstance(source, FrameSource):
        return source.frame(plan)
    whole = replace(plan, bookmark={}, key=plan.whole_key)
    slices = full_table.pieces(source, whole, version=0)
    return reduce(
        lambda one, other: one.union(other), (s.frame for s in slices if s.frame is not None)
    )


def changes_of(base: DataFrame, current: DataFrame, *, versions: int | None) -> DataFrame:
    """Return every key that is there now or was before, with what became of its row.

    Args:
        base: The rows of earlier versions.
        current: The rows of now.
        versions: How many versions must agree for a row to be unchanged; None where none is.
    """
    both = base.selectExpr("key", "hash as old", "null as new", "null as record", "0 as n").union(
        current.selectExpr("key", "null as old", "hash as new", "record", "1 as n")
    )
    grouped = both.groupBy("key").agg(
        *_aggregates("sum(n) as now", "count(*) - sum(n) as before"),
        *_aggregates("min(old) as lowest", "max(old) as highest"),
        *_aggregates("max(new) as new", "max(record) as record"),
    )
    agree = f"before = {versions or 0} and lowest <=> new and highest <=> new"
    twice = "concat(key, ' is the key of several rows')"
    change = (
        f"case when now > 1 then raise_error({twice}) when now = 0 then 'deleted' "
        f"when before = 0 then 'new' when not ({agree}) then 'changed' end"
    )
    return grouped.selectExpr("key", "new as hash", f"{change} as change", "record").selectExpr(
        "key", "hash", "change", "if(change is null, null, record) as record"
    )


def _aggregates(*expressions: str) -> list[Any]:
    from pyspark.sql import functions as F

    return [F.expr(expression) for expression in expressions]


def _seen(plan: ReadPlan) -> str | None:
    """Return the version that the bookmark names."""
    seen = plan.bookmark.get(BOOKMARK)
    if seen is None:
        return None
    version = seen.get("version") if isinstance(seen, dict) else None
    try:
        _time_of(str(version))
    except ValueError as error:
        raise StateError(
            f"{plan.table.stream}: the bookmark's {BOOKMARK} names no version; correct it, or "
            "remove it to begin with a new comparison"
        ) from error
    return str(version)


def _time_of(version: str) -> datetime:
    return datetime.strptime(version, _STAMP).replace(tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Store:
    """The versions of one stream: a Delta table with a partition for each."""

    spark: SparkSession
    path: str

    @property
    def _name(self) -> str:
        return f"delta.{quote(self.path)}"

    def prepare(self) -> None:
        """Make the table, if it is not there; what is removed from it goes at once."""
        self.spark.sql(
            f"create table if not exists {self._name} "
            "(version string, key string, hash binary, change string, record string) "
            "using delta partitioned by (version) tblproperties ("
            "'delta.deletedFileRetentionDuration' = 'interval 0 seconds', "
            "'delta.logRetentionDuration' = 'interval 1 days')"
        )

    def versions(self) -> list[str]:
        """Name the versions that are there."""
        found = self._whole().where("key is null").select("version")
        return [str(version) for version in found.toArrow().column(0).to_pylist()]

    def require(self, version: str, known: Sequence[str], stream: str) -> None:
        """Fail where a version is not among those that are there."""
        if version not in known:
            raise StateError(
                f"{stream}: snapshot {version}, which the bookmark names, is not in {self.path}; "
                f"restore it, or remove {BOOKMARK} from the bookmark to begin with a new comparison"
            )

    def rows_since(self, version: str | None) -> DataFrame:
        """Return the keys and hashes of the rows that any version from one on had."""
        found = self._whole().where(f"version >= {literal(version or '')}")
        kept = found.where("key is not null and change is distinct from 'deleted'")
        return kept.select("key", "hash")

    def changes(self, version: str, *, with_rows: bool) -> DataFrame:
        wanted = "change is not null" if with_rows else "change = 'deleted'"
        return self._whole().where(f"version = {literal(version)}").where(wanted)

    def write(self, version: str, rows: DataFrame) -> None:
        # A row without a key says that the version is there, even of an empty table.
        mark = self.spark.sql("select null as key, null as hash, null as change, null as record")
        named = rows.union(mark).selectExpr(f"{literal(version)} as version", "*")
        named.write.format("delta").mode("append").save(self.path)

    def forget_before(self, version: str, known: Sequence[str]) -> None:
        """Remove the versions that no state can name any more.

        The one before the given one stays: a run that resumed from a checkpoint may fail, and the
        next one begin with the state that the checkpoint had not replaced yet.
        """
        older = sorted(found for found in known if found < version)
        if len(older) > 1:
            self.spark.sql(f"delete from {self._name} where version < {literal(older[-1])}")
            self.spark.sql(f"vacuum {self._name} retain 0 hours")

    def _whole(self) -> DataFrame:
        return self.spark.read.format("delta").load(self.path)
