"""Bytes into Singer messages: the envelope is parsed, the record inside stays as it was sent.

The parser is strict, because Spark's own is not: a line that passes here is one whole JSON
object in valid UTF-8.
"""

from __future__ import annotations

import os
import select
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Annotated, Any

import msgspec
from singer_sdk.singerlib.encoding.base import GenericSingerReader
from typing_extensions import override

from singer_spark.errors import DataError, ProtocolError

# Of a message, in bytes.
LONGEST_LINE = 2**28
_BLOCK_BYTES = 1 << 20
_IDLE_SECONDS = 0.2
_LINES_PER_TICK = 1000
_LONG = msgspec.Meta(ge=-(2**63), le=2**63 - 1)


class Message(msgspec.Struct):
    """One message; of its parts only what its type needs is ever decoded."""

    type: str
    stream: str = ""
    record: msgspec.Raw = msgspec.Raw()
    version: Annotated[int, _LONG] | None = None
    time_extracted: msgspec.Raw = msgspec.Raw()
    value: msgspec.Raw = msgspec.Raw()
    line: bytes = msgspec.field(default=b"", name=" line")
    number: int = msgspec.field(default=0, name=" number")

    def body(self) -> dict[str, Any]:
        """Decode the whole message."""
        decoded: dict[str, Any] = msgspec.json.decode(self.line)
        return decoded


class MessageReader(GenericSingerReader[bytes]):
    """Reads messages from byte and text streams.

    It calls `on_tick` while it waits, and `on_failure` before an error leaves it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.on_tick: Callable[[], None] = lambda: None
        self.on_failure: Callable[[], None] = lambda: None
        self._decode = msgspec.json.Decoder(Message).decode

    @property
    @override
    def default_input(self) -> IO[bytes]:
        return sys.stdin.buffer

    @override
    def deserialize_json(self, line: bytes) -> dict[str, Any]:
        decoded: dict[str, Any] = msgspec.json.decode(line)
        return decoded

    @override
    def process_lines(
        self, file_input: IO[Any] | None, callbacks: Mapping[str, Callable[[Any], None]]
    ) -> Counter[str]:
        """Hand every message to the callback of its type."""
        try:
            return self._process_lines(file_input, callbacks)
        except Exception:
            self.on_failure()
            raise

    def _process_lines(
        self, file_input: IO[Any] | None, callbacks: Mapping[str, Callable[[Any], None]]
    ) -> Counter[str]:
        counts: dict[str, int] = {}
        for number, line in enumerate(self._lines(file_input or self.default_input), 1):
            if not line or line.isspace():
                continue
            message = self._parse(line, number)
            callback = callbacks.get(message.type)
            if callback is None:
                raise ProtocolError(
                    f"line {number}: unknown message type {message.type!r}; look at the tap"
                )
            callback(message)
            counts[message.type] = counts.get(message.type, 0) + 1
        return Counter(counts)

    def _parse(self, line: bytes, number: int) -> Message:
        try:
            message = self._decode(line)
            if not line.isascii():
                line.decode()
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ProtocolError(
                f"line {number} is not a Singer message ({error}); look at the tap's output"
            ) from error
        except RecursionError as error:
            raise DataError(
                f"line {number} is nested too deeply to be read; flatten it in the tap"
            ) from error
        message.line = line
        message.number = number
        return message

    def _lines(self, source: IO[Any]) -> Iterable[bytes]:
        descriptor = _descriptor(source)
        if descriptor is None:
            return self._lines_of_text(source)
        return self._lines_of_descriptor(descriptor)

    def _lines_of_text(self, source: IO[Any]) -> Iterator[bytes]:
        for index, line in enumerate(source):
            if index % _LINES_PER_TICK == 0:
                self.on_tick()
            yield line.encode() if isinstance(line, str) else line

    def _lines_of_descriptor(self, descriptor: int) -> Iterator[bytes]:
        """Read what has arrived, so that a trickle reaches its batch while the pipe is open."""
        poll = select.poll()
        poll.register(descriptor, select.POLLIN | select.POLLHUP)
        parts: list[bytes] = []
        size = 0
        while True:
            self.on_tick()
            if not poll.poll(_IDLE_SECONDS * 1000):
                continue
            block = os.read(descriptor, _BLOCK_BYTES)
            if not block:
                break
            *lines, rest = block.split(b"\n")
            if lines:
                parts.append(lines[0])
                lines[0] = b"".join(parts)
                parts, size = [], 0
                yield from lines
            parts.append(rest)
            size += len(rest)
            if size > LONGEST_LINE:
                raise DataError(
                    f"a line is longer than {LONGEST_LINE} bytes, more than a message may have; "
                    "look at the tap"
                )
        if last := b"".join(parts):
            yield last


def _descriptor(source: IO[Any]) -> int | None:
    """Return the descriptor to read from; None for streams that only exist in memory."""
    try:
        return source.fileno()
    except OSError:
        return None
