"""What is new, and where to go on: the pure decisions of the ways that follow changes."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singer_spark.assignment import Loaded
from singer_spark.errors import SchemaError, StateError
from tap_spark_source.plan.read_plan import ReadPlan
from tap_spark_source.plan.table import Table
from tap_spark_source.readers.delta_log import stops
from tap_spark_source.readers.kafka_log import cuts, known_starts, runs
from tap_spark_source.readers.new_files import chunks, new_files, seen_after
from tap_spark_source.sources.files import FoundFile, is_complete
from tap_spark_source.sources.kafka.connect import given_field
from tap_spark_source.sources.kafka.debezium import fields_of, keys_of, read_event, tell_types


def decimal(scale: str) -> dict:
    name = "org.apache.kafka.connect.data.Decimal"
    return {"type": "bytes", "name": name, "parameters": {"scale": scale}}


def file(name: str, modified: str) -> FoundFile:
    return FoundFile(name=name, path=f"file:/x/{name}", modified=modified)


def test_new_files_come_in_order_and_ties_at_the_bookmark_are_told_by_name():
    found = [file("c", "2"), file("b", "2"), file("a", "1"), file("d", "3")]
    seen = {"modified": "2", "names": ["b"]}
    assert [one.name for one in new_files(found, seen)] == ["c", "d"]
    assert [one.name for one in new_files(found, {})] == ["a", "b", "c", "d"]


def test_a_replaced_file_is_new_again():
    seen = seen_after([file("a", "1"), file("b", "2")], {}, found=[file("b", "2")])
    assert new_files([file("a", "3"), file("b", "2")], seen) == [file("a", "3")]


def test_the_names_of_one_instant_are_gathered_over_pieces():
    a, b, c, d = file("a", "1"), file("b", "2"), file("c", "2"), file("d", "3")
    seen = seen_after([a, b], {}, found=[a, b, c, d])
    assert seen == {"modified": "2", "names": ["b"]}
    after = seen_after([c], seen, found=[a, b, c, d])
    assert after == {"modified": "2", "names": ["b", "c"]}
    assert seen_after([d], after, found=[a, b, c, d]) == {"modified": "3", "names": ["d"]}


def minute(number: int) -> str:
    return f"2026-01-01T00:{number:02}:00.000000+00:00"


def test_a_lookback_beyond_the_calendar_reaches_every_file():
    a, b = file("a", minute(1)), file("b", minute(5))
    seen = seen_after([b], {}, lookback=1e12, found=[a, b])
    assert new_files([a, b], seen, lookback=1e12) == [a]


class CountedFiles:
    """Files of two rows each."""

    def __init__(self, *files: FoundFile) -> None:
        self.files = list(files)

    def files_of(self, _table):
        return self.files

    def count_by_file(self, _plan, files):
        return [2 for _ in files]

    def wanted_rows_of(self, _plan, files):
        return files

    def rows_of(self, found, _plan):
        return found


def test_files_that_a_limit_leaves_are_told_as_left():
    source = CountedFiles(*(file(name, minute(at)) for at, name in enumerate("abcd")))
    read = ReadPlan(table=Table(stream="t", name="t"), columns=(), key_properties=(), max_rows=3)
    (first,) = chunks(source, read)
    assert ([one.name for one in first.frame], first.is_last) == (["a", "b"], False)
    (rest,) = chunks(source, replace(read, bookmark=first.bookmark))
    assert ([one.name for one in rest.frame], rest.is_last) == (["c", "d"], True)


def test_within_the_lookback_a_file_that_appears_late_is_found_and_none_is_repeated():
    a, b, c = (file(name, minute(at)) for name, at in (("a", 1), ("b", 5), ("c", 9)))
    late, too_late = file("late", minute(4)), file("too late", minute(3))
    seen = seen_after([a, b, c], {}, lookback=300, found=[a, b, c])
    assert seen == {"modified": minute(9), "names": {"b": minute(5), "c": minute(9)}}
    found = [a, b, c, late, too_late]
    assert new_files(found, seen, lookback=300) == [late]
    seen = seen_after([late], seen, lookback=300, found=found)
    assert list(seen["names"]) == ["b", "c", "late"]
    assert new_files(found, seen, lookback=300) == []
    d = file("d", minute(12))
    assert new_files([*found, d], seen, lookback=300) == [d]
    seen = seen_after([d], seen, lookback=300, found=[*found, d])
    assert seen == {"modified": minute(12), "names": {"c": minute(9), "d": minute(12)}}


def test_within_the_lookback_a_file_is_new_again_when_it_is_replaced_by_an_older_one():
    a, b, c = (file(name, minute(at)) for name, at in (("a", 5), ("b", 6), ("c", 9)))
    seen = seen_after([a, b, c], {}, lookback=300, found=[a, b, c])
    for at in (4, 7):
        replaced = file("b", minute(at))
        assert new_files([a, replaced, c], seen, lookback=300) == [replaced]
    after = seen_after([replaced], seen, lookback=300, found=[a, replaced, c])
    assert new_files([a, replaced, c], after, lookback=300) == []
    # Names without times, as earlier releases kept them, stay known.
    names = {"modified": minute(9), "names": ["a", "b", "c"]}
    assert new_files([a, replaced, c], names, lookback=300) == []
    assert seen_after([c], names, lookback=0, found=[a, b, c])["names"] == ["c"]


@pytest.mark.parametrize("lookback", [0, 300])
def test_a_replaced_file_that_a_limit_leaves_is_not_taken_for_the_one_before(lookback):
    old, first, second = file("z", minute(1)), file("a", minute(2)), file("z", minute(2))
    seen = seen_after([old], {}, lookback=lookback, found=[old])
    seen = seen_after([first], seen, lookback=lookback, found=[first, second])
    assert new_files([first, second], seen, lookback=lookback) == [second]


def listed(files: dict[str, int], now: int) -> list[FoundFile]:
    """Return the files of a folder, by name and minute, as a list made at a minute shows them."""
    return [
        replace(file(name, minute(at)), is_future=at > now) for name, at in sorted(files.items())
    ]


@settings(max_examples=500, deadline=None)
@given(data=st.data(), lookback=st.sampled_from([0, 300]))
def test_whatever_the_clocks_say_each_file_is_read_once(data, lookback):
    """Files of now, of the future, replaced and of equal times; runs that end in the middle."""
    files, seen, read, now = {}, {}, [], 0
    put = []
    for _ in range(data.draw(st.integers(1, 6))):
        now += data.draw(st.integers(0, 5))
        for name in data.draw(st.lists(st.sampled_from("abcdefgh"), max_size=4)):
            at = now + data.draw(st.sampled_from([0, 0, 0, 1, 20]))
            if files.get(name) != at:
                files[name] = at
                put.append((name, minute(at)))
        there = listed(files, now)
        fresh = new_files(there, seen, lookback=lookback)
        cut = data.draw(st.integers(0, len(fresh)))
        for some in filter(None, (fresh[:cut], fresh[cut:] if data.draw(st.booleans()) else [])):
            read += [(one.name, one.modified) for one in some]
            seen = seen_after(some, seen, lookback=lookback, found=there)
            assert seen.get("modified", "") <= minute(now)
    left = new_files(listed(files, now), seen, lookback=lookback)
    read += [(one.name, one.modified) for one in left]
    assert {(name, minute(at)) for name, at in files.items()} <= set(read)
    assert all(read.count(one) <= put.count(one) for one in read)


def test_a_bookmark_of_the_future_is_told(caplog):
    now = datetime.now(timezone.utc)
    ahead = (now + timedelta(days=1)).isoformat(timespec="microseconds")
    source = CountedFiles(replace(file("a", ahead), is_future=True), file("b", minute(1)))
    read = ReadPlan(table=Table(stream="t", name="t"), columns=(), key_properties=())
    (chunk,) = chunks(source, read)
    assert chunk.bookmark["files"] == {
        "modified": minute(1),
        "names": {"a": ahead, "b": minute(1)},
    }
    assert "t: 1 files have a time of modification in the future, such as a of" in caplog.text
    caplog.clear()
    list(chunks(source, replace(read, bookmark=chunk.bookmark)))
    assert caplog.text == ""
    kept = {"files": {"modified": ahead, "names": ["a"]}}
    list(chunks(source, replace(read, bookmark=kept)))
    assert "not found: run with --refresh t" in caplog.text
    appended = replace(read, bookmark=kept, loaded=Loaded())
    list(chunks(source, appended))
    assert "found: remove the table if its rows are appended, then run with --ref" in caplog.text


def test_names_of_files_that_are_no_texts_are_a_state_error():
    bookmark = {"files": {"modified": minute(1), "names": [1, "a"]}}
    table = Table(stream="t", name="t")
    plan = ReadPlan(table=table, columns=(), key_properties=(), bookmark=bookmark)
    with pytest.raises(StateError, match="t: the bookmark's files must hold modified and names"):
        list(chunks(None, plan))
    with pytest.raises(StateError, match="must hold modified and names"):
        list(chunks(None, replace(plan, bookmark={"files": {"names": {"a": 1}}})))
    for modified in ("yesterday", 5):
        bookmark = {"files": {"modified": modified, "names": []}}
        with pytest.raises(StateError, match="must hold modified and names"):
            list(chunks(None, replace(plan, bookmark=bookmark)))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("part-0.csv", True),
        ("day=1/part-0.csv", True),
        ("_day=1/part-0.csv", True),
        ("_temporary/0/part-0.csv", False),
        ("_SUCCESS", False),
        (".part-0.csv.crc", False),
        (".hidden/part-0.csv", False),
        ("part-0.csv.tmp", False),
        ("part-0.csv.inprogress", False),
        ("part-0.csv._COPYING_", False),
    ],
)
def test_half_written_and_hidden_files_are_left_out(name, expected):
    assert is_complete(name) is expected


def test_a_topic_is_read_from_the_offsets_of_its_bookmark():
    assert known_starts("s", {"0": 5}, {"0": 9, "1": 4}) == {"0": 5}
    assert known_starts("s", None, {"0": 9}) == {}


@pytest.mark.parametrize("seen", [[1], {"0": "5"}, {"0": -1}, {"0": True}])
def test_offsets_that_are_none_are_a_state_error(seen):
    with pytest.raises(StateError, match="must be a number for each partition"):
        known_starts("s", seen, {"0": 9})


@pytest.mark.parametrize("seen", [{"0": 10}, {"0": 1, "7": 1}])
def test_a_topic_that_was_made_anew_is_noticed(seen):
    with pytest.raises(StateError, match="made anew; remove the stream's bookmark"):
        known_starts("s", seen, {"0": 9})


def test_events_are_cut_into_steps_that_end_at_the_pinned_offsets():
    ends = {"0": 9, "1": 4}
    assert cuts({"0": 5, "1": 0}, ends, rows=4, most=None) == [
        {"0": 7, "1": 2},
        {"0": 9, "1": 4},
    ]
    assert cuts({"0": 0, "1": 0}, ends, rows=100, most=2) == [{"0": 1, "1": 1}]
    assert cuts({"0": 0}, {"0": 9}, rows=3, most=4) == [{"0": 3}, {"0": 4}]
    assert cuts(ends, ends, rows=4, most=None) == []
    assert cuts({"0": 0}, {"0": 0}, rows=1, most=None) == []


def test_events_are_cut_where_their_schema_changes():
    start, stop = {"0": 0, "1": 4}, {"0": 9, "1": 8}
    assert runs(start, stop, {}) == [(stop, None)]
    assert runs(start, stop, {"0": [(2, "a")], "1": [(5, "a")]}) == [(stop, "a")]
    assert runs(start, stop, {"0": [(0, "a"), (3, "b")], "1": [(4, "b")]}) == [
        ({"0": 3, "1": 4}, "a"),
        (stop, "b"),
    ]
    back = {"0": [(0, "a"), (3, "b"), (5, "a")], "1": [(4, "a"), (6, "a"), (7, "b")]}
    assert runs(start, stop, back) == [
        ({"0": 3, "1": 7}, "a"),
        ({"0": 5, "1": 8}, "b"),
        (stop, "a"),
    ]
    assert runs(stop, stop, {}) == []


def test_deletions_alone_tell_no_types():
    text = '{"before": {"id": 1, "x": %s}, "after": %s, "op": "d"}'
    keys_only = read_event('{"id": 1}', text % ("null", "null"))
    assert not tell_types([keys_only])
    assert tell_types([keys_only, read_event('{"id": 1}', text % ("5", "null"))])
    assert tell_types([keys_only, read_event('{"id": 1}', text % ("null", '{"id": 1}'))])


def test_commits_are_cut_into_steps_that_end_at_the_pinned_version():
    rows = {3: 4, 5: 4, 6: 1, 9: 2}
    assert stops(rows, 10, size=100, most=None) == [10]
    assert stops(rows, 10, size=5, most=None) == [5, 10]
    assert stops(rows, 9, size=3, most=None) == [3, 5, 9]
    assert stops(rows, 10, size=100, most=8) == [5]
    assert stops(rows, 10, size=4, most=9) == [3, 5, 6]
    assert stops({}, 10, size=1, most=1) == [10]


def test_what_is_no_event_says_nothing_of_columns():
    assert read_event("k", None) is None
    assert read_event(None, "no json") is None
    assert read_event(None, '{"status": "BEGIN"}') is None
    event = read_event('{"id": 1}', '{"before": null, "after": {"id": 1, "x": 1.5}, "op": "c"}')
    assert keys_of([event]) == ("id",)
    kinds = [(field.name, field.json_type) for field in fields_of([event])]
    assert kinds == [("id", "bigint"), ("x", "double")]


AFTER = {"op": "c", "before": None, "after": {"id": 1}}


@pytest.mark.parametrize(
    "schema",
    [
        {"fields": None},
        {"fields": ["after"]},
        {"fields": [{"field": "after", "type": "string", "name": "io.debezium.data.Json"}]},
        {"fields": [{"field": "after", "fields": [{"type": "int32"}]}]},
        {"fields": [{"field": "after", "fields": [{"field": "a", "type": "array"}]}]},
        {"fields": [{"field": "after", "fields": [{"field": "a", "type": []}]}]},
        {"fields": [{"field": "after", "fields": [{"field": "a", **decimal("many")}]}]},
    ],
    ids=str,
)
def test_a_schema_of_another_shape_is_one_clear_line(schema):
    event = read_event(None, json.dumps({"schema": schema, "payload": AFTER}))
    with pytest.raises(SchemaError, match=r"^shop\.a: the schema of an event is none of a table's"):
        fields_of([event], "shop.a")


def test_events_without_rows_are_one_clear_line():
    event = read_event(None, json.dumps({**AFTER, "after": '{"_id": 1}'}))
    assert tell_types([event])
    with pytest.raises(SchemaError, match=r"^shop\.a: the events hold no rows of a table"):
        fields_of([event], "shop.a")


def test_a_given_type_is_one_of_spark_or_of_debezium():
    assert given_field("a", "decimal(38,2)").json_type == "decimal(38,2)"
    assert given_field("a", "decimal(10,2)").native == "decimal(10,2)"
    assert given_field("a", "io.debezium.time.MicroTimestamp").json_type == "bigint"
    with pytest.raises(SchemaError, match="a: nonsense is neither"):
        given_field("a", "nonsense")
