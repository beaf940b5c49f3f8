"""Runs of ways of reading, in memory: a plan, its chunks, and the bookmark that is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tap_spark_source.plan.key import Key
from tap_spark_source.plan.read_plan import ReadPlan
from tap_spark_source.plan.window import Window
from tap_spark_source.readers import chunks
from tests.support.memory import table

TABLE = table("id", id="bigint", at="bigint", code="string")
BY_AT = Key(parts=(TABLE.column("at"),))
BY_AT_AND_ID = Key(parts=(TABLE.column("at"), TABLE.column("id")))
BY_ID = Key(parts=(TABLE.column("id"),))


def incremental(bookmark: dict, key: Key, **options) -> ReadPlan:
    window = Window(
        lookback=options.pop("lookback", 0), null_keys=options.pop("null_keys", "include")
    )
    if bookmark:
        start = key.from_json(bookmark["replication_key_value"])
        window = replace(window, start=start, from_bookmark=True)
    return plan(bookmark, key=key, window=window, **options)


def plan(bookmark: dict, **options) -> ReadPlan:
    return ReadPlan(
        table=TABLE,
        columns=TABLE.columns,
        key_properties=("id",),
        bookmark=bookmark,
        **options,
    )


class Run:
    """One run: what it wrote, and the bookmark of its last STATE.

    `meanwhile` is called while a chunk is being written, with the chunk's number.
    """

    def __init__(
        self,
        source,
        read: ReadPlan,
        *,
        killed_after: int | None = None,
        meanwhile: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.rows: list[dict] = []
        self.bookmark = dict(read.bookmark)
        self.bookmarks: list[dict] = []
        self.is_complete = False
        for number, chunk in enumerate(chunks(source, read, version=len(source.rows) + 1)):
            self.rows += [dict(row) for row in chunk.frame or []]
            meanwhile(number)
            if killed_after is not None and number == killed_after:
                return  # written, but the STATE did not follow any more
            self.bookmark = dict(chunk.bookmark)
            self.bookmarks.append(self.bookmark)
            self.is_complete = chunk.is_last

    @property
    def ids(self) -> list[int]:
        return sorted(row["id"] for row in self.rows)


def rows(*ats: int | None) -> list[dict]:
    return [{"id": number, "at": at, "code": str(at)} for number, at in enumerate(ats)]
