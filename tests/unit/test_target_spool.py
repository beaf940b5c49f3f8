"""Records on disk, and which STATE has become true."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_spark.errors import TransientError
from target_spark_delta.commits.states import States, is_syncing, state_of
from target_spark_delta.intake.batch_files import Manifest, Rules
from target_spark_delta.intake.segments import Range, Segment, carried_member
from target_spark_delta.rows.batch_lines import line_maker


def read(segment):
    return [json.loads(line) for line in segment.path.read_bytes().splitlines()]


def test_a_line_is_the_record_with_its_number_and_what_it_carries(tmp_path):
    segment = Segment.open(tmp_path, "s")
    segment.append(b'{"a":1.10}', 7)
    segment.append(b"{}", 8, carried_member(['q"uote', "ü"]))
    segment.close()
    assert segment.path.read_bytes().splitlines()[0] == b'{"#":7,"record":{"a":1.10}}'
    assert read(segment)[1] == {"#": 8, "~": ['q"uote', "ü"], "record": {}}
    assert (segment.rows, segment.size) == (2, segment.path.stat().st_size)


def test_a_segment_splits_at_the_last_state(tmp_path):
    segment = Segment.open(tmp_path, "s")
    segment.append(b'{"n":1}', 1)
    segment.mark()
    segment.append(b'{"n":2}', 3)
    segment.mark()
    segment.append(b'{"n":3}', 5)
    rest = segment.split_at_mark(tmp_path)
    rest.append(b'{"n":4}', 6)
    rest.close()
    assert [line["record"]["n"] for line in read(segment)] == [1, 2]
    assert [line["record"]["n"] for line in read(rest)] == [3, 4]
    assert (segment.rows, rest.rows) == (2, 2)
    assert (segment.size, rest.size) == tuple(s.path.stat().st_size for s in (segment, rest))


def test_a_segment_that_ends_at_a_state_leaves_no_rest(tmp_path):
    segment = Segment.open(tmp_path, "s")
    segment.append(b'{"n":1}', 1)
    segment.mark()
    assert segment.split_at_mark(tmp_path) is None


def test_a_state_with_nothing_before_it_is_true_at_once():
    states = States()
    states.take(b"{}", 1)
    assert states.release() == b"{}"
    assert states.release() is None


def test_a_state_waits_for_every_stream():
    states = States()
    states.begin(1, "s")
    states.begin(2, "s")
    states.take(b"A", 1)
    states.commit(1)
    assert states.release() is None
    states.begin(3, "s")
    states.take(b"B", 1)
    states.commit(2)
    assert states.release() == b"A"
    states.commit(3)
    assert states.release() == b"B"


def test_states_that_become_true_together_cost_one_place():
    states = States()
    states.begin(1, "s")
    for number in range(100_000):
        states.take(b"%d" % number, 1)
    assert len(states._held) == 1
    states.commit(1)
    assert states.release() == b"99999"


events = st.lists(
    st.tuples(st.sampled_from(["begin", "hold", "commit"]), st.integers(0, 5)), max_size=60
)


@given(events)
def test_no_state_is_released_before_all_that_came_before_it_is_committed(happened):
    states, begun, committed, held = States(), [], set(), {}
    last = -1
    for step, (what, which) in enumerate(happened):
        if what == "begin":
            begun.append(step)
            states.begin(step, "s")
        elif what == "hold":
            held[step] = set(begun)
            states.take(b"%d" % step, 1)
        elif begun:
            segment = begun[which % len(begun)]
            committed.add(segment)
            states.commit(segment)
        released = states.release()
        if released is not None:
            assert held[int(released)] <= committed
            assert int(released) > last
            last = int(released)
    for segment in begun:
        states.commit(segment)
    final = states.release()
    if held and max(held) != last:
        assert final == b"%d" % max(held)


def test_a_streams_part_of_a_state_is_its_bookmark_or_the_whole():
    assert state_of("a", b'{"bookmarks":{"a":{"x":1}}}') == {"x": 1}
    assert state_of("b", b'{"bookmarks":{"a":{"x":1}}}') is None
    assert state_of("a", b'{"x":1}') == {"x": 1}
    assert state_of("a", b"5") == 5
    assert state_of("a", None) is None


def test_a_stream_that_its_tap_is_syncing_is_not_complete():
    state = b'{"currently_syncing": "a", "bookmarks": {"a": {"last_pk_fetched": 5}}}'
    assert is_syncing("a", state)
    assert not is_syncing("b", state)
    assert not is_syncing("a", b'{"currently_syncing": null}')
    assert not is_syncing("a", b"5")


def test_a_batch_of_rejected_records_alone_has_no_facts_of_keys(tmp_path):
    segment = Segment.open(tmp_path, "s")
    segment.keys = set()
    segment.note_facts(["a", "b"])
    assert segment.facts is None


def test_the_facts_of_a_batch_name_each_key_where_there_are_few(tmp_path):
    segment = Segment.open(tmp_path, "s")
    segment.keys = {(number, "x" if number % 2 else None) for number in range(60)}
    segment.note_facts(["a", "b"])
    assert segment.facts.ranges == {
        "a": Range("0", "59", 0),
        "b": Range("x", "x", 1, ("x",)),
    }


def test_whole_numbers_that_were_written_with_a_point_are_left_to_spark(tmp_path):
    segment = Segment.open(tmp_path, "s")
    segment.keys = {5, 9007199254740993.0}
    segment.note_facts(["a"])
    assert segment.facts is None


def test_a_full_disk_is_one_line(tmp_path):
    segment = Segment.open(tmp_path, "s")
    segment.path = Path("/dev/full")
    segment.append(b"{}", 1)
    with pytest.raises(TransientError, match="No space left on device; free some space"):
        segment.close()


def test_a_disk_that_is_full_when_a_segment_is_split_is_one_line(tmp_path, monkeypatch):
    segment = Segment.open(tmp_path, "s")
    segment.append(b'{"n":1}', 1)
    segment.mark()
    segment.append(b'{"n":"%b"}' % (b"x" * 100_000), 2)
    monkeypatch.setattr(Segment, "open", lambda *_: full)
    full = Segment("s", Path("/dev/full"))
    full._write = full._open_and_write
    with pytest.raises(TransientError, match="No space left on device; free some space"):
        segment.split_at_mark(tmp_path)


@pytest.mark.parametrize("full", [True, False])
def test_what_follows_a_record_in_a_batch_file_never_becomes_a_member(full):
    rules = Rules(
        stream="s",
        schema={"properties": {"id": {"type": "integer"}}},
        keys=[],
        full=full,
        partial=False,
    )
    make = line_maker(Manifest(files=("f",), format="jsonl", line=3, rules=rules), quotes=True)
    texts = [b'{"id":1}', b'5,"!":null', b'{"id":%b},"!":null' % (b"9" * 5000), b'{"id":1},"#":-1']
    rows = [(number, "f", text, None) for number, text in enumerate(texts)]
    (made,) = make(iter([tuple(map(pa.array, zip(*rows, strict=True)))]))
    pairs = [json.loads(row["line"], object_pairs_hook=list) for row in made.to_pylist()]
    names = [[name for name, _ in line] for line in pairs]
    assert [line.count("!") for line in names] == [0, 1, 1, 1]
    assert all(line.count("#") == 1 for line in names)
