"""Decides what to read: table, settings and bookmark in, a ReadPlan out. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from singer_spark.assignment import Loaded
from singer_spark.errors import SettingsError, SourceError
from singer_spark.figures import parse_duration
from tap_spark_source.plan.key import Key
from tap_spark_source.plan.replication import Replication
from tap_spark_source.plan.source_settings import limiting_option, place_of
from tap_spark_source.plan.table import Column, Table
from tap_spark_source.plan.window import Window, plan_window
from tap_spark_source.settings import Settings, StreamOptions
from tap_spark_source.settings_schema import FULL_TABLE, INCREMENTAL, LOG_BASED, SLICE_ROWS

DELETED_AT = "_sdc_deleted_at"
_DELETION = Column(
    name=DELETED_AT,
    datatype="timestamp",
    schema={"type": ["string", "null"], "format": "date-time", "x-sql-datatype": "timestamp"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """What to read of one table: `key` is what it is read along, `bookmark` what was read.

    `whole_key` is what a read of the whole table is cut along, whatever the method. A read that
    `reads_on` ends with the rows from the highest key at its start on, so that no row is missing
    that was changed meanwhile. A window that is read `at_once` is one query: without a key nothing
    tells the two versions of such a row apart. One that `skips_known` sends no row where all that
    it would send is known. One that `is_observed` learns how many rows Spark has written. `limit`
    is the option of the source by which files are left out; `loaded` is what becomes of the rows,
    None where nobody says, `version` that of a load which is numbered.
    """

    table: Table
    columns: tuple[Column, ...]
    key_properties: tuple[str, ...]
    bookmark: Mapping[str, Any] = field(default_factory=dict)
    where: str | None = None
    sample: float | None = None
    limit: str | None = None
    key: Key | None = None
    whole_key: Key | None = None
    partition_column: str | None = None
    window: Window | None = None
    slice_rows: int = SLICE_ROWS
    max_rows: int | None = None
    partitions: int = 1
    late_stream: bool = False
    method: str = FULL_TABLE
    new_files: bool = False
    lookback: float = 0
    snapshot: Snapshot | None = None
    singer_decimal: bool = False
    reads_on: bool = False
    at_once: bool = False
    skips_known: bool = False
    is_observed: bool = False
    loaded: Loaded | None = None
    version: int = 0

    @property
    def filter(self) -> str | None:
        """Name what keeps rows of the table from being read, whenever it is read."""
        if self.where is not None:
            return "where"
        return self.limit if self.sample is None else "sample"

    @property
    def is_merged(self) -> bool:
        """Say whether a key tells that rows which come twice are one, as far as is known."""
        return bool(self.key_properties) and (self.loaded is None or self.loaded.by_key)

    @property
    def way_anew(self) -> str:
        """Say how to load the stream anew: what is appended would be there twice."""
        is_added = self.loaded is not None and not (self.loaded.by_key or self.loaded.replaces)
        first = "remove the table if its rows are appended, then " if is_added else ""
        return f"{first}run with --refresh {self.table.stream}"

    @property
    def has_deletions(self) -> bool:
        """Say whether records can be deletions that no column of the table tells of."""
        return self.method == LOG_BASED or self.snapshot is not None

    @property
    def properties(self) -> tuple[Column, ...]:
        """What records may carry."""
        told = not self.has_deletions or any(one.name == DELETED_AT for one in self.columns)
        return self.columns if told else (*self.columns, _DELETION)


def plan_read(
    table: Table,
    settings: Settings,
    *,
    replication: Replication,
    key_properties: tuple[str, ...],
    is_selected: Callable[[str], bool],
    bookmark: Mapping[str, Any],
    describe: Callable[[str], Column] | None = None,
) -> ReadPlan:
    """Decide what to read of a table; `describe` asks the source about an expression."""
    options = settings.of_stream(table.stream)
    _refuse_contradictions(table.stream, settings.kind, replication, options)
    is_log = replication.method == LOG_BASED
    # A lake knows no keys of its own, and the first read of a log can take long.
    whole_key = _cutting_key(table, options, key_properties if is_log else ())
    key, window = whole_key, None
    always = set(key_properties)
    if replication.key:
        key = Key(parts=tuple(_part(table, name, describe) for name in replication.key))
        window = plan_window(table.stream, key, settings, bookmark)
        always |= {part.name for part in key.parts if part.sql is None}
    if missing := sorted(name for name in always if table.column(name) is None):
        raise SourceError(
            f"{table.stream}: table {table.label} has no column {', '.join(missing)}; correct the "
            "key properties, or discover again"
        )
    columns = tuple(one for one in table.columns if one.name in always or is_selected(one.name))
    if flag := options.deleted_flag:
        columns = (*columns, _deletion(table, flag, describe))
    if not columns:
        raise SettingsError(f"{table.stream}: no column is selected; select one, or deselect it")
    return ReadPlan(
        table=table,
        columns=columns,
        key_properties=key_properties,
        bookmark=bookmark,
        where=options.where,
        sample=options.sample,
        limit=limiting_option(settings),
        key=key,
        whole_key=whole_key,
        partition_column=options.partition_column,
        window=window,
        slice_rows=settings.slice_rows,
        max_rows=settings.max_rows,
        partitions=options.num_partitions or settings.partitions,
        late_stream=bool(options.late_stream),
        method=replication.method,
        new_files=replication.method == INCREMENTAL and bool(options.new_files),
        lookback=settings.lookback_of(table.stream),
        snapshot=plan_snapshot(table, settings, key_properties),
        singer_decimal=settings.singer_decimal,
    )


def _refuse_contradictions(
    stream: str, kind: str, replication: Replication, options: StreamOptions
) -> None:
    compares = options.is_compared
    if compares and kind == "kafka":
        raise SettingsError(f"{stream}: a topic tells deletions itself; remove snapshot")
    if options.sample is not None and (compares or replication.method == LOG_BASED):
        raise SettingsError(
            f"{stream}: sample draws other rows in each run, which LOG_BASED and snapshot would "
            "take for changes; remove one of them"
        )
    if options.deleted_flag and replication.method == LOG_BASED:
        raise SettingsError(
            f"{stream}: deleted_flag does not go with LOG_BASED, whose log tells deletions itself; "
            "remove it"
        )


def _cutting_key(table: Table, options: StreamOptions, given: tuple[str, ...]) -> Key | None:
    """Return the key that a full read is cut along: the primary key, unless told otherwise."""
    name = options.partition_column
    if name and table.column(name) is None:
        raise SettingsError(
            f"{table.stream}: partition_column {name} is no column of the "
            "table; name one of its columns"
        )
    names = (name,) if name else given or table.keys
    parts = tuple(column for column in map(table.column, names) if column and column.can_be_key)
    return Key(parts=parts) if parts and len(parts) == len(names) else None


def _part(table: Table, name: str, describe: Callable[[str], Column] | None) -> Column:
    part = _column_or_expression(table, name, describe, "replication key")
    if not part.has_order:
        raise SettingsError(
            f"{table.stream}: {name} cannot be a replication key, because its database does not "
            "sort it, or otherwise than it compares it; use an expression such as "
            f"cast({name} as …)"
        )
    if not part.can_be_key:
        raise SettingsError(
            f"{table.stream}: {name} of type {part.datatype} cannot be a replication key; choose a "
            "time, an exact number, a text or bytes"
        )
    return part


def _column_or_expression(
    table: Table, name: str, describe: Callable[[str], Column] | None, what: str
) -> Column:
    """Return a column, or an expression as if it were one."""
    found = table.column(name)
    if found is None and describe is not None and not re.fullmatch(r"\w+", name):
        try:
            found = describe(name)
        except SourceError as error:
            raise SettingsError(
                f"{table.stream}: {what} {name} is neither a column nor an expression that the "
                f"source understands: {error.message}"
            ) from error
    if found is None:
        raise SourceError(
            f"{table.stream}: {what} {name} is no column of {table.label}; correct it in the "
            "catalog or in stream_options"
        )
    return found


def _deletion(table: Table, flag: str, describe: Callable[[str], Column] | None) -> Column:
    """Return the column that tells deletions: when, where the flag is a time, else now."""
    if table.column(DELETED_AT) is not None:
        raise SettingsError(f"{table.stream}: the table has {DELETED_AT}; remove deleted_flag")
    found = _column_or_expression(table, flag, describe, "deleted_flag")
    value = found.parse or "{}"
    if found.is_time:
        parse = f"cast({value} as timestamp)"
    elif found.datatype == "boolean" or (found.is_number and not found.is_decimal_text):
        parse = f"if(cast({value} as boolean), current_timestamp(), null)"
    else:
        raise SettingsError(
            f"{table.stream}: deleted_flag {flag} of type {found.datatype} says neither whether "
            "nor when; give a boolean, a number, a time, or an expression of these"
        )
    origin, kind = None if found.sql else found.name, _DELETION.datatype
    return replace(
        found, name=DELETED_AT, origin=origin, datatype=kind, schema=_DELETION.schema, parse=parse
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyForm:
    """Of which source keys are, and how they are written: keys of another form do not compare."""

    source: str
    key: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Write the form as it is kept beside the keys."""
        return {"source": self.source, "key": list(self.key)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> KeyForm:
        """Read the form that is kept."""
        return cls(source=found["source"], key=tuple(found["key"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A comparison by keys or by whole rows, and the seconds between two of them."""

    mode: str
    path: str
    form: KeyForm
    every: int = 0


def plan_snapshot(table: Table, settings: Settings, key: Sequence[str]) -> Snapshot | None:
    """Read the options of a table's stream."""
    stream, path, options = table.stream, settings.snapshot_path, settings.of_stream(table.stream)
    mode, every = options.snapshot, options.snapshot_every
    if mode is None or not options.is_compared:
        return None
    if not path:
        raise SettingsError(f"{stream}: snapshot {mode} needs snapshot_path, where snapshots live")
    seconds = parse_duration(every) if every is not None else 0
    if seconds is None:
        raise SettingsError(
            f"{stream}: snapshot_every must be a duration with its unit, such as 6h, 30m or 90s"
        )
    keys = [column for column in map(table.column, key) if column]
    written = tuple(_written(column, as_text=settings.singer_decimal) for column in keys)
    form = KeyForm(source=place_of(settings), key=written)
    return Snapshot(mode=mode, path=path, form=form, every=seconds)


def _written(column: Column, *, as_text: bool) -> str:
    """Name a column and what its JSON depends on; a wider type of the same texts is the same."""
    if column.is_integer:
        return f"{column.name} integer"
    if scale := re.fullmatch(r"decimal\(\d+,(\d+)\)", column.datatype):
        return f"{column.name} decimal of scale {scale[1]}{' as text' if as_text else ''}"
    return f"{column.name} {column.datatype}"
