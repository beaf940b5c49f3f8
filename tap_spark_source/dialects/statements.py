"""Spark's own SQL, as a dialect beside those of the databases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from typing_extensions import override

from singer_spark.names import literal, quote
from tap_spark_source.dialects.base import Dialect
from tap_spark_source.plan.key import Key, Range, Reach, Slice
from tap_spark_source.plan.read_plan import ReadPlan
from tap_spark_source.plan.table import Column


class SparkSQL(Dialect):
    """What files and tables of a lake are filtered by."""

    @override
    def quote(self, name: str) -> str:
        return quote(name)

    @override
    def text(self, value: str) -> str:
        return literal(value)

    @override
    def literal(self, column: Column, value: str) -> str:
        if column.datatype == "binary":
            return super().literal(column, value)
        return f"cast({literal(value)} as {column.datatype})"


NOTHING = "1 = 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyNames:
    """A key, and what its parts are called at one place of a statement."""

    dialect: Dialect
    key: Key
    names: tuple[str, ...]

    @classmethod
    def in_table(cls, dialect: Dialect, key: Key) -> KeyNames:
        """Name the parts as the table does."""
        names = tuple(expression_of(dialect, part) for part in key.parts)
        return cls(dialect=dialect, key=key, names=names)

    @classmethod
    def in_query(cls, dialect: Dialect, key: Key) -> KeyNames:
        """Name the parts as columns of a query of ours."""
        names = tuple(dialect.quote(f"_key{number}") for number in range(len(key.parts)))
        return cls(dialect=dialect, key=key, names=names)

    def within(self, limits: Range) -> str:
        """Return the condition of a range, which no row without a key fulfils."""
        ends = (limits.low, ">"), (limits.high, "<")
        conditions = [
            self.dialect.compared(
                self.names, self.key.parts, sign + "=" * edge.is_inclusive, edge.mark
            )
            for edge, sign in ends
            if edge
        ]
        if not conditions or len(self.names) > 1:
            named = zip(self.names, self.key.parts, strict=True)
            conditions += [f"{name} is not null" for name, part in named if part.is_nullable]
        return " and ".join(conditions) or "1 = 1"

    def missing(self) -> str:
        """Return the condition of the rows that lack a part of the key."""
        return " or ".join(f"{name} is null" for name in self.names)

    def predicates(self, part: Slice) -> list[str]:
        """Return one condition for each connection that reads a part of a slice."""
        return [self.any_of(part)] if part.at_once else self._each(part)

    def any_of(self, part: Slice) -> str:
        """Return the one condition of all rows of a slice."""
        return "(" + " or ".join(f"({predicate})" for predicate in self._each(part)) + ")"

    def _each(self, part: Slice) -> list[str]:
        found = [self.within(limits) for limits in part.ranges]
        return [*found, self.missing()] if part.with_nulls else found or [NOTHING]


def expression_of(dialect: Dialect, column: Column) -> str:
    """Return what stands for a column in a statement."""
    return f"({column.sql})" if column.sql else dialect.quote(column.origin or column.name)


def conditions_of(dialect: Dialect, plan: ReadPlan, part: Slice | None = None) -> list[str]:
    """Return the conditions that hold for every row that a plan reads, or for those of a slice."""
    conditions = [f"({plan.where})"] if plan.where else []
    if plan.sample is not None:
        conditions.append(f"{dialect.random} < {Decimal(str(plan.sample)):f}")
    if part is not None and plan.key is not None:
        conditions.append(KeyNames.in_table(dialect, plan.key).any_of(part))
    return conditions


def where_of(conditions: Sequence[str]) -> str:
    """Return a WHERE clause, if there is a condition."""
    return f" where {' and '.join(conditions)}" if conditions else ""


def survey_statement(names: KeyNames, table: str, where: str | None, reach: Reach) -> str:
    """Return the query of a survey: number and key of rows in order, the highest as number 0.

    The keys are walked in their order and no further than asked for, so that an index suffices.
    """
    dialect = names.dialect
    aliases = KeyNames.in_query(dialect, names.key).names
    columns = ", ".join(aliases)
    keys = ", ".join(f"{name} as {alias}" for name, alias in zip(names.names, aliases, strict=True))

    def ordered(limits: Range, direction: str, rows: int) -> str:
        order = ", ".join(f"{name}{direction}" for name in names.names)
        condition = where_of([*([f"({where})"] if where else []), names.within(limits)])
        query = f"select {keys} from {table}{condition} order by {order}"
        return dialect.first_rows.format(query=query, rows=rows)

    first = ordered(reach.limits, "", reach.rows)
    nth = dialect.every_nth.format(step=reach.step)
    number = dialect.row_number.format(order=columns)
    marks = (
        f"select n, {columns} from (select {number} as n, {columns} "
        f"from ({first}) w) m where n in (1, {reach.rows}) or {nth}"
    )
    if reach.top is None:
        return marks
    last = ordered(reach.top, " desc", 1)
    return f"{marks} union all select 0 as n, {columns} from ({last}) h"


_FORMATS = {
    "timestamp": "yyyy-MM-dd\\'T\\'HH:mm:ss.SSSSSSxxx",
    "timestamp_ntz": "yyyy-MM-dd\\'T\\'HH:mm:ss.SSSSSS",
    "date": "yyyy-MM-dd",
}


def mark_text(expression: str, datatype: str) -> str:
    """Return the Spark SQL that writes a value as a bookmark holds it."""
    if pattern := _FORMATS.get(datatype):
        # Spark writes a + before the years beyond 9999, which databases do not understand.
        return f"trim(leading '+' from date_format({expression}, '{pattern}'))"
    if datatype == "binary":
        return f"base64({expression})"
    return f"cast({expression} as string)"


def mark_texts(key: Key, names: Sequence[str], to: str = "k") -> list[str]:
    """Return the Spark SQL that writes the parts of a key, found under other names, as a mark."""
    return [
        f"{mark_text(part.parsed(name), part.datatype)} as {to}{number}"
        for number, (part, name) in enumerate(zip(key.parts, names, strict=True))
    ]
