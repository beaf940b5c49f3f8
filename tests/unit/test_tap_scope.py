"""What a SCHEMA says was read: never more than a run reads, whatever limits it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import settings as tries
from hypothesis import strategies as st

from singer_spark import exact_json
from singer_spark.protocol import Scope
from tap_spark_source.plan.key import number_below
from tap_spark_source.plan.read_plan import ReadPlan, plan_read
from tap_spark_source.plan.replication import Replication
from tap_spark_source.plan.scope import (
    Traits,
    completes_version,
    mapped,
    scope_of_late_rows,
    scope_of_read,
)
from tap_spark_source.plan.table import Column, Table
from tap_spark_source.readers.open_window import bounds_of
from tap_spark_source.settings import Settings
from tests.support.memory import MemorySource
from tests.support.ways import BY_AT, BY_AT_AND_ID, BY_ID, Run, incremental, plan, rows

KINDS = {"id": "bigint", "at": "bigint", "day": "date", "code": "string"}
COLUMNS = tuple(Column(name=name, datatype=kind, schema={}) for name, kind in KINDS.items())
TABLE = Table(stream="t", name="t", columns=COLUMNS, keys=("id",))
AT = {"replication_key": "at", "replication_key_value": 100}


def scope(
    *keys: str,
    url: str = "parquet:/x",
    bookmark: dict | None = None,
    method: str | None = None,
    late: bool = False,
    options: dict | None = None,
    table: Table = TABLE,
    **config,
) -> dict:
    """Return the member of the SCHEMA of one stream."""
    method = method or ("INCREMENTAL" if keys or (options or {}).get("new_files") else "FULL_TABLE")
    settings = Settings.from_config(
        {"source_url": url, "snapshot_path": "/s", "stream_options": {"t": options or {}}, **config}
    )
    found = plan_read(
        table,
        settings,
        replication=Replication(method=method, key=keys),
        key_properties=("id",),
        is_selected=lambda _: True,
        bookmark=bookmark or {},
        describe=lambda sql: Column(name=sql, datatype="bigint", schema={}, sql=sql),
    )
    bounds = bounds_of(MemorySource([]), found)
    traits = Traits(is_topic=settings.kind == "kafka", sorts_as_spark=settings.kind != "jdbc")
    said = (scope_of_late_rows if late else scope_of_read)(found, bounds, traits)
    return said.to_dict()["read"]


WHOLE = {"rows": "all"}


def some(why: str) -> dict:
    return {"rows": "some", "why": why}


def part(start=None, end=None, *, nulls: bool = True, column: str = "at") -> dict:
    bounds = {"from": start, "to": end}
    given_bounds = {name: value for name, value in bounds.items() if value is not None}
    return {"rows": "range", "column": column, "nulls": nulls, **given_bounds}


def test_a_full_read_is_whole_and_a_limited_one_is_not():
    assert scope() == WHOLE
    assert scope(options={"where": "x > 1"}) == some("where")
    assert scope(options={"sample": 0.5}) == some("sample")
    assert scope(max_rows=5) == some("max_rows")
    files = {"source_options": {"pathGlobFilter": "*.x"}}
    assert scope(**files) == some("source_options pathGlobFilter")
    assert scope("at", bookmark=AT, **files) == some("source_options pathGlobFilter")
    assert scope(options={"new_files": True}, **files) == some("changes only")
    # What cannot be cut is read in one piece, whatever the limit.
    assert scope(max_rows=5, table=replace(TABLE, keys=())) == WHOLE


def test_the_rest_of_an_interrupted_read_is_not_the_whole():
    marker = {"version": 1, "key": 5, "key_columns": ["id"]}
    assert scope(bookmark={"full_table": marker}) == some("the rest of an interrupted read")
    # Cut along other columns it begins anew.
    other = {**marker, "key_columns": ["code"]}
    assert scope(bookmark={"full_table": other}) == WHOLE
    log = {"method": "LOG_BASED", "url": "delta:/x"}
    assert scope(bookmark={"delta_snapshot": marker}, **log) == some("changes only")


def test_an_incremental_read_is_whole_first_and_then_a_range_from_the_bookmark_on():
    assert scope("at") == WHOLE
    assert scope("at", bookmark=AT) == part(100)
    assert scope("at", bookmark=AT, lookback=30) == part(70)
    assert scope("at", options={"start_value": 5}) == part(5)
    assert scope("at", bookmark=AT, options={"where": "true"}) == some("where")
    assert scope("at", bookmark=AT, max_rows=5) == some("max_rows")
    assert scope("at", bookmark={**AT, "replication_key": "id"}) == WHOLE


def test_rows_without_a_key_belong_to_the_range_only_where_they_are_read():
    exclude = {"null_replication_key": "exclude"}
    assert scope("at", **exclude) == part(nulls=False)
    assert scope("at", bookmark=AT, **exclude) == part(100, nulls=False)
    assert scope("at", null_replication_key="fail") == WHOLE
    never = replace(TABLE, columns=tuple(replace(one, is_nullable=False) for one in COLUMNS))
    assert scope("at", table=never, **exclude) == WHOLE


def test_a_given_window_is_its_range_whatever_the_bookmark_and_the_limit_say():
    window = {"window_start": "10", "window_end": "20", "lookback": 5, "max_rows": 3}
    assert scope("at", bookmark=AT, **window) == part(10, 20, nulls=False)
    assert scope("at", bookmark=AT, window_end="20") == part(None, 20, nulls=False)
    assert scope("at", options={"sample": 0.5}, **window) == some("sample")


def test_late_rows_are_a_range_that_ends_before_the_bookmark():
    late = {"options": {"late_stream": True, "lookback": 30}}
    assert scope("at", bookmark=AT, **late) == part(100)
    assert scope("at", bookmark=AT, late=True, **late) == part(70, 100, nulls=False)
    assert scope("at", bookmark=AT, late=True, max_rows=3, **late) == part(70, 100, nulls=False)
    assert scope("at", late=True, **late) == some("late rows only")
    assert scope("at", late=True, window_start="1", **late) == some("late rows only")


def test_a_list_of_keys_is_a_range_of_its_first_part_where_that_tells_the_rows():
    both = {"replication_key": ["at", "id"], "replication_key_value": [100, 7]}
    certain = tuple(replace(one, is_nullable=one.name != "id") for one in COLUMNS)
    table = replace(TABLE, columns=certain)
    assert scope("at", "id", table=table, bookmark=both) == part(100)
    assert scope("at", "id", bookmark=both)["rows"] == "some"
    assert scope("at", "id", table=table, options={"start_value": [5, 3]})["rows"] == "some"
    assert scope("at", "id", table=table, options={"start_value": [5]}) == part(5)
    assert scope("at", "id") == WHOLE


def test_what_the_target_cannot_compare_is_no_range():
    expression = {"replication_key": "at + 1", "replication_key_value": 100}
    assert scope("at + 1", bookmark=expression) == some("an expression as replication key")
    assert scope("at + 1") == WHOLE
    text = {"replication_key": "code", "replication_key_value": "b"}
    assert scope("code", bookmark=text) == part("b", column="code")
    assert scope("code", bookmark=text, url="jdbc:derby:x")["rows"] == "some"


@pytest.mark.parametrize(
    ("bookmark", "given_scope", "read"),
    [
        ({}, {"method": "LOG_BASED", "url": "delta:/x"}, WHOLE),
        ({"delta_version": 0}, {"method": "LOG_BASED", "url": "delta:/x"}, some("changes only")),
        ({}, {"method": "LOG_BASED", "url": "delta:/x", "max_rows": 2}, some("changes only")),
        ({}, {"options": {"new_files": True, "where": "x"}}, some("changes only")),
        ({}, {"method": "LOG_BASED", "url": "kafka:h:1"}, some("changes only")),
        ({}, {"options": {"new_files": True}}, WHOLE),
        ({"files": {"modified": "2024-01-01T00:00:00+00:00"}}, {"options": {"new_files": True}},
         some("changes only")),
        ({}, {"options": {"snapshot": "rows"}}, some("changes only")),
        ({}, {"options": {"snapshot": "keys"}}, WHOLE),
    ],
)  # fmt: skip
def test_changes_are_not_the_whole(bookmark, given_scope, read):
    assert scope(bookmark=bookmark, **given_scope) == read


def test_a_version_is_complete_only_where_nothing_filters():
    assert completes_version(Scope())
    for why in ("max_rows", "the rest of an interrupted read"):
        assert completes_version(Scope(rows="some", why=why))
    for why in ("where", "sample", "source_options pathGlobFilter"):
        assert not completes_version(Scope(rows="some", why=why))


def test_stream_maps_can_take_a_range_away():
    range_of_at = Scope(rows="range", column="at", start=1)
    read = incremental({}, BY_AT)

    def left(of: Scope, maps: dict, arrives=("id", "at"), **options) -> Scope:
        return mapped(of, replace(read, **options), arrives=arrives, maps=maps)

    for harmless in ({}, {"t": {"code": None}}, {"t": {"at": "at"}}, {"u": {"__filter__": "x"}}):
        assert left(range_of_at, harmless) == range_of_at
        assert left(Scope(), harmless) == Scope()
    for harm in ({"t": {"at": "at[:4]"}}, {"*": {"at": None}}):
        assert left(range_of_at, harm).rows == "some"
        assert left(Scope(), harm) == Scope()
    assert left(range_of_at, {}, arrives=["id"]).rows == "some"
    for dropping in ({"t": {"__filter__": "x"}}, {"b": {"__source__": "t", "__filter__": "x"}}):
        assert left(Scope(), dropping).why == "a filter of stream_maps"
        assert left(Scope(), dropping, new_files=True).why == "changes only"


@tries(max_examples=300, deadline=None)
@given(
    data=st.data(),
    key=st.sampled_from([BY_AT, BY_AT_AND_ID]),
    null_keys=st.sampled_from(["include", "exclude"]),
    lookback=st.integers(0, 3),
    limit=st.none() | st.integers(1, 5),
)
def test_a_run_reads_exactly_what_its_scope_says(data, key, null_keys, lookback, limit):
    """Of any table and any bookmark: `all` are all rows, a `range` is all of it and no other."""
    ats = data.draw(st.lists(st.none() | st.integers(0, 6), max_size=20))
    source = MemorySource(rows(*ats))
    at, number = data.draw(st.none() | st.integers(0, 6)), data.draw(st.integers(0, 20))
    value = at if key is BY_AT else [at, number]
    bookmark = {} if at is None else {"replication_key": key.name, "replication_key_value": value}
    size = data.draw(st.integers(1, 9))
    read = incremental(
        bookmark, key, lookback=lookback, null_keys=null_keys, max_rows=limit, slice_rows=size
    )
    _check(source, read)


@tries(max_examples=200, deadline=None)
@given(ats=st.lists(st.integers(0, 6), max_size=20), number=st.none() | st.integers(0, 20),
       limit=st.none() | st.integers(1, 5), size=st.integers(1, 9))  # fmt: skip
def test_a_full_read_that_is_called_whole_is_whole(ats, number, limit, size):
    bookmark = {} if number is None else {"full_table": {"version": 1, "key": number}}
    read = plan(bookmark, key=BY_ID, max_rows=limit, slice_rows=size)
    assert scope_of_read(read, bounds_of(None, read), Traits()).is_whole == (
        number is None and limit is None
    )
    _check(MemorySource(rows(*ats)), read)


def _check(source: MemorySource, read: ReadPlan) -> None:
    said = scope_of_read(read, bounds_of(source, read), Traits())
    sent = Run(source, read).ids
    if said.rows == "some":
        return
    if said.is_whole:
        assert sent == [row["id"] for row in source.rows]
        return
    assert sent == [row["id"] for row in source.rows if _is_in(said, row[said.column])]


def _is_in(said: Scope, value: int | None) -> bool:
    if value is None:
        return said.nulls
    return said.start is None or value >= said.start


def test_a_bookmark_that_is_a_number_keeps_its_digits():
    price = Column(name="price", datatype="decimal(38,1)", schema={})
    value = exact_json.loads("9007199254740995.1")
    assert number_below(price, value, 0) == "9007199254740995.1"
    with pytest.raises(ValueError, match="is beyond what decimal"):
        number_below(price, exact_json.loads("1e400"), 0)


def test_a_number_beyond_all_measure_is_no_bookmark():
    for datatype, value in (("decimal(20,5)", "1e999999999"), ("decimal(20,5)", 10**1200)):
        with pytest.raises(ValueError):
            number_below(Column(name="a", datatype=datatype, schema={}), value, 0)
