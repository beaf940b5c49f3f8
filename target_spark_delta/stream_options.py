"""What may be chosen for one stream: declared once, parsed once."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from singer_sdk import typing as th

LOAD_METHODS = (
    "upsert",
    "append-only",
    "overwrite",
    "partition-overwrite",
    "delete-insert",
    "scd2",
)
_NAME = r"(?:\w+|`(?:[^`]|``)+`)"
_TIE = re.compile(rf"([st])[.]({_NAME})\s*(?:=|==|<=>)\s*(?!\1)[st][.]({_NAME})", re.IGNORECASE)
# Delta keeps the files that a table no longer uses for a week, and refuses to remove them earlier.
LEAST_RETENTION_HOURS = 168
_STRINGS = th.ArrayType(th.StringType)
STREAM_OPTIONS = th.ObjectType(
    th.Property("load_method", th.StringType(allowed_values=list(LOAD_METHODS))),
    th.Property("key_properties", _STRINGS),
    th.Property("dedupe_by", th.StringType),
    th.Property("range_column", th.StringType),
    th.Property("merge_predicate", th.StringType),
    th.Property("partial_records", th.BooleanType),
    th.Property("allow_rewrite", th.BooleanType),
    th.Property("date_to_timestamp", th.BooleanType),
    th.Property("partition_by", _STRINGS),
    th.Property("cluster_by", _STRINGS),
    th.Property("table_properties", th.ObjectType(additional_properties=th.StringType)),
    th.Property("required_constraints", th.BooleanType),
    th.Property("optimize_after_commits", th.IntegerType(minimum=1)),
    th.Property("vacuum_retention_hours", th.NumberType(minimum=LEAST_RETENTION_HOURS)),
    additional_properties=False,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """What holds for one stream."""

    load_method: str
    key_properties: tuple[str, ...] | None = None
    dedupe_by: str | None = None
    range_column: str | None = None
    merge_predicate: str | None = None
    partial_records: bool = False
    allow_rewrite: bool = False
    date_to_timestamp: bool = False
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    table_properties: tuple[tuple[str, str], ...] = ()
    required_constraints: bool = False
    optimize_after_commits: int | None = None
    vacuum_retention_hours: float | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> StreamSettings:
        """Read the options of a stream, those that hold for all streams included."""
        frozen: dict[str, Any] = {
            name: tuple(value.items())
            if isinstance(value, Mapping)
            else tuple(value)
            if isinstance(value, list)
            else value
            for name, value in options.items()
            if value is not None
        }
        return cls(**frozen)

    @property
    def tied_columns(self) -> set[str]:
        """Name, in lower case, the columns that merge_predicate wants to be the same on both sides.

        Only what certainly holds for every match counts: `t.day = s.day`, alone or joined by AND.
        """
        text = re.sub(r"'(?:[^'\\]|\\.)*'", "''", self.merge_predicate or "")
        while (inner := re.sub(r"\([^()]*\)", "''", text)) != text:
            text = inner
        if re.search(r"\b(or|case)\b|--|/[*]|[()\"|]", text, re.IGNORECASE):
            return set()
        parts = re.split(r"\s+and\s+", text.strip(), flags=re.IGNORECASE)
        ties = [found.groups() for part in parts if (found := _TIE.fullmatch(part.strip()))]
        names = [(_bare(one), _bare(other)) for _, one, other in ties]
        return {one for one, other in names if one == other}

    def problems(self, columns: Collection[str], keys: Collection[str]) -> Iterator[str]:
        """Say what does not go together, and what the stream does not have."""
        named = {
            "partition_by": self.partition_by,
            "cluster_by": self.cluster_by,
            "range_column": filter(None, [self.range_column]),
            "dedupe_by": filter(None, [self.dedupe_by]),
        }
        for option, names in named.items():
            if unknown := [name for name in names if name not in columns]:
                yield f"{option}: its SCHEMA does not declare {', '.join(unknown)}"
        if self.partition_by and self.cluster_by:
            yield "partition_by and cluster_by exclude each other"
        yield from self._problems_of_method(has_key=bool(keys))

    def _problems_of_method(self, *, has_key: bool) -> Iterator[str]:
        method = self.load_method
        if method == "scd2" and not has_key:
            yield "scd2 needs a key; set key_properties"
        if method == "delete-insert" and not (has_key or self.range_column):
            yield "delete-insert needs a key or range_column"
        if method == "partition-overwrite" and not self.partition_by:
            yield "partition-overwrite needs partition_by"
        if self.range_column and method != "delete-insert":
            yield "range_column is for the load_method delete-insert"
        if self.merge_predicate and method != "upsert":
            yield "merge_predicate is for the load_method upsert"
        if self.partial_records and method not in ("upsert", "append-only"):
            yield f"partial_records are for upsert; {method} takes whole records"


def _bare(name: str) -> str:
    """Return a column's name in lower case, without its quotes."""
    return (name[1:-1].replace("``", "`") if name.startswith("`") else name).lower()
