"""Counting in passing agrees with parsing, however the bytes are cut."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from singer_spark.runner import streams as tally_module
from singer_spark.runner.streams import Tally

STREAMS = ["orders", "orders2", "order", "a,b", 'quo"te', "ü", "x\\y", "s5", "s6", "s7", "s8"]
TRAPS = ['\n{"type":"RECORD","stream":"orders",', '{"type": "RECORD", "stream": "orders"}', ""]


def spell(message, style):
    """Write a message as different taps do."""
    if style == "compact":
        return json.dumps(message, separators=(",", ":"), ensure_ascii=False)
    if style == "sorted":
        return json.dumps(message, sort_keys=True)
    if style == "stream first" and "stream" in message:
        return json.dumps({"stream": message["stream"], **message})
    return json.dumps(message)


@st.composite
def lines(draw):
    kind = draw(st.sampled_from(["RECORD"] * 6 + ["SCHEMA", "STATE", "BATCH", "junk", "blank"]))
    if kind in ("junk", "blank"):
        return "not JSON" if kind == "junk" else ""
    message = {"type": kind, "stream": draw(st.sampled_from(STREAMS))}
    if kind == "RECORD":
        message["record"] = {"text": draw(st.sampled_from(TRAPS)), "n": draw(st.integers(0, 9))}
    if kind == "STATE":
        message = {"type": kind, "value": {"stream": "orders", "type": "RECORD"}}
    return spell(message, draw(st.sampled_from(["compact", "plain", "sorted", "stream first"])))


def parsed_counts(texts):
    counts = Counter()
    for text in texts:
        message = json.loads(text) if text.startswith("{") else {}
        if message.get("type") in ("RECORD", "SCHEMA"):
            counts[message["stream"]] += message["type"] == "RECORD"
    return dict(counts)


@settings(max_examples=150, deadline=None)
@given(st.lists(lines(), max_size=40), st.integers(1, 400), st.booleans())
def test_counts_agree_with_parsing_wherever_the_blocks_are_cut(texts, size, last_break):
    data = "\n".join(texts).encode() + b"\n" * last_break
    tally = Tally()
    for start in range(0, len(data), size):
        tally.feed(data[start : start + size])
    tally.close()

    assert tally.counts == parsed_counts(texts)


def test_long_runs_of_one_stream_are_counted_without_looking_at_lines(monkeypatch):
    tally = Tally()
    line = b'{"type":"RECORD","stream":"orders","record":{}}\n'
    tally.feed(line * 3)
    monkeypatch.setattr(tally, "_count_lines", None)
    for _ in range(3):
        tally.feed(line * 1000)

    assert tally.counts == {"orders": 3003}


def test_a_line_longer_than_memory_allows_is_counted_by_its_head(monkeypatch):
    monkeypatch.setattr(tally_module, "LINE_KEPT", 100)
    tally = Tally()
    tally.feed(b'{"type":"RECORD","stream":"orders","record":{"x":"')
    for _ in range(100):
        tally.feed(b"y" * 50)
        assert len(tally._open_line) <= 100
    tally.feed(b'"}}\n{"type":"RECORD","stream":"orders","record":{}}\n')

    assert tally.counts == {"orders": 2}
