"""LOG_BASED on a Delta table: the table at one version, then what its change data feed tells.

The bookmark is the version that was read last, and the table's own id, so that a table that was
made anew under the same name is noticed. While the first read is in slices, the bookmark holds
`delta_snapshot: {version, key, key_columns}` instead, so that an interrupted one goes on behind
that key, at the same version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from singer_spark.engine.session import SPARK_ERRORS
from singer_spark.errors import SettingsError, SourceError, StateError
from singer_spark.names import quote
from singer_spark.protocol import DELTA_SNAPSHOT
from tap_spark_source.plan.bookmark import DELTA_TABLE, DELTA_VERSION, goes_on
from tap_spark_source.plan.key import Slice
from tap_spark_source.plan.read_plan import DELETED_AT, ReadPlan
from tap_spark_source.plan.table import Table
from tap_spark_source.readers import full_table
from tap_spark_source.readers.chunks import Chunk, Preview
from tap_spark_source.sources.lake import LakeSource

_OF_FEED = ("_change_type", "_commit_version", "_commit_timestamp")
_IMAGE = "_change_type in ('insert', 'update_postimage')"
_AFRESH = "remove the stream's bookmark from the state, and it is read in full again"


class _Log(NamedTuple):
    table: str
    version: int


def chunks(source: LakeSource, plan: ReadPlan) -> Iterator[Chunk]:
    """Yield the table at one version, or the changes since the bookmark's."""
    start = plan.bookmark.get(DELTA_VERSION)
    if start is None:
        _refuse_restart(plan)
    log = _look(source, plan)
    if start is None:
        yield from _first_read(source, plan, log)
    else:
        yield from _further_read(source, plan, log, _checked(plan, log, DELTA_VERSION, start))


def _refuse_restart(plan: ReadPlan) -> None:
    """Fail where a first read would begin anew, and nothing tells that rows which came are one."""
    marker = plan.bookmark.get(DELTA_SNAPSHOT)
    if marker is None or plan.is_merged or goes_on(plan, DELTA_SNAPSHOT):
        return
    names = marker.get("key_columns") if isinstance(marker, Mapping) else None
    raise StateError(
        f"{plan.table.stream}: its first read was cut along {names}, and cannot go on along other "
        "columns; without a key the rows that it has told would come twice: set partition_column "
        f"as it was, or {plan.way_anew}"
    )


def _first_read(source: LakeSource, plan: ReadPlan, log: _Log) -> Iterator[Chunk]:
    """Yield the slices of the table, all at the version of the first one."""
    marker, version = plan.bookmark.get(DELTA_SNAPSHOT), log.version
    if marker is not None and (plan.key is None or goes_on(plan, DELTA_SNAPSHOT)):
        found = marker.get("version") if isinstance(marker, Mapping) else None
        version = _checked(plan, log, DELTA_SNAPSHOT, found)
    try:
        source.pin(plan.table, version)
    except SPARK_ERRORS as error:
        raise SourceError(
            f"{plan.table.stream}: version {version} of {plan.table.label}, at which its first "
            f"read began, is no longer there; {_AFRESH}"
        ) from error
    for chunk in full_table.chunks(source, replace(plan, version=version), resume=DELTA_SNAPSHOT):
        known = {**chunk.bookmark, DELTA_TABLE: log.table}
        bookmark = {**known, DELTA_VERSION: version} if chunk.is_last else known
        yield replace(chunk, bookmark=bookmark, version=None)


def _further_read(source: LakeSource, plan: ReadPlan, log: _Log, start: int) -> Iterator[Chunk]:
    """Yield the changes of some commits at a time."""
    known = {**plan.bookmark, DELTA_TABLE: log.table}
    if start == log.version:
        yield Chunk(bookmark={**known, DELTA_VERSION: start}, is_last=True)
        return
    rows = _rows_by_version(source, plan, start + 1, log.version)
    for stop in stops(rows, log.version, size=plan.slice_rows, most=plan.max_rows):
        frame = _changes(source, plan, start + 1, stop) if rows else None
        bookmark = {**known, DELTA_VERSION: stop}
        yield Chunk(frame=frame, bookmark=bookmark, is_last=stop == log.version)
        start = stop


def preview(source: LakeSource, plan: ReadPlan) -> Preview:
    """Describe the read by versions: the last that was read, the table's, the rows between."""
    log = _look(source, plan)
    start = plan.bookmark.get(DELTA_VERSION)
    if start is None:
        rest = full_table.rest_of(source, plan, DELTA_SNAPSHOT)
        rows = source.count(plan, Slice(ranges=(rest,), with_nulls=rest.low is None))
        return Preview(None, log.version, rows)
    start = _checked(plan, log, DELTA_VERSION, start)
    if start == log.version:
        return Preview(start, start, 0)
    changes = _rows_by_version(source, plan, start + 1, log.version)
    return Preview(start, log.version, sum(changes.values()))


