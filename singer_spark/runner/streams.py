"""What is known of each stream of a run: counted in passing, or reported by tap and target.

What nobody reported is None, never 0: foreign taps and targets know nothing of our report.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from singer_spark import exact_json
from singer_spark.report import last_told, read_report
from singer_spark.runner.identity import Identities

HEAD = re.compile(
    rb'\{"type": ?"RECORD", ?"stream": ?"([^"\\]+)"[,}]'
    rb'|\{"stream": ?"([^"\\]+)", ?"type": ?"RECORD"[,}]'
)
HEADS_KEPT = 4  # more interleaved streams than this are counted line by line
LINE_KEPT = 64 * 2**20  # bytes; of a longer line only the beginning is read


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


CHANGES = ("inserted", "updated", "deleted", "unchanged")  # of a commit's rows


@dataclass(slots=True)
class StreamCounts:
    """One stream; `records` is what the tap sent, None where batch files hide it.

    `batched` is how many of them the tap says that it has written into files of `batched_bytes`,
    `limited` that it has stopped before the end. `loaded` are those that the target has taken in,
    of which `unchanged` were left out because the table has them.
    """

    records: int | None = 0
    loaded: int | None = None
    unchanged: int | None = None
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    quarantined: int | None = None
    commits: int | None = None
    load_milliseconds: int | None = None
    late: int | None = None
    late_seconds: float | None = None
    expected: int | None = None
    batched: int | None = None
    batched_bytes: int | None = None
    limited: int | None = None

    @property
    def rows(self) -> int:
        """The best count there is."""
        return self.loaded or 0 if self.records is None else self.records

    def learn(self, fact: Mapping[str, Any]) -> None:
        """Take in one fact; kinds of a later version are passed over."""
        match fact.get("kind"):
            case "commit":
                self._add(commits=1, loaded=fact.get("rows"))
                self._add(load_milliseconds=fact.get("milliseconds"))
                self._add(**{key: fact.get(key) for key in CHANGES})
            case "quarantine":
                self._add(quarantined=fact.get("rows"))
            case "late":
                self._add(late=fact.get("rows"))
                if (seconds := _number(fact.get("seconds"))) is not None:
                    self.late_seconds = round(max(seconds, self.late_seconds or 0), 3)
            case "batch":
                self._add(batched=fact.get("rows"), batched_bytes=fact.get("bytes"))
            case "limited":
                self.limited = 1
            case "expected":
                self._add(expected=fact.get("rows"))
            case _:
                pass

    def _add(self, **counts: Any) -> None:
        for name, count in counts.items():
            if (number := _number(count)) is not None:
                setattr(self, name, round((getattr(self, name) or 0) + number))


class Reports:
    """What tap and target have reported so far: by stream, and of the run as a whole.

    `found` is of the run, and `doing` what a command says that it is busy with.
    """

    def __init__(self, path: Path) -> None:
        self.found = Identities()
        self.doing: dict[str, str] = {}
        self._path = path
        self._read = 0
        self._streams: dict[str, StreamCounts] = defaultdict(StreamCounts)
        self._target_reports = False

    def find_source(self) -> Mapping[str, Any] | None:
        """Look for the identity of the source; any thread may ask."""
        source = last_told("source", "", self._path) or {}
        return _without_kind(source) or None

    def refresh(self) -> None:
        """Read what has been reported since the last time."""
        if not self._path.exists():
            return
        for place, fact in read_report(self._path, self._read):
            self._read = place
            stream = fact.get("stream")
            if isinstance(stream, str):
                self._learn(stream, fact)

    def _learn(self, stream: str, fact: Mapping[str, Any]) -> None:
        known = _without_kind(fact)
        found = self.found
        match fact.get("kind"):
            case "source":
                found = found._replace(source=known)
            case "table":
                found = found._replace(tables={**found.tables, stream: known})
            case "claimed":
                found = found._replace(claimed={*found.claimed, stream})
            case "writes":
                found = found._replace(has_written=True)
            case "outnumbered":
                found = found._replace(is_outnumbered=True)
            case "reached":
                with suppress(ValueError):
                    bookmark = exact_json.loads(str(fact.get("bookmark")))
                    found = found._replace(reached={**found.reached, stream: bookmark})
            case "progress":
                self.doing[str(fact.get("command"))] = str(fact.get("doing") or "")
            case kind:
                self._streams[stream].learn(fact)
                self._target_reports |= kind in ("commit", "quarantine")
        self.found = found

    def by_stream(self, tally: Tally) -> dict[str, StreamCounts]:
        """Join what was reported with what was counted, in the order of the tap's streams."""
        names = dict.fromkeys([*tally.counts, *self._streams])
        return {name: self._of(name, tally) for name in names}

    def _of(self, name: str, tally: Tally) -> StreamCounts:
        reported = self._streams.get(name) or StreamCounts()
        counted: int | None = tally.counts.get(name, 0) + (reported.batched or 0)
        if name in tally.batched and reported.batched is None:
            counted = None
        if not self._target_reports:
            return replace(reported, records=counted)
        # A target that reports its commits has made none where it reports none.
        split = CHANGES if not reported.commits else ()
        filled = {key: getattr(reported, key) or 0 for key in ("loaded", "quarantined", *split)}
        return replace(reported, records=counted, **filled)


def _without_kind(fact: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fact.items() if key not in ("kind", "stream")}


def find_mismatches(streams: Mapping[str, StreamCounts]) -> dict[str, str]:
    """Find the streams of which the target accounts for other rows than the tap sent."""
    return {
        name: f"the tap sent {facts.records} records, the target accounts for {accounted}"
        for name, facts in streams.items()
        if facts.records is not None and facts.loaded is not None
        if (accounted := facts.loaded + (facts.quarantined or 0)) != facts.records
    }


def _number(value: Any) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
