"""Bytes into messages."""

from __future__ import annotations

import contextlib
import io
import os
import threading

import pytest

from singer_spark.errors import DataError, ProtocolError
from target_spark_delta.intake import messages
from target_spark_delta.intake.messages import MessageReader


def read(source, reader=None):
    seen = []
    callbacks = dict.fromkeys(("RECORD", "SCHEMA", "STATE"), seen.append)
    counts = (reader or MessageReader()).process_lines(source, callbacks)
    return seen, counts


def test_messages_come_from_text_from_bytes_and_from_files(tmp_path):
    text = '{"type":"STATE","value":{"a": 1.10}}\n\n{"type":"RECORD","stream":"é","record":{}}'
    path = tmp_path / "in.jsonl"
    path.write_text(text)
    for source in (io.StringIO(text), io.BytesIO(text.encode()), path.open(), path.open("rb")):
        seen, counts = read(source)
        assert counts == {"STATE": 1, "RECORD": 1}
        assert bytes(seen[0].value) == b'{"a": 1.10}'
        assert (seen[1].stream, seen[1].number) == ("é", 3)


def test_a_line_longer_than_a_block_stays_whole():
    inlet, outlet = os.pipe()
    value = "x" * 3_000_000
    line = f'{{"type":"RECORD","stream":"s","record":{{"a":"{value}"}}}}\n'.encode()

    def write():
        with os.fdopen(outlet, "wb") as pipe:
            pipe.write(line * 2)

    threading.Thread(target=write).start()
    with os.fdopen(inlet, "rb") as pipe:
        seen, _ = read(pipe)
    assert [len(message.line) for message in seen] == [len(line) - 1] * 2


def test_a_line_without_end_is_one_clear_error(monkeypatch):
    monkeypatch.setattr(messages, "LONGEST_LINE", 1_000_000)
    inlet, outlet = os.pipe()

    def write():
        with contextlib.suppress(BrokenPipeError), os.fdopen(outlet, "wb") as pipe:
            pipe.write(b"x" * 5_000_000)

    writer = threading.Thread(target=write)
    writer.start()
    with os.fdopen(inlet, "rb") as pipe, pytest.raises(DataError, match="a line is longer than"):
        read(pipe)
    writer.join()


def test_a_trickle_is_read_while_the_pipe_stays_open():
    inlet, outlet = os.pipe()
    reader, arrived = MessageReader(), threading.Event()
    os.write(outlet, b'{"type":"STATE","value":1}\n')
    worker = threading.Thread(
        target=lambda: reader.process_lines(
            os.fdopen(inlet, "rb"), {"STATE": lambda _: arrived.set()}
        )
    )
    worker.start()
    assert arrived.wait(10)
    ticked = threading.Event()
    reader.on_tick = ticked.set
    assert ticked.wait(10), "time passes for batches even when nothing arrives"
    os.close(outlet)
    worker.join(10)
    assert not worker.is_alive()


@pytest.mark.parametrize(
    "bad",
    [
        "nonsense",
        '{"type":"RECORD","record":{"a":1}} x',
        '{"type":"RECORD","record":{"a":01}}',
        '{"type":"RECORD","record":{"a":NaN}}',
        '{"type":"RECORD","record":{"a":[1,]}}',
        '{"type":"RECORD","record":{"a":"\\ud800"}}',
        '{"stream":"no type"}',
        "[]",
        '{"type":"RECORD","record":{"a":1}',
    ],
)
def test_a_line_that_is_no_message_is_named_by_its_number(bad):
    failed = []
    reader = MessageReader()
    reader.on_failure = lambda: failed.append(True)
    with pytest.raises(ProtocolError, match="line 2 ") as raised:
        read(io.StringIO(f'{{"type":"STATE","value":1}}\n{bad}\n'), reader)
    assert raised.value.exit_code == 76
    assert failed


def test_bytes_that_are_not_utf8_are_refused():
    with pytest.raises(ProtocolError, match="line 1 "):
        read(io.BytesIO(b'{"type":"RECORD","record":{"a":"\xff"}}\n'))


def test_an_unknown_type_is_refused_by_name():
    with pytest.raises(ProtocolError, match="line 1: unknown message type 'HELLO'"):
        read(io.StringIO('{"type":"HELLO"}'))


def test_nesting_beyond_what_can_be_read_is_one_clear_error():
    deep = "[" * 100_000 + "]" * 100_000
    with pytest.raises(DataError, match="line 1 is nested too deeply"):
        read(io.StringIO(f'{{"type":"RECORD","record":{{"a":{deep}}}}}'))
