"""Which bookmark a commit carries: the newest that it makes true, never one beyond; no Spark."""

from __future__ import annotations

import contextlib
import io
import json
import threading

import pytest

from target_spark_delta.commits.lanes import Lanes
from target_spark_delta.target import TargetSparkDelta
from tests.support.singer import activate, batch, lines, record, schema, stand_in, state

ID = {"id": {"type": "integer"}}
KEYED, OTHER = schema("s", ID, ["id"]), schema("o", ID, ["id"])
PARTS = {"load_method": "partition-overwrite", "partition_by": ["id"]}


class Spark:
    """Stands for Spark: notes commits, lets one of a stream wait, makes one fail."""

    def __init__(self):
        self.commits, self.failing = [], None
        self.may_go = {}
        self.made = False

    def load_segment(self, _spark, work, segment, commit, *, if_made):
        stream = work.destination.stream
        if stream in self.may_go:
            assert self.may_go[stream].wait(20)
        commit = if_made if self.made else commit
        what = "file" if segment.manifest else segment.rows
        if (stream, what) == self.failing:
            raise ValueError("the disk is full")
        self.commits.append((stream, what, commit.state))

    def activate_version(self, _spark, _destination, version, commit):
        self.commits.append(("activated", version, commit.state))


@pytest.fixture
def spark(monkeypatch):
    spark = Spark()
    jobs = {"load_segment": spark.load_segment, "activate_version": spark.activate_version}
    stand_in(monkeypatch, **jobs)
    return spark


@pytest.fixture
def load(spark, tmp_path):
    def load(*messages, **config):
        config = {"path": str(tmp_path / "lake"), "batch_wait_seconds": 600, **config}
        TargetSparkDelta(config=config).listen(io.StringIO(lines(messages)))
        return spark.commits

    return load


@pytest.fixture
def file(tmp_path):
    (tmp_path / "rows").write_text("")
    return batch("s", (tmp_path / "rows").as_uri())


def one(number, stream="s", **more):
    return record(stream, {"id": number}, **more)


def bookmark(value, stream="s"):
    return state({"bookmarks": {stream: value}})


def test_files_to_merge_carry_the_state_that_follows_them(load, file):
    assert load(KEYED, file, bookmark("A"), file, bookmark("B")) == [
        ("s", "file", "A"),
        ("s", "file", "B"),
    ]


def test_what_waits_is_committed_before_more_of_its_stream(load, file):
    assert load(KEYED, file, file, one(1), file, bookmark("A"), file) == [
        ("s", "file", None),
        ("s", "file", None),
        ("s", 1, None),
        ("s", "file", "A"),
        ("s", "file", "A"),
    ]


def test_a_batch_that_is_full_at_the_last_record_carries_the_state_after_it(load):
    rows = [one(number) for number in range(4)]
    assert load(KEYED, *rows, bookmark("A"), batch_size_rows=2) == [
        ("s", 2, None),
        ("s", 2, "A"),
    ]


def test_what_waits_for_a_state_waits_no_longer_than_a_batch(load, file, spark):
    assert load(KEYED, file, batch_wait_seconds=0, batch_size_rows=1) == [("s", "file", None)]


def test_files_that_replace_a_part_carry_the_last_state_of_the_input(load, file):
    messages = KEYED, file, bookmark("A"), file, bookmark("B")
    assert load(*messages, stream_options={"s": PARTS}) == [
        ("s", "file", None),
        ("s", "file", "B"),
    ]


def test_an_activation_carries_the_state_after_it(load, spark):
    messages = KEYED, one(1, version=7), activate("s", 7), bookmark("A")
    assert load(*messages) == [("s", 1, None), ("activated", 7, "A")]
    spark.commits.clear()
    spark.made = True
    assert load(*messages) == [("s", 1, "A"), ("activated", 7, "A")], "nothing older is there"


def test_a_version_that_is_not_the_only_one_leaves_the_state_to_its_activation(load, spark):
    spark.made = True
    rows = one(1, version=6), one(2, version=7)
    assert load(KEYED, *rows, activate("s", 7), bookmark("A"))[0] == ("s", 2, None)


def test_a_commit_carries_the_digits_of_a_state(load):
    line = '{"type": "STATE", "value": {"bookmarks": {"s": {"at": 9007199254740995.1}}}}\n'
    load(KEYED, one(1), line)
    ((_, _, carried),) = load(KEYED, one(1), line)[-1:]
    assert carried["at"].text == "9007199254740995.1"


def test_after_a_failed_batch_nothing_of_its_stream_is_committed(load, spark, capsys):
    spark.failing = ("s", 3)
    spark.may_go = {"s": threading.Event()}
    threading.Timer(0.3, spark.may_go["s"].set).start()
    first = [one(number) for number in range(3)]
    with pytest.raises(ValueError, match="disk"):
        load(KEYED, *first, bookmark("A"), one(9), bookmark("B"), batch_size_rows=3)
    assert spark.commits == []
    assert capsys.readouterr().out == ""


def test_what_is_submitted_after_a_failure_is_not_run():
    def fail(_):
        raise ValueError("no")

    done = []
    loader = Lanes(lambda: None, object, 1)
    loader.submit("s", 1, fail)
    loader.settle()
    loader.submit("s", 2, lambda _: done.append("s"))
    loader.submit("o", 3, lambda _: done.append("o"))
    loader.settle()
    assert (done, loader.completed()) == (["o"], [3])
    with contextlib.suppress(ValueError):
        loader.completed()


def test_a_state_of_all_streams_is_carried_only_when_all_before_it_is_committed(load, spark):
    whole = {"s": 1, "o": 1}
    spark.may_go = {"o": threading.Event()}

    def let_go():
        while not spark.commits:
            threading.Event().wait(0.01)
        spark.may_go["o"].set()

    threading.Thread(target=let_go, daemon=True).start()
    assert load(KEYED, OTHER, one(1), one(1, "o"), state(whole)) == [
        ("s", 1, None),
        ("o", 1, whole),
    ], "the first is committed while the other is not"


def test_a_state_of_all_streams_is_carried_by_a_stream_that_is_alone(load):
    rows = [one(number) for number in range(3)]
    commits = load(KEYED, OTHER, *rows, state({"at": 3}), batch_size_rows=2)
    assert commits == [("s", 2, None), ("s", 1, {"at": 3})]


def test_a_stream_that_failed_keeps_the_state_of_all_out_of_the_others(load, spark):
    spark.failing = ("s", 1)
    rows = one(1), one(1, "o"), state({"all": 1}), one(2, "o"), state({"all": 2})
    with pytest.raises(ValueError, match="disk"):
        load(KEYED, OTHER, *rows)
    assert json.dumps(spark.commits).count("all") == 0
