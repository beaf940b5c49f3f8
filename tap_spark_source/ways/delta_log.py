"""LOG_BASED on a Delta table: the table at one version, then what its change data feed tells.

The bookmark is the version that was read last, and the table's own id, so that a table that was
made anew under the same name is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from singer_spark.errors import SettingsError, SourceError, StateError
from singer_spark.names import quote
from singer_spark.session import SPARK_ERRORS
from tap_spark_source.plan import DELETED_AT, ReadPlan
from tap_spark_source.sources import FrameSource
from tap_spark_source.ways.piece import Piece

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VERSION, TABLE = "delta_version", "delta_table"
_IMAGE = "_change_type in ('insert', 'update_postimage')"
_AFRESH = "remove the stream's bookmark from the state, and it is read in full again"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Log:
    table: str
    version: int
    has_feed: bool


def pieces(source: FrameSource, plan: ReadPlan) -> Iterator[Piece]:
    """Yield the whole table, or the changes since the bookmark's version."""
    name = source.sql_name(plan.table)
    log = _look(source, plan, name)
    bookmark = {**plan.bookmark, VERSION: log.version, TABLE: log.table}
    start = plan.bookmark.get(VERSION)
    frame = None
    if start is None:
        whole = source.spark.sql(f"select * from {name} version as of {log.version}")
        frame = source.rows_of(source.wanted_rows(whole, plan), plan)
    elif _checked(plan, log, start) < log.version:
        frame = _changes(source, plan, name, int(start) + 1, log.version)
    yield Piece(frame=frame, bookmark=bookmark, is_last=True)


def _look(source: FrameSource, plan: ReadPlan, name: str) -> _Log:
    """Ask for the table's newest version, which bounds this read."""
    detail = source.spark.sql(f"describe detail {name}").select("format", "id", "properties")
    (row,) = detail.toArrow().to_pylist()
    if row["format"] != "delta":
        raise SettingsError(
            f"{plan.table.stream}: LOG_BASED needs a Delta table, and {plan.table.label} is one of "
            f"{row['format']}; choose another replication_method"
        )
    history = source.spark.sql(f"describe history {name} limit 1").select("version").toArrow()
    enabled = dict(row["properties"] or ()).get("delta.enableChangeDataFeed")
    log = _Log(table=row["id"], version=history[0][0].as_py(), has_feed=enabled == "true")
    if not log.has_feed:
        raise SourceError(
            f"{plan.table.stream}: {plan.table.label} records no changes; set its property "
            f"delta.enableChangeDataFeed to true, then {_AFRESH}"
        )
    return log


def _checked(plan: ReadPlan, log: _Log, start: object) -> int:
    stream = plan.table.stream
    if not isinstance(start, int) or isinstance(start, bool) or start < 0:
        raise StateError(f"{stream}: the bookmark's {VERSION} is no version; {_AFRESH}")
    if plan.bookmark.get(TABLE, log.table) != log.table or start > log.version:
        raise StateError(
            f"{stream}: the bookmark's {VERSION} {start} is of another table than the one that is "
            f"{plan.table.label} now, at version {log.version}; {_AFRESH}"
        )
    return start


def _changes(source: FrameSource, plan: ReadPlan, name: str, first: int, last: int) -> DataFrame:
    """Return what was inserted, changed and deleted, in the order of the commits.

    A row that left its key, by a deletion or an update, is deleted unless the same commit put
    another row there.
    """
    feed = source.spark.read.option("readChangeFeed", "true").options(
        startingVersion=str(first), endingVersion=str(last)
    )
    try:
        found = feed.table(name)
        # Whether the versions are still there shows when the feed is read.
        found.isEmpty()
    except SPARK_ERRORS as error:
        raise SourceError(
            f"{plan.table.stream}: the changes of versions {first} to {last} of "
            f"{plan.table.label} are no longer there or were not recorded; {_AFRESH}"
        ) from error
    found = source.wanted_rows(found, plan)
    if not plan.key_properties:
        return source.rows_of(_insertions(plan, found), plan)
    keys = ", ".join(quote(key) for key in plan.key_properties)
    image_there = f"max({_IMAGE}) over (partition by _commit_version, {keys})"
    marked = found.selectExpr("*", f"{_IMAGE} as _is_image", f"{image_there} as _has_image")
    kept = marked.where("_is_image or not _has_image").repartition(1)
    ordered = kept.sortWithinPartitions("_commit_version", "_is_image")
    deleted = f"if(_is_image, null, _commit_timestamp) as {DELETED_AT}"
    return source.rows_of(ordered, plan, deleted)


def _insertions(plan: ReadPlan, found: DataFrame) -> DataFrame:
    if not found.where("_change_type <> 'insert'").isEmpty():
        raise SettingsError(
            f"{plan.table.stream}: rows of {plan.table.label} were changed or deleted, and the "
            "stream has no key to tell which; set key_properties in stream_options"
        )
    return found.repartition(1).sortWithinPartitions("_commit_version")
