"""What a source says of its tables; pure values that every later module passes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

# Types that have a smallest and a largest value, and a text that compares the same everywhere.
_ORDERABLE = ("tinyint", "smallint", "int", "bigint", "decimal", "date", "timestamp")
_TIME = ("date", "timestamp", "timestamp_ntz")
_NUMBER = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its Spark type, its JSON Schema, and how its source must be asked for it.

    `read` is what a database selects in its place, `parse` what Spark then makes of that; both
    are there for types that a plain read would bend. `sql` is the expression that stands in its
    place where it is no column of the table, `origin` the column's name in the table where that is
    another one. A column has no order where its source does not sort it, or otherwise than it
    compares it.
    """

    name: str
    datatype: str
    schema: Mapping[str, Any]
    native: str = ""
    read: str | None = None
    parse: str | None = None
    sql: str | None = None
    origin: str | None = None
    is_nullable: bool = True
    has_order: bool = True

    def asked(self, expression: str) -> str:
        """Return what a database is asked for, of what stands for the column there."""
        return (self.read or "{}").replace("{}", expression)

    def parsed(self, expression: str) -> str:
        """Return the Spark SQL of the value, of what stands for the column in a frame."""
        return (self.parse or "{}").replace("{}", expression)

    @property
    def is_time(self) -> bool:
        """Say whether the values are points in time."""
        return self.datatype in _TIME

    @property
    def is_integer(self) -> bool:
        """Say whether the values are whole numbers of at most 64 bits."""
        return self.datatype in _NUMBER

    @property
    def is_number(self) -> bool:
        """Say whether the values are exact numbers."""
        return self.is_integer or self.datatype.startswith("decimal") or self.is_decimal_text

    @property
    def is_decimal_text(self) -> bool:
        """Say whether the values are numbers without bounds, which travel as texts."""
        return self.datatype == "string" and self.schema.get("format") == "x-singer.decimal"

    @property
    def is_orderable(self) -> bool:
        """Say whether the column is offered as a replication key."""
        return self.has_order and self.datatype.startswith(_ORDERABLE)

    @property
    def can_be_key(self) -> bool:
        """Say whether its source can cut a table along the column."""
        return self.has_order and (self.is_orderable or self.datatype in ("string", "binary"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """An index of a table: its columns, or the texts of its expressions, in order."""

    columns: tuple[str, ...]
    is_unique: bool = False
    is_primary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table or view of a source, and the stream it becomes.

    `indexes` is None where the source does not tell, nor does it tell which columns may be NULL
    unless it `knows_nulls`. `rows` is the source's own estimate,
    `most_rows` what it cannot exceed.
    """

    stream: str
    name: str
    schema: str | None = None
    columns: tuple[Column, ...] = ()
    keys: tuple[str, ...] = ()
    is_view: bool = False
    indexes: tuple[Index, ...] | None = None
    knows_nulls: bool = False
    rows: int | None = None
    most_rows: int | None = None

    @property
    def label(self) -> str:
        """Name the table as the source does."""
        return f"{self.schema}.{self.name}" if self.schema else self.name

    def column(self, name: str) -> Column | None:
        """Return the column of that name, if there is one."""
        return next((column for column in self.columns if column.name == name), None)


def is_wanted(label: str, patterns: Iterable[str]) -> bool:
    """Say whether one of the shell patterns asks for the table."""
    return any(fnmatchcase(label, pattern) for pattern in patterns)


def is_name(pattern: str) -> bool:
    """Say whether a pattern is a plain name, so that nothing needs to be listed."""
    return not set("*?[") & set(pattern)
