"""One slow stream holds back neither the others' commits nor a STATE that does not speak of it."""

from __future__ import annotations

import io
import json
import threading

import pytest

from target_spark_delta.commits import queue
from target_spark_delta.commits.lanes import Lanes
from target_spark_delta.target import TargetSparkDelta
from tests.support.singer import lines, record, schema, stand_in, state

PATIENCE = 20


class Commits:
    """Stands for Spark: a commit of the stream `slow` lasts until it is let go."""

    def __init__(self):
        self.let_go = threading.Event()
        self.order = []

    def __call__(self, _spark, work, segment, _commit, **_):
        if work.destination.stream == "slow":
            assert self.let_go.wait(PATIENCE)
        self.order.append((segment.stream, segment.rows))


@pytest.fixture
def commits(monkeypatch):
    commits = Commits()
    stand_in(monkeypatch, load_segment=commits)
    return commits


def declared(*streams):
    return [schema(one, {"id": {"type": "integer"}}, ["id"]) for one in streams]


def records(stream, count):
    return [record(stream, {"id": number}) for number in range(count)]


def load(messages, tmp_path, **config):
    config = {"path": str(tmp_path), "parallelism": 2, "batch_size_rows": 2, **config}
    TargetSparkDelta(config=config).listen(io.StringIO(lines(messages)))


class Released(io.StringIO):
    """Standard output that lets the slow stream go once a STATE is out."""

    def __init__(self, wanted, let_go):
        super().__init__()
        self._wanted, self._let_go = wanted, let_go

    def write(self, text):
        written = super().write(text)
        if self._wanted in self.getvalue():
            self._let_go.set()
        return written


def test_a_state_before_the_slow_streams_records_is_released_while_it_is_busy(
    commits, tmp_path, monkeypatch
):
    out = Released('"quick"', commits.let_go)
    monkeypatch.setattr("sys.stdout", out)
    messages = [
        *declared("quick", "slow"),
        *records("quick", 2),
        state({"at": "quick"}),
        *records("slow", 2),
        state({"at": "slow"}),
        *records("quick", 2),
        state({"at": "end"}),
    ]
    load(messages, tmp_path)
    states = [json.loads(line)["at"] for line in out.getvalue().splitlines()]
    assert states[0] == "quick", "or the slow stream would never have been let go"
    assert states[-1] == "end"


def test_others_are_committed_while_the_slow_stream_is_busy(commits, tmp_path, capsys):
    done = threading.Event()

    def let_go_when_all_others_are_done():
        while commits.order.count(("quick", 2)) < 3 and not done.wait(0.01):
            pass
        commits.let_go.set()

    watcher = threading.Thread(target=let_go_when_all_others_are_done)
    watcher.start()
    load([*declared("slow", "quick"), *records("slow", 2), *records("quick", 6)], tmp_path)
    done.set()
    watcher.join()
    assert commits.order[-1] == ("slow", 2)
    assert capsys.readouterr().out == ""


def test_streams_take_turns_however_much_one_of_them_has_sent():
    order, begin = [], threading.Event()
    loader = Lanes(lambda: None, object, 1)
    loader.submit("first", 0, lambda _: begin.wait(PATIENCE))
    for number in range(1, 4):
        loader.submit("busy", number, lambda _: order.append("busy"))
    loader.submit("other", 9, lambda _: order.append("other"))
    begin.set()
    loader.settle()
    assert order == ["busy", "other", "busy", "busy"]


def test_no_more_streams_are_worked_on_at_a_time_than_asked(monkeypatch, tmp_path):
    running, most, lock = set(), [], threading.Lock()

    def commit(_spark, _work, segment, _commit, **_):
        with lock:
            running.add(segment.stream)
            most.append(len(running))
        threading.Event().wait(0.02)
        with lock:
            running.remove(segment.stream)

    monkeypatch.setattr(queue, "load_segment", commit)
    monkeypatch.setattr(TargetSparkDelta, "_engine", lambda _: None)
    monkeypatch.setattr(TargetSparkDelta, "_isolate", lambda *_: object())
    names = [f"s{number}" for number in range(12)]
    load([*declared(*names), *(m for n in names for m in records(n, 4))], tmp_path, parallelism=3)
    assert max(most) == 3
