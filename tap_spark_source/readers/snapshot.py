"""Comparison with what the table held before: finds deletions, and changes that no key tells of.

`keys` reads as the stream's method says and then looks which keys have gone; `rows` replaces the
read by a comparison of whole rows. What is compared is the JSON of key and record, which keeps
null and an empty text apart and every type exact; of the record only a hash is kept.

Each comparison is a version of a Delta table under `snapshot_path`, written once: the keys and
hashes of all rows, and the records that changed. The keys of rows that are told without a
comparison are kept there too, or nobody would know of a row that came and went between two.

The bookmark names the version that was really emitted. Of a later one, which a failed run left,
nobody knows how much has arrived: so a row is unchanged only where all versions from the bookmark's
on agree with it and nobody told it in between, and every key of theirs that is gone is a deletion.

With each version is kept of which source it is and how its keys are written. Where they are written
otherwise now, nothing tells old and new keys apart from gone and new rows: the comparison begins
anew, and tells no deletion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from singer_spark.errors import SettingsError, StateError
from singer_spark.names import literal
from tap_spark_source.plan.bookmark import SNAPSHOT
from tap_spark_source.plan.read_plan import DELETED_AT, ReadPlan, Snapshot
from tap_spark_source.plan.warnings import inform, warn
from tap_spark_source.readers import full_table
from tap_spark_source.readers.chunks import Chunk
from tap_spark_source.readers.open_window import open_window
from tap_spark_source.readers.snapshot_store import Base, Kept, Store, base_of, folder_name
from tap_spark_source.sources.base import TableSource
from tap_spark_source.sources.lake import LakeSource
from tap_spark_source.sources.row_json import record_json

_STAMP = "%Y%m%dT%H%M%S%fZ"


def chunks(
    source: TableSource, plan: ReadPlan, snapshot: Snapshot, regular: Iterator[Chunk]
) -> Iterator[Chunk]:
    """Yield the stream's regular chunks and what a comparison adds, or stands for."""
    if not plan.key_properties:
        raise SettingsError(
            f"{plan.table.stream}: snapshot {snapshot.mode} compares by key, and "
            f"{plan.table.label} has none; set key_properties in stream_options"
        )
    seen = _seen(plan)
    now = _moment_after(seen)
    is_due = seen is None or now - _time_of(seen) >= timedelta(seconds=snapshot.every)
    path = f"{snapshot.path}/{folder_name(plan.table.stream)}"
    store = Store(spark=source.spark, path=path, form=snapshot.form)
    bookmark, is_complete = plan.bookmark, True
    if snapshot.mode == "rows" and (is_due or not plan.window):
        if not is_due:
            inform(plan.table.stream, "the next comparison is not due yet")
            yield Chunk(bookmark=bookmark, is_last=True)
            return
        if (opened := open_window(source, plan)) is not None:
            # The rows of now are compared, so that none is left.
            opened.refuse_nulls()
            bookmark = opened.passed()
        regular = iter(())
    store.prepare()
    kept, run = store.kept(plan.table.stream), now.strftime(_STAMP)
    for chunk in regular:
        bookmark, is_complete = chunk.bookmark, chunk.is_last
        yield from _noted(chunk, plan, store, run)
    if is_due:
        base = _base(plan, store, kept, run)
        # Behind what this run has told, which belongs to what is compared.
        found = _compared(source, plan, store, base, _moment_after(run))
        yield replace(found, bookmark={**bookmark, **found.bookmark}, is_last=is_complete)


def _noted(chunk: Chunk, plan: ReadPlan, store: Store, version: str) -> Iterator[Chunk]:
    """Yield a chunk when its keys are kept: of a row that goes now, the deletion must be told.

    Its rows are read once, so that what is told is what was kept.
    """
    if chunk.frame is None:
        yield chunk
        return
    rows = chunk.frame.persist()
    try:
        store.note(version, rows.selectExpr(_key_of(rows, plan)))
        yield replace(chunk, frame=rows)
    finally:
        rows.unpersist()


def _base(plan: ReadPlan, store: Store, kept: Sequence[Kept], run: str) -> Base:
    """Decide what to compare with, and remove what no run will compare with any more."""
    seen, known = _seen(plan), [one.version for one in kept if not one.is_told]
    base = base_of(kept, store.form, seen, run=run)
    if seen is not None:
        store.require(seen, known, plan.table.stream)
        store.forget_before(seen, known)
        if base.versions is None:
            warn(
                plan.table.stream,
                "the key was written otherwise in an earlier comparison, and is now "
                f"{', '.join(store.form.key)}; comparing begins anew, and rows that were deleted "
                "since then are not told",
            )
    return base