def stops(rows: Mapping[int, int], last: int, *, size: int, most: int | None) -> list[int]:
    """Return the versions after which a STATE follows: about so many rows apart.

    A commit is never torn. Where at most so many rows are wanted, the rest is left.
    """
    found, since, done = [], 0, 0
    for version in sorted(rows):
        since, done = since + rows[version], done + rows[version]
        is_enough = most is not None and done >= most
        if since >= size or is_enough:
            found.append(version)
            since = 0
        if is_enough:
            return found
    return found if found[-1:] == [last] else [*found, last]


def can_follow(source: LakeSource, table: Table) -> bool:
    """Say whether a table is one of Delta that records its changes."""
    try:
        row = _detail(source, source.sql_name(table))
    except AnalysisException:  # a view has no details
        return False
    return row["format"] == "delta" and _has_feed(row)


def _detail(source: LakeSource, name: str) -> dict[str, Any]:
    detail = source.spark.sql(f"describe detail {name}").select("format", "id", "properties")
    return dict(detail.toArrow().to_pylist()[0])


def _has_feed(detail: Mapping[str, Any]) -> bool:
    return dict(detail["properties"] or ()).get("delta.enableChangeDataFeed") == "true"


def _look(source: LakeSource, plan: ReadPlan) -> _Log:
    """Ask for the table's newest version, which bounds this read."""
    name = source.sql_name(plan.table)
    row = _detail(source, name)
    if row["format"] != "delta":
        raise SettingsError(
            f"{plan.table.stream}: LOG_BASED needs a Delta table, and {plan.table.label} is one of "
            f"{row['format']}; choose another replication_method"
        )
    history = source.spark.sql(f"describe history {name} limit 1").select("version").toArrow()
    if not _has_feed(row):
        raise SourceError(
            f"{plan.table.stream}: {plan.table.label} records no changes; set its property "
            f"delta.enableChangeDataFeed to true, then {_AFRESH}"
        )
    return _Log(row["id"], history[0][0].as_py())


def _checked(plan: ReadPlan, log: _Log, name: str, version: object) -> int:
    stream = plan.table.stream
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        raise StateError(f"{stream}: the bookmark's {name} is no version; {_AFRESH}")
    if plan.bookmark.get(DELTA_TABLE, log.table) != log.table or version > log.version:
        raise StateError(
            f"{stream}: the bookmark's {name} {version} is of another table than the one that is "
            f"{plan.table.label} now, at version {log.version}; {_AFRESH}"
        )
    return version


def _feed(source: LakeSource, plan: ReadPlan, first: int, last: int) -> DataFrame:
    bounds = {"startingVersion": str(first), "endingVersion": str(last)}
    feed = source.spark.read.option("readChangeFeed", "true").options(**bounds)
    name = source.sql_name(plan.table)
    # By name: Spark Connect expands a star before it learns that this is the feed.
    columns = [quote(column) for column in source.spark.table(name).columns]
    return feed.table(name).selectExpr(*columns, *_OF_FEED)


def _rows_by_version(source: LakeSource, plan: ReadPlan, first: int, last: int) -> dict[int, int]:
    """Count the changes of each commit; whether they are still there shows when they are read."""
    try:
        found = _feed(source, plan, first, last).groupBy("_commit_version").count().toArrow()
    except SPARK_ERRORS as error:
        raise SourceError(
            f"{plan.table.stream}: the changes of versions {first} to {last} of "
            f"{plan.table.label} are no longer there or were not recorded; {_AFRESH}"
        ) from error
    return dict(zip(*(column.to_pylist() for column in found.columns), strict=True))


def _changes(source: LakeSource, plan: ReadPlan, first: int, last: int) -> DataFrame:
    """Return what was inserted, changed and deleted, in the order of the commits.

    A row that left its key, by a deletion or an update, is deleted unless the same commit put
    another row there.
    """
    found = source.wanted_rows(_feed(source, plan, first, last), plan)
    if not plan.key_properties:
        return source.rows_of(_insertions(plan, found), plan)
    keys = ", ".join(quote(key) for key in plan.key_properties)
    image_there = f"max({_IMAGE}) over (partition by _commit_version, {keys})"
    marked = found.selectExpr("*", f"{_IMAGE} as _is_image", f"{image_there} as _has_image")
    kept = marked.where("_is_image or not _has_image").repartition(1)
    ordered = kept.sortWithinPartitions("_commit_version", "_is_image")
    # A table that marks rows deleted by itself, as our target does, tells when.
    own = DELETED_AT if any(one.name == DELETED_AT for one in plan.columns) else "null"
    deleted = f"coalesce({own}, if(_is_image, null, _commit_timestamp)) as {DELETED_AT}"
    others = tuple(one for one in plan.columns if one.name != DELETED_AT)
    return source.rows_of(ordered, replace(plan, columns=others), deleted)


def _insertions(plan: ReadPlan, found: DataFrame) -> DataFrame:
    if not found.where("_change_type <> 'insert'").isEmpty():
        raise SettingsError(
            f"{plan.table.stream}: rows of {plan.table.label} were changed or deleted, and the "
            "stream has no key to tell which; set key_properties in stream_options"
        )
    return found.repartition(1).sortWithinPartitions("_commit_version")
