"""A source in memory, so that ways of reading can be tried thousands of times without Spark."""

from __future__ import annotations

from typing import Any

from tap_spark_source.plan.key import Edge, Key, Range, Survey
from tap_spark_source.plan.table import Column, Table
from tap_spark_source.sources.row_json import RowDigest

KINDS = {"bigint": int, "string": str, "timestamp": str}


class MemorySource:
    """Rows as dicts; a frame is a list of them."""

    spark = None
    can_slice = True

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows
        self.questions = self.queries = 0
        # What connections of one slice see: in which order they read, and what happens between.
        self.order = list
        self.between = lambda: None

    def frame(self, plan, part=None):
        if part is None:
            self.queries += 1
            return list(self.rows)
        assert not _overlap(self, plan.key, part)
        found: list[dict[str, Any]] = []
        for number, limits in enumerate(self.order(part.ranges)):
            if number:
                self.between()
            found += [dict(row) for row in self.rows if _inside(plan.key, limits, row)]
        missing = [row for row in self.rows if _value(plan.key, row) is None]
        self.queries += 1 if part.at_once else len(part.ranges) + part.with_nulls
        return found + (missing if part.with_nulls else [])

    def sorts_as_spark(self, table, column):
        del table, column
        return True

    def resent(self, plan, part):
        return rows_of(self.frame(plan, part))

    def count(self, plan, part=None):
        return len(self.frame(plan, part))

    def survey(self, plan, key, reach):
        del plan
        self.questions += 1
        keys = self._sorted(key, reach.limits)[: reach.rows]
        numbered = enumerate(keys, start=1)
        wanted = [(n, k) for n, k in numbered if n in (1, reach.rows) or n % reach.step == 0]
        top = self._sorted(key, reach.top) if reach.top is not None else []
        return Survey(
            marks=tuple((number, _mark(value)) for number, value in wanted),
            highest=_mark(top[-1]) if top else None,
        )

    def _sorted(self, key: Key, limits: Range) -> list[tuple]:
        return sorted(_value(key, row) for row in self.rows if _inside(key, limits, row))


def rows_of(found: list[dict[str, Any]]) -> RowDigest:
    """Sum rows up as Spark would."""
    return RowDigest(number=len(found), total=sum(hash(str(sorted(row.items()))) for row in found))


def table(*keys: str, **kinds: str) -> Table:
    """Describe a table by its columns and their types."""
    columns = tuple(Column(name=name, datatype=kind, schema={}) for name, kind in kinds.items())
    return Table(stream="t", name="t", columns=columns, keys=keys)


def _overlap(source: MemorySource, key: Key, part: Any) -> bool:
    return any(sum(_inside(key, r, row) for r in part.ranges) > 1 for row in source.rows)


def _value(key: Key, row: dict[str, Any]) -> tuple | None:
    value = tuple(row[part.name] for part in key.parts)
    return None if None in value else value


def _mark(value: tuple) -> tuple[str, ...]:
    return tuple(str(part) for part in value)


def _typed(key: Key, edge: Edge) -> tuple:
    return tuple(
        KINDS[part.datatype](text) for part, text in zip(key.parts, edge.mark, strict=False)
    )


def _inside(key: Key, limits: Range, row: dict[str, Any]) -> bool:
    value = _value(key, row)
    if value is None:
        return False
    for edge, above in ((limits.low, True), (limits.high, False)):
        if edge is not None:
            other = _typed(key, edge)
            cut = value[: len(other)]
            beyond = cut > other if above else cut < other
            if not (beyond or (edge.is_inclusive and cut == other)):
                return False
    return True
