"""Slices, resuming, lookback and limits, over random tables, changes and sudden ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singer_spark.assignment import Loaded
from singer_spark.errors import DataError, SettingsError
from singer_spark.protocol import Scope
from tap_spark_source.plan.key import Key, Survey, cuts_of
from tap_spark_source.plan.read_plan import ReadPlan
from tap_spark_source.plan.scope import read_for
from tap_spark_source.plan.table import Column
from tap_spark_source.plan.window import Window
from tap_spark_source.readers import chunks
from tests.support.memory import MemorySource
from tests.support.readers import BY_AT, BY_AT_AND_ID, BY_ID, TABLE, Run, incremental, plan, rows

KEYS = st.sampled_from([BY_AT, BY_AT_AND_ID])
SIZES = {
    "slice_rows": st.integers(1, 9),
    "partitions": st.integers(1, 4),
    "max_rows": st.none() | st.integers(1, 9),
    "is_observed": st.booleans(),
}


@settings(max_examples=300, deadline=None)
@given(data=st.data(), key=KEYS, lookback=st.integers(0, 3))
def test_whatever_happens_between_and_during_runs_the_target_equals_the_source(data, key, lookback):
    source, target, bookmark = MemorySource(rows(*data.draw(_ats()))), {}, {}
    for _ in range(data.draw(st.integers(1, 5))):
        options = {name: data.draw(strategy) for name, strategy in SIZES.items()}
        killed = data.draw(st.none() | st.integers(0, 3))
        read = incremental(bookmark, key, lookback=lookback, **options)
        busy = data.draw(st.sets(st.integers(0, 3)))

        def meanwhile(number, busy=busy):
            if number in busy:
                newest = max((row["at"] or 0 for row in source.rows), default=0)
                _change(source, data, newest, lookback)

        run = Run(source, read, killed_after=killed, meanwhile=meanwhile)
        _check_repeats(run, read)
        target |= {row["id"]: row for row in run.rows}
        bookmark = run.bookmark
        _change(source, data, _bookmark_at(bookmark, key), lookback)
    while not (run := Run(source, incremental(bookmark, key, lookback=lookback))).is_complete:
        pass
    target |= {row["id"]: row for row in run.rows}
    assert target == {row["id"]: row for row in source.rows}


def _ats():
    return st.lists(st.none() | st.integers(0, 6), max_size=25)


def _bookmark_at(bookmark: dict, key: Key) -> int:
    value = bookmark.get("replication_key_value", 0)
    return value[0] if isinstance(value, list) else value


def _change(source: MemorySource, data, at: int, lookback: int) -> None:
    """Insert and update rows, late by no more than the lookback covers."""
    floor = max(0, at - lookback)
    for new in data.draw(st.lists(st.integers(floor, at + 8), max_size=8)):
        source.rows.append({"id": len(source.rows), "at": new, "code": "new"})
    for number in data.draw(st.lists(st.integers(0, 40), max_size=4)):
        if number < len(source.rows):
            # A row of a low id that is changed at the very time of the bookmark included.
            source.rows[number] |= {"at": data.draw(st.integers(at, at + 1)), "code": "changed"}


def _check_repeats(run: Run, read: ReadPlan) -> None:
    """No run repeats more than the lookback and the last key value, nor a row that stays twice."""
    seen = [(row["id"], row["at"]) for row in run.rows]
    assert len(seen) == len(set(seen))
    if read.window.start is not None:
        lowest = read.window.start[0] - read.window.lookback
        assert all(row["at"] is None or row["at"] >= lowest for row in run.rows)


@settings(max_examples=300, deadline=None)
@given(data=st.data(), ats=st.lists(st.integers(0, 9), max_size=30))
def test_an_interrupted_full_load_goes_on_where_it_stopped(data, ats):
    source, bookmark, seen, versions = MemorySource(rows(*ats)), {"kept": 1}, [], set()
    is_complete, kills = False, 0
    while not is_complete:
        options = {name: data.draw(strategy) for name, strategy in SIZES.items()}
        killed = data.draw(st.none() | st.integers(0, 3)) if kills < 4 else None
        run = Run(source, plan(bookmark, key=BY_ID, **options), killed_after=killed)
        kills += 1
        seen += run.rows
        bookmark, is_complete = run.bookmark, run.is_complete
        versions |= {b["full_table"]["version"] for b in run.bookmarks if "full_table" in b}
    assert bookmark == {"kept": 1}
    assert {row["id"] for row in seen} == set(range(len(ats)))
    assert len(versions) <= 1


@settings(deadline=None)
@given(
    ats=st.lists(st.integers(0, 3), max_size=40),
    limit=st.integers(1, 5),
    lookback=st.integers(0, 2),
    key=KEYS,
)
def test_limited_runs_end_when_nothing_is_left(ats, limit, lookback, key):
    source, bookmark, target, runs = MemorySource(rows(*ats)), {}, set(), 0
    while True:
        read = incremental(bookmark, key, max_rows=limit, lookback=lookback, slice_rows=3)
        run = Run(source, read)
        target |= set(run.ids)
        runs += 1
        if run.bookmark == bookmark:
            break
        bookmark = run.bookmark
    assert target == set(range(len(ats)))
    assert runs <= len(ats) / limit + 2


def test_thousands_of_rows_with_one_key_are_neither_lost_nor_read_forever():
    source = MemorySource(rows(*[1] * 3000, 2, *[3] * 3000))
    first = Run(source, incremental({}, BY_AT, slice_rows=10, max_rows=10))
    assert len(first.rows) == 3000
    assert first.bookmark["replication_key_value"] == 1
    second = Run(source, incremental(first.bookmark, BY_AT, slice_rows=10, max_rows=10))
    assert second.bookmark["replication_key_value"] == 3
    assert len(second.rows) == 6001


def test_a_state_follows_every_slice_and_a_single_slice_costs_one_question():
    source = MemorySource(rows(*range(10)))
    run = Run(source, incremental({}, BY_AT, slice_rows=4))
    assert [b["replication_key_value"] for b in run.bookmarks] == [3, 7, 9]
    source.questions = 0
    again = Run(source, incremental(run.bookmark, BY_AT))
    assert (again.ids, source.questions) == ([9], 1)


@pytest.mark.parametrize(
    ("ats", "ids", "at", "questions"),
    [
        ([1, 4, 6, 7, 9, 8], [1, 2, 3, 4, 5], 9, 1),
        ([1, 4, 6, 7], [1, 2, 3], 7, 1),
        # To warn of it takes one more.
        ([1, 4, 6], [1, 2], 7, 2),
        ([1, 2], [], 7, 2),
        ([1, 4, 6, None, 9], [1, 2, 3, 4], 9, 1),
    ],
    ids=["new rows", "nothing new", "ahead", "nothing at all", "without a key"],
)
@pytest.mark.parametrize("key", [BY_AT, BY_AT_AND_ID])
def test_a_lookback_is_surveyed_and_read_with_what_is_new(key, ats, ids, at, questions):
    source, number = MemorySource(rows(*ats)), 3
    bookmark = {"replication_key_value": 7 if key is BY_AT else [7, number]}
    run = Run(source, incremental(bookmark, key, lookback=3, is_observed=True))
    value = run.bookmark["replication_key_value"]
    assert (run.ids, len(run.bookmarks), run.is_complete) == (ids, 1, True)
    assert (value if key is BY_AT else value[0]) == at
    assert source.questions == questions


@pytest.mark.parametrize(
    ("options", "pieces_below"),
    [({"slice_rows": 3}, 1), ({"late_stream": True}, 1), ({"max_rows": 9}, 1), ({}, 0)],
    ids=["more than a slice", "late rows apart", "limited", "together"],
)
def test_rows_of_a_lookback_are_a_piece_of_their_own_where_they_must_be(options, pieces_below):
    source = MemorySource(rows(*range(10)))
    known = {"replication_key": "at", "replication_key_value": 7}
    read = incremental(known, BY_AT, lookback=3, is_observed=True, **options)
    found = list(chunks(source, read, version=1))
    apart = [row["at"] for one in found if one.below_bookmark for row in one.frame or ()]
    assert apart == [4, 5, 6] * pieces_below
    counted = [one.below.condition for one in found if one.below]
    assert counted == ["`at` < cast('7' as bigint)"] * (not pieces_below)
    assert [row["at"] for one in found for row in one.frame or ()] == [4, 5, 6, 7, 8, 9]


def test_where_a_rows_number_says_no_more_what_is_new_is_asked_for_alone():
    """Of a list key the row at the bookmark may be gone, or come again below or above it."""
    known = {"replication_key": ["at", "id"], "replication_key_value": [5, 9]}
    for number, value in ((3, [5, 9]), (12, [5, 12])):
        source = MemorySource([{"id": number, "at": 5}, {"id": 1, "at": 4}])
        read = incremental(known, BY_AT_AND_ID, lookback=1, is_observed=True)
        run = Run(source, read)
        assert (run.ids, run.bookmark["replication_key_value"]) == ([1, number], value)


def test_a_table_that_surely_fits_one_slice_is_not_looked_at_ahead():
    source = MemorySource(rows(1, 2, 3))
    small = replace(plan({}, key=BY_ID), table=replace(TABLE, most_rows=100))
    assert Run(source, small).ids == [0, 1, 2]
    assert source.questions == 0


def test_a_whole_read_has_the_rows_that_were_changed_while_it_went_on():
    """Or they would be taken for rows that are gone."""
    source = MemorySource(rows(1, 2, 3, 4))

    def change(number: int) -> None:
        if number == 0:
            source.rows[3]["at"] = 9

    usual = Run(source, incremental({}, BY_AT, slice_rows=2), meanwhile=change)
    assert usual.ids == [0, 1, 2]
    source = MemorySource(rows(1, 2, 3, 4))
    whole = Run(source, incremental({}, BY_AT, slice_rows=2, reads_on=True), meanwhile=change)
    assert whole.ids == [0, 1, 2, 3]
    assert whole.bookmark["replication_key_value"] == 4, "what commits late must be read next time"
    assert whole.is_complete


@pytest.mark.parametrize("before", [1, 4, 9], ids=["in slices", "looked back", "nothing new"])
def test_a_range_that_is_read_on_has_the_rows_that_left_it_for_its_end(before):
    """Or a target that replaces the range would remove them."""
    source = MemorySource(rows(1, 2, 3, 4))
    known = {"replication_key": "at", "replication_key_value": before}

    def change(number: int) -> None:
        if number == 0:
            source.rows[3]["at"] = 10

    read = incremental(known, BY_AT, slice_rows=2, lookback=8, reads_on=True)
    run = Run(source, read, meanwhile=change)
    assert {*run.ids} == {0, 1, 2, 3}
    assert run.bookmark["replication_key_value"] == max(before, 4)
    assert run.is_complete


def last_range_first(source: MemorySource, moved_to: object) -> None:
    """Let the first row leave the first range, unread, for the last one, which was read before."""
    source.order = lambda ranges: ranges[::-1]
    source.between = lambda: source.rows[0].update(at=moved_to)


@pytest.mark.parametrize("key", [BY_AT, BY_AT_AND_ID])
@pytest.mark.parametrize("kind", ["whole", "range", "window"])
def test_a_row_that_gets_the_highest_key_itself_is_read_too(key, kind):
    """A coarse key: what is read on must not begin behind the rows that have it already."""
    source = MemorySource(rows(1, 2, 3, 4))
    last_range_first(source, moved_to=4)
    zero = [0] * len(key.parts)
    known = {"replication_key_value": zero if len(zero) > 1 else 0}
    options = {"slice_rows": 9, "partitions": 2, "reads_on": True}
    if kind == "window":
        window = Window(start=tuple(map(str, zero)), is_fixed=True, null_keys="exclude")
        read = plan({}, key=key, window=window, **options)
    else:
        read = incremental(known if kind == "range" else {}, key, **options)
    assert {*Run(source, read).ids} == {0, 1, 2, 3}


def test_rows_without_a_key_that_are_to_be_replaced_are_read_in_one_query():
    """Slices would find the old version of a row and, if it is changed meanwhile, the new one."""
    source = MemorySource(rows(None, 1, 2, 3, 4))
    known = {"replication_key": "at", "replication_key_value": 3}
    for bookmark, ids in (({}, [0, 1, 2, 3, 4]), (known, [0, 2, 3, 4])):
        read = incremental(bookmark, BY_AT, slice_rows=2, lookback=1, reads_on=True, at_once=True)
        source.queries = 0
        run = Run(source, replace(read, key_properties=()))
        assert (run.ids, source.queries, run.is_complete) == (ids, 1, True)
        assert run.bookmark["replication_key_value"] == 4
    window = Window(start=("2",), end=("4",), is_fixed=True)
    run = Run(source, plan({}, key=BY_AT, window=window, slice_rows=1, reads_on=True, at_once=True))
    assert (run.ids, len(run.bookmarks)) == ([2, 3], 1)


def test_a_short_window_that_is_read_on_is_one_query():
    source = MemorySource(rows(1, 2, 3, 4))
    known = {"replication_key": "at", "replication_key_value": 3}
    run = Run(source, incremental(known, BY_AT, reads_on=True))
    assert (run.ids, source.queries, len(run.bookmarks)) == ([2, 3], 1, 1)


@pytest.mark.parametrize(("keys", "reads_on"), [(("id",), True), (("id",), False), ((), True)])
def test_a_full_read_along_a_time_has_the_rows_that_were_changed_meanwhile(keys, reads_on):
    by_time = Key(parts=(Column(name="at", datatype="timestamp", schema={}),))
    source = MemorySource(rows("1", "2", "3", "4"))

    last_range_first(source, moved_to="9")
    read = plan({}, key=by_time, slice_rows=9, partitions=2, reads_on=reads_on)
    run = Run(source, replace(read, key_properties=keys))
    # Without a key nothing would tell that a row which comes twice is one; a comparison counts.
    assert run.ids == ([0, 1, 2, 3, 3] if keys and reads_on else [1, 2, 3])
    assert run.is_complete


@pytest.mark.parametrize("reloads", [True, False])
@pytest.mark.parametrize("way", ["by time", "full table"])
def test_rows_that_are_appended_come_once(way, reloads):
    """Nothing tells that two of them are one, whatever key the tap knows."""
    by_time = Key(parts=(Column(name="at", datatype="timestamp", schema={}),))
    read = plan({}, key=by_time, slice_rows=9, partitions=2)
    if way == "by time":
        read = incremental({}, BY_AT, slice_rows=2)
    ats = ["1", "2", "3", "4"] if way == "full table" else [1, 2, 3, 4]
    for loaded in (Loaded(), Loaded(replaces=True, is_sure=False), Loaded(is_sure=False)):
        read_on = read_for(read, Scope(), loaded, reloads=reloads)
        assert Run(MemorySource(rows(*ats)), read_on).ids == [0, 1, 2, 3]
    by_key = read_for(read, Scope(), Loaded(by_key=True), reloads=reloads)
    is_read_on = reloads or way == "full table"
    assert Run(MemorySource(rows(*ats)), by_key).ids == [0, 1, 2, 3] + [3] * is_read_on


def test_a_full_read_is_not_complete_before_what_moved_is_read():
    by_time = Key(parts=(Column(name="at", datatype="timestamp", schema={}),))
    read = plan({"a": 1}, key=by_time, slice_rows=2, partitions=1, reads_on=True)
    source = MemorySource(rows("1", "2", "3", "4"))
    marks = [one.get("full_table", {}).get("key") for one in Run(source, read).bookmarks]
    assert marks == ["2", "4", "4", None]


@pytest.mark.parametrize("end", [None, (20,)])
def test_a_fixed_window_is_read_on_to_its_end_without_doubling_a_row(end):
    source = MemorySource(rows(1, 2, 3, 4))

    def change(number: int) -> None:
        if number == 0:
            source.rows[3]["at"] = 9
            source.rows.append({"id": 4, "at": 30, "code": "late"})

    window = Window(start=(1,), end=end, is_fixed=True, null_keys="exclude")
    read = plan({"a": 1}, key=BY_AT, window=window, slice_rows=2, reads_on=True)
    run = Run(source, read, meanwhile=change)
    assert run.ids == ([0, 1, 2, 3, 4] if end is None else [0, 1, 2, 3])
    assert (run.bookmark, run.is_complete) == ({"a": 1}, True)


def test_the_bookmark_is_the_highest_key_and_not_that_of_the_last_row():
    assert Run(MemorySource(rows(5, 9, 1)), incremental({}, BY_AT)).bookmark == {
        "replication_key": "at",
        "replication_key_value": 9,
    }


def test_numbers_are_compared_as_numbers_and_texts_as_their_source_does():
    ahead = {"replication_key": "at", "replication_key_value": 9}
    run = Run(MemorySource(rows(9, 10)), incremental(ahead, BY_AT))
    assert run.bookmark["replication_key_value"] == 10
    by_code = Key(parts=(TABLE.column("code"),))
    ahead = {"replication_key": "code", "replication_key_value": "9"}
    run = Run(MemorySource(rows(9, 10)), incremental(ahead, by_code))
    assert (run.ids, run.bookmark) == ([0], ahead)


def test_the_lookback_never_reaches_the_bookmark_even_if_the_newest_row_is_gone():
    bookmark = {"replication_key": "at", "replication_key_value": 9}
    run = Run(MemorySource(rows(5, 7)), incremental(bookmark, BY_AT, lookback=2))
    assert (run.ids, run.bookmark) == ([1], bookmark)


def test_rows_without_a_key_are_read_once_per_run_even_if_nothing_else_is():
    bookmark = {"replication_key": "at", "replication_key_value": 9}
    source = MemorySource(rows(None, 5, 9, 10, 11))
    assert Run(source, incremental(bookmark, BY_AT, slice_rows=1)).ids == [0, 2, 3, 4]
    assert Run(MemorySource(rows(None, 5)), incremental(bookmark, BY_AT)).ids == [0]
    excluded = incremental(bookmark, BY_AT, null_keys="exclude")
    assert Run(source, excluded).ids == [2, 3, 4]
    with pytest.raises(DataError, match="t: 1 rows have no at"):
        Run(source, incremental(bookmark, BY_AT, null_keys="fail"))


def test_a_list_key_goes_on_with_all_rows_of_its_first_value():
    bookmark = {"replication_key": ["at", "id"], "replication_key_value": [5, 9]}
    source = MemorySource([{"id": n, "at": at} for n, at in ((3, 5), (9, 5), (1, 6), (2, 4))])
    run = Run(source, incremental(bookmark, BY_AT_AND_ID))
    assert run.ids == [1, 3, 9]
    assert run.bookmark["replication_key_value"] == [6, 1]
    assert Run(source, incremental(bookmark, BY_AT_AND_ID, lookback=1)).ids == [1, 2, 3, 9]


@pytest.mark.parametrize(("start", "end"), [(5, 4), (5, 5), (10, 9)])
def test_a_window_that_holds_nothing_is_told(start, end):
    window = Window(start=(start,), end=(end,), is_fixed=True)
    with pytest.raises(SettingsError, match=f"t: window_start {start} is not below window_end"):
        Run(MemorySource(rows(5)), plan({}, key=BY_AT, window=window))


def test_a_highest_key_that_is_no_number_never_becomes_a_bookmark():
    price = Column(name="at", datatype="string", schema={"format": "x-singer.decimal"})
    source = MemorySource([{"id": 1, "at": "NaN"}])
    read = plan({}, key=Key(parts=(price,)), window=Window())
    with pytest.raises(DataError, match=r"t: the key at is NaN, .*; leave such rows out by where"):
        Run(source, read)


@settings(deadline=None)
@given(
    size=st.integers(0, 50),
    step=st.integers(1, 7),
    partitions=st.integers(1, 6),
    ties=st.booleans(),
)
def test_cuts_are_ascending_and_never_more_than_asked_for(size, step, partitions, ties):
    marks = tuple((n, (str(n // 10 if ties else n),)) for n in range(1, size + 1) if n % step == 0)
    cuts = cuts_of(Survey(marks=marks), below=size + 1, partitions=partitions)
    assert len(cuts) < partitions or not cuts
    numbers = [int(text) for (text,) in cuts]
    assert numbers == sorted(set(numbers))
