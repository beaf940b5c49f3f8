"""Many streams at once: bounded files, bytes and keys, without Spark."""

from __future__ import annotations

import io
import json
import tracemalloc

import pytest

from target_spark_delta import target
from target_spark_delta.commits import cutting
from target_spark_delta.intake import segments
from target_spark_delta.target import TargetSparkDelta
from tests.support.singer import lines, record, schema, state


class DoneLanes:
    """Commits nothing, and says at once that it has; notes what it was given."""

    def __init__(self, *_):
        self.pending, self._done, self.jobs = 0, [], []

    def warm_up(self):
        pass

    def submit(self, stream, number, _):
        self.jobs.append(stream)
        self._done.append(number)

    def completed(self):
        done, self._done = self._done, []
        return done

    def wait_for_one(self):
        return False

    def settle(self):
        pass


@pytest.fixture
def load(monkeypatch, tmp_path):
    monkeypatch.setattr(target, "Lanes", DoneLanes)

    def load(source, **config):
        plugin = TargetSparkDelta(config={"path": str(tmp_path / "lake"), **config})
        plugin.listen(source if hasattr(source, "fileno") else io.StringIO(lines(source)))
        return plugin

    return load


def interleaved(streams, records, **more):
    for number in range(streams):
        yield schema(f"s{number}", {"id": {"type": "integer"}, "t": {"type": "string"}}, ["id"])
    for number in range(records):
        yield record(f"s{number % streams}", {"id": number, **more})
    yield state({"done": records})


def test_only_so_many_files_are_open_and_no_line_is_lost(load, monkeypatch, tmp_path):
    monkeypatch.setattr(segments, "_MOST_OPEN_FILES", 5)
    monkeypatch.setattr(segments, "_open_files", type(segments._open_files)())
    kept = {}

    def keep(segment):
        assert len(segments._open_files) <= 5
        texts = segment.path.read_text().splitlines()
        kept[segment.stream] = [json.loads(text)["record"]["id"] for text in texts if text]

    monkeypatch.setattr(segments.Segment, "remove", keep)
    load(interleaved(20, 200))
    assert kept == {f"s{n}": list(range(n, 200, 20)) for n in range(20)}
    assert not segments._open_files


def test_members_of_a_message_never_become_members_of_its_line(load, monkeypatch):
    """They would hide the record, or change its place."""
    kept = []
    monkeypatch.setattr(
        segments.Segment, "remove", lambda segment: kept.append(segment.path.read_text())
    )
    text = '"!":"x","record":{"id":1},"#":-1,"\\u0021":"y","~":[],"version":2'
    load([*interleaved(1, 0), f'{{"type":"RECORD","stream":"s0",{text}}}\n'])
    assert kept == ['{"#":3,"version":2,"record":{"id":1}}\n']


def test_the_largest_batch_is_merged_when_all_together_hold_too_much(load, capsys):
    messages = list(interleaved(20, 4000, t="x" * 100))
    size = len(lines(messages)) // 20
    plugin = load(messages, batch_size_bytes=size, batch_size_rows=10**9)
    early = len(plugin._queue.lanes.jobs) - 20
    assert early >= 10, "of twenty batches only four fit into the budget"
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"done": 4000}


def test_keys_are_noted_only_while_they_are_few(load, monkeypatch):
    noted = []
    monkeypatch.setattr(cutting, "_MOST_KEYS", 1500)
    monkeypatch.setattr(
        segments.Segment, "remove", lambda segment: noted.append(segment.facts is not None)
    )
    load(interleaved(4, 6000))
    assert noted.count(False) >= 2
    noted.clear()
    load(interleaved(4, 400))
    assert noted == [True] * 4


def test_all_streams_are_merged_with_a_full_one_if_that_is_asked(load):
    messages = [*interleaved(3, 9), *(record("s0", {"id": 100 + n}) for n in range(10))]
    plain = load(messages, batch_size_rows=8)._queue.lanes.jobs
    asked = load(messages, batch_size_rows=8, flush_all_streams=True)._queue.lanes.jobs
    assert plain.index("s0") < plain.index("s1")
    assert asked[:3] == ["s0", "s1", "s2"]


def test_options_of_no_stream_are_warned_of(load, caplog):
    load(interleaved(2, 2), stream_options={"s?": {}, "S0": {}, "other.*": {}})
    said = [one.message for one in caplog.records if "no stream is named" in one.message]
    assert said == [f"stream_options: no stream is named {name}" for name in ("S0", "other.*")]


def test_memory_stays_small_however_many_records_and_streams(load):
    class Endless(io.RawIOBase):
        """A file that is made while it is read."""

        def __init__(self, messages):
            self._lines = (json.dumps(message).encode() + b"\n" for message in messages)

        def fileno(self):
            raise OSError

        def __iter__(self):
            return self._lines

    tracemalloc.start()
    load(Endless(interleaved(100, 10_000, t="x" * 5000)), batch_size_bytes=2_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 25_000_000, "of 50 MB"
