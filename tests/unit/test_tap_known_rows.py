"""What a bookmark says of the rows at it, and when a run has nothing to send. In memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from singer_spark.assignment import Loaded
from singer_spark.protocol import AT_BOOKMARK, Scope
from singer_spark.state.change import move_bookmark
from tap_spark_source.plan.key import Key
from tap_spark_source.plan.scope import read_for
from tap_spark_source.sources.row_json import REREAD, RowDigest, RowWatch
from tests.support.memory import MemorySource, rows_of
from tests.support.readers import BY_AT, BY_AT_AND_ID, TABLE, Run, incremental, rows

KNOWN = [1, 2, 3, 3, None]


def _known(key=BY_AT, at=3, lookback=0, ats=KNOWN):
    """Return a source and the bookmark of a run that has sent all of it."""
    source = MemorySource(rows(*ats))
    value = at if key is BY_AT else [at, 3]
    bookmark = {"replication_key": key.name, "replication_key_value": value}
    sent = [row for row in source.rows if row["at"] is None or row["at"] >= at - lookback]
    read = incremental(bookmark, key, lookback=lookback)
    return source, {**bookmark, AT_BOOKMARK: rows_of(sent).to_dict(read)}


def _run(source, bookmark, key=BY_AT, **options):
    return Run(source, incremental(bookmark, key, **{"skips_known": True, **options}))


@pytest.mark.parametrize("key", [BY_AT, BY_AT_AND_ID])
@pytest.mark.parametrize("lookback", [0, 1])
def test_where_nothing_is_new_no_row_is_sent_and_the_bookmark_stays(key, lookback):
    source, bookmark = _known(key, lookback=lookback)
    run = _run(source, bookmark, key, lookback=lookback)
    assert (run.rows, run.bookmarks, run.is_complete) == ([], [bookmark], True)
    assert source.questions == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows[2].update(code="changed"),
        lambda rows: rows.pop(3),
        lambda rows: rows.append({"id": 9, "at": 3, "code": "3"}),
        lambda rows: rows.append({"id": 9, "at": None, "code": ""}),
        lambda rows: rows.append(dict(rows[2])),
        lambda rows: rows.append({"id": 9, "at": 4, "code": "4"}),
    ],
    ids=["changed", "deleted", "new at it", "new without a key", "doubled", "beyond"],
)
def test_any_change_at_the_bookmark_or_beyond_it_sends_the_rows(change):
    source, bookmark = _known()
    change(source.rows)
    run = _run(source, bookmark)
    assert run.ids == sorted(row["id"] for row in source.rows if row["at"] in (None, 3, 4))
    assert AT_BOOKMARK not in run.bookmark


@pytest.mark.parametrize(
    "other",
    [
        {"skips_known": False},
        {"where": "id > 0"},
        {"lookback": 1},
        {"null_keys": "exclude"},
        {"late_stream": True},
        {"sample": 0.5},
        {"singer_decimal": True},
        {"slice_rows": 2},
    ],
    ids=lambda other: next(iter(other)),
)
def test_another_read_sends_the_rows(other):
    assert _run(*_known(), **other).rows


@pytest.mark.parametrize("told", [None, {}, {"rows": 3}, {"rows": "3", "digest": "x"}, 7])
def test_an_old_or_a_foreign_bookmark_sends_the_rows(told):
    source, bookmark = _known()
    assert _run(source, {**bookmark, AT_BOOKMARK: told}).ids == [2, 3, 4]


def test_other_columns_have_another_digest():
    read = incremental({}, BY_AT)
    found = RowDigest(number=2, total=7)
    fewer = replace(read, columns=read.columns[:-1])
    other = replace(read, columns=(*read.columns[:-1], replace(read.columns[-1], datatype="int")))
    digests = {found.to_dict(one)["digest"] for one in (read, fewer, other)}
    assert len(digests) == 3


def test_slices_say_nothing_of_the_rows_at_the_bookmark_before_the_last_one():
    source, bookmark = _known()
    source.rows += [{"id": 10 + at, "at": at, "code": ""} for at in range(4, 9)]
    run = _run(source, bookmark, slice_rows=2)
    assert len(run.bookmarks) > 2
    assert not any(AT_BOOKMARK in one for one in run.bookmarks)


def test_what_is_not_observed_is_forgotten_for_good():
    digest = RowWatch(column=REREAD, plan=incremental({}, BY_AT), condition="true")
    digest.add({f"{REREAD}_rows": 2, f"{REREAD}_total": 5})
    digest.add({f"{REREAD}_rows": 0, f"{REREAD}_total": None})
    assert digest.rows == RowDigest(number=2, total=5)
    digest.rows = None
    digest.add({f"{REREAD}_rows": 2, f"{REREAD}_total": 5})
    assert digest.rows is None


@pytest.mark.parametrize(
    ("loaded", "reloads", "is_told", "skips"),
    [
        (Loaded(by_key=True), False, True, True),
        (Loaded(by_key=True), False, False, False),
        (Loaded(by_key=True, replaces=True), False, True, False),
        (Loaded(by_key=True), True, True, False),
    ],
)
def test_known_rows_are_left_out_only_where_nothing_is_replaced(loaded, reloads, is_told, skips):
    read = read_for(incremental({}, BY_AT), Scope(), loaded, reloads=reloads, is_told=is_told)
    assert read.skips_known is skips


def test_an_expression_as_key_says_nothing_of_the_rows_at_the_bookmark():
    key = Key(parts=(replace(TABLE.column("at"), sql="at + 0"),))
    source, bookmark = _known()
    assert _run(source, bookmark, key).rows


def test_a_bookmark_that_is_moved_by_hand_forgets_the_rows_at_it():
    _, bookmark = _known()
    moved = move_bookmark({"bookmarks": {"t": bookmark}}, "t", "2")
    assert moved["bookmarks"]["t"] == {"replication_key": "at", "replication_key_value": 2}
