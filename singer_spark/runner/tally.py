"""Records per stream, counted in passing and without parsing records.

A raw line break cannot occur inside JSON, so the head of a RECORD line (`{"type":"RECORD",
"stream":"NAME",` as the tap spells it), preceded by a line break, marks exactly one record.
A block is settled by two searches in C when the heads known so far explain each of its lines;
otherwise its lines are looked at one by one, which also learns new heads.
Measured with 1M records (267 MB, 2 cores): 0.2 s of CPU for one stream, 0.3 s with a STATE every
10,000 records, 1 s for 20 interleaved streams; parsing each envelope with msgspec takes 0.7 s.
"""

from __future__ import annotations

import re

import msgspec

HEAD = re.compile(
    rb'\{"type": ?"RECORD", ?"stream": ?"([^"\\]+)"[,}]'
    rb'|\{"stream": ?"([^"\\]+)", ?"type": ?"RECORD"[,}]'
)
HEADS_KEPT = 4  # more interleaved streams than this are counted line by line
LINE_KEPT = 64 * 2**20  # bytes; of a longer line only the beginning is looked at


class _Envelope(msgspec.Struct):
    type: str = ""
    stream: str = ""


class Tally:
    """Counts of one run; streams announced by a SCHEMA count from zero."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.batched: set[str] = set()  # streams whose records travel in files, uncounted
        self._streams: dict[bytes, str] = {}  # by head, all of them
        self._heads: dict[bytes, str] = {}  # the latest, each after a line break
        self._decoder = msgspec.json.Decoder(_Envelope)
        self._open_line = bytearray()

    def feed(self, block: bytes) -> None:
        """Count the lines that end in this block; the rest waits for the next."""
        first, last = block.find(b"\n"), block.rfind(b"\n")
        if first < 0:
            self._keep(block)
            return
        self._keep(block[:first])
        self.close()
        self._count_block(block, first, last)
        self._keep(block[last + 1 :])

    def close(self) -> None:
        """Count the line that is still open."""
        if self._open_line:
            self._count_line(bytes(self._open_line))
            self._open_line.clear()

    def _keep(self, piece: bytes) -> None:
        self._open_line += piece[: LINE_KEPT - len(self._open_line)]

    def _count_block(self, block: bytes, first: int, last: int) -> None:
        """Count the whole lines in block[first:last], each of which follows its line break."""
        left = block.count(b"\n", first, last)
        found: dict[bytes, int] = {}
        for head in reversed(self._heads):
            if not left:
                break
            found[head] = block.count(head, first, last)
            left -= found[head]
        if left:
            self._count_lines(block[first + 1 : last].split(b"\n"))
            return
        for head, count in found.items():
            self.counts[self._heads[head]] += count

    def _count_lines(self, lines: list[bytes]) -> None:
        counts, streams, head = self.counts, self._streams, b""
        for line in lines:
            head = line[: line.find(b",", line.find(b",") + 1) + 1]
            if head in streams:
                counts[streams[head]] += 1
            else:
                self._count_line(line)
        if head in streams:
            self._expect(head, streams[head])

    def _count_line(self, line: bytes) -> None:
        head = HEAD.match(line)
        if head:
            stream = (head[1] or head[2]).decode(errors="replace")
            self._streams[head[0]] = stream
            self._expect(head[0], stream)
            self.counts[stream] = self.counts.get(stream, 0) + 1
            return
        try:
            envelope = self._decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return  # the target will say what is wrong with it
        if envelope.type == "BATCH":
            self.batched.add(envelope.stream)
        if envelope.type in ("RECORD", "SCHEMA"):
            count = self.counts.get(envelope.stream, 0)
            self.counts[envelope.stream] = count + (envelope.type == "RECORD")

    def _expect(self, head: bytes, stream: str) -> None:
        """Search the next blocks for this head first, and for the few before it."""
        self._heads.pop(b"\n" + head, None)
        self._heads[b"\n" + head] = stream
        if len(self._heads) > HEADS_KEPT:
            del self._heads[next(iter(self._heads))]