def _compared(source: TableSource, plan: ReadPlan, store: Store, base: Base, at: datetime) -> Chunk:
    """Compare the table with what was there, and keep the result as the next version."""
    version, with_rows = at.strftime(_STAMP), bool(plan.snapshot and plan.snapshot.mode == "rows")
    current = _current(source, plan, with_rows=with_rows)
    store.write(version, changes_of(store.rows_of(base.condition), current, versions=base.versions))
    deleted = f',"{DELETED_AT}":"{at.isoformat(timespec="microseconds")}"}}'
    gone = f"concat(left(key, length(key) - 1), {literal(deleted)})"
    found = store.changes(version, with_rows=with_rows)
    rows = found.selectExpr(f"if(change = 'deleted', {gone}, record) as record")
    bookmark = {SNAPSHOT: {"version": version}}
    return Chunk(frame=rows, are_texts=True, bookmark=bookmark, is_last=True)


def _key_of(frame: DataFrame, plan: ReadPlan) -> str:
    """Return the key's JSON, in the order of the key, which that of the table may change."""
    fields = {field.name: field for field in frame.schema.fields}
    keys = [fields[name] for name in plan.key_properties]
    return f"{record_json(keys, singer_decimal=plan.singer_decimal)} as key"


def _current(source: TableSource, plan: ReadPlan, *, with_rows: bool) -> DataFrame:
    """Return key, hash and record of every row that the table holds now."""
    columns = [column for column in plan.columns if with_rows or column.name in plan.key_properties]
    frame = _whole(source, replace(plan, columns=tuple(columns), window=None, max_rows=None))
    fields = frame.schema.fields
    key, decimal = _key_of(frame, plan), plan.singer_decimal
    if not with_rows:
        nulls = "cast(null as binary) as hash", "cast(null as string) as record"
        return frame.selectExpr(key, *nulls)
    record = f"{record_json(fields, singer_decimal=decimal)} as record"
    kept, compared = [key, record], "record"
    steady = [field for field in fields if field.name != DELETED_AT]
    if len(steady) < len(fields):
        # A flag says that a row is deleted, and not since when: the time is that of the read.
        content, compared = record_json(steady, singer_decimal=decimal), "compared"
        kept.append(f"concat({content}, {DELETED_AT} is null) as compared")
    hashed = f"substring(unhex(sha2({compared}, 256)), 1, 16) as hash"
    return frame.selectExpr(*kept).selectExpr("key", hashed, "record")


def _whole(source: TableSource, plan: ReadPlan) -> DataFrame:
    """Return all rows; from a database by several connections, as a full read would.

    Never along the replication key: a row that changes while the ranges are read would move from
    one to another, and be seen twice or not at all.
    """
    if isinstance(source, LakeSource):
        return source.frame(plan)
    whole = replace(plan, bookmark={}, key=plan.whole_key, reads_on=False)
    frames = (chunk.frame for chunk in full_table.chunks(source, whole) if chunk.frame is not None)
    return reduce(DataFrame.union, frames)


def changes_of(base: DataFrame, current: DataFrame, *, versions: int | None) -> DataFrame:
    """Return every key that is there now or was before, with what became of its row.

    `base` are the rows of earlier versions, and those that were told in between. So many `versions`
    must agree for a row to be unchanged; None where none is.
    """
    both = base.selectExpr("key", "hash as old", "null as new", "null as record", "0 as n").union(
        current.selectExpr("key", "null as old", "hash as new", "record", "1 as n")
    )
    grouped = both.groupBy("key").agg(
        *map(F.expr, ("sum(n) as now", "count(*) - sum(n) as before")),
        *map(F.expr, ("min(old) as lowest", "max(old) as highest")),
        *map(F.expr, ("max(new) as new", "max(record) as record")),
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


def _seen(plan: ReadPlan) -> str | None:
    """Return the version that the bookmark names."""
    seen = plan.bookmark.get(SNAPSHOT)
    if seen is None:
        return None
    version = seen.get("version") if isinstance(seen, dict) else None
    try:
        _time_of(str(version))
    except ValueError as error:
        raise StateError(
            f"{plan.table.stream}: the bookmark's {SNAPSHOT} names no version; correct it, or "
            "remove it to begin with a new comparison"
        ) from error
    return str(version)


def _moment_after(version: str | None) -> datetime:
    """Return now, or where the clock has gone back the first moment behind a version."""
    now = datetime.now(timezone.utc)
    return max(now, _time_of(version) + timedelta(microseconds=1)) if version else now


def _time_of(version: str) -> datetime:
    return datetime.strptime(version, _STAMP).replace(tzinfo=timezone.utc)
