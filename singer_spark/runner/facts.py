"""What is known of each stream of a run: counted on the way, or told by tap and target.

What nobody told is None, never 0: foreign taps and targets know nothing of our report.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from singer_spark import exact_json
from singer_spark.report import last_told, read_report
from singer_spark.runner.identity import Identities
from singer_spark.runner.tally import Tally

CHANGES = ("inserted", "updated", "deleted", "unchanged")  # of a commit's rows


@dataclass(slots=True)
class StreamFacts:
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


class Facts:
    """What tap and target have reported so far: by stream, and of the run as a whole.

    `source` is the identity of the source, `tables` the identities of the tables by stream,
    `claimed` the streams whose tables were claimed, `reached` the bookmarks that failed runs have
    reached, by stream, `has_written` tells that rows may be in a table, `is_outnumbered` that one
    has higher numbers than the run, and `doing` what a command says that it is busy with.
    """

    def __init__(self, path: Path) -> None:
        self.source: Mapping[str, Any] | None = None
        self.tables: dict[str, Mapping[str, Any]] = {}
        self.doing: dict[str, str] = {}
        self.claimed: set[str] = set()
        self.reached: dict[str, Any] = {}
        self.has_written = False
        self.is_outnumbered = False
        self._path = path
        self._read = 0
        self._streams: dict[str, StreamFacts] = defaultdict(StreamFacts)
        self._target_tells = False

    @property
    def identities(self) -> Identities:
        """By what source and tables are known again."""
        claimed = frozenset(self.claimed)
        facts = (self.reached, self.has_written, self.is_outnumbered)
        return Identities(self.source, self.tables, claimed, *facts)

    def find_source(self) -> Mapping[str, Any] | None:
        """Look for the identity of the source; any thread may ask."""
        told = last_told("source", "", self._path) or {}
        return {key: value for key, value in told.items() if key not in ("kind", "stream")} or None

    def refresh(self) -> None:
        """Read what has been told since the last time."""
        if not self._path.exists():
            return
        for place, fact in read_report(self._path, self._read):
            self._read = place
            stream = fact.get("stream")
            if isinstance(stream, str):
                self._learn(stream, fact)

    def _learn(self, stream: str, fact: Mapping[str, Any]) -> None:
        known = {key: value for key, value in fact.items() if key not in ("kind", "stream")}
        match fact.get("kind"):
            case "source":
                self.source = known
            case "table":
                self.tables[stream] = known
            case "claimed":
                self.claimed.add(stream)
            case "writes":
                self.has_written = True
            case "outnumbered":
                self.is_outnumbered = True
            case "reached":
                with suppress(ValueError):
                    self.reached[stream] = exact_json.loads(str(fact.get("bookmark")))
            case "progress":
                self.doing[str(fact.get("command"))] = str(fact.get("doing") or "")
            case kind:
                self._streams[stream].learn(fact)
                self._target_tells |= kind in ("commit", "quarantine")

    def by_stream(self, tally: Tally) -> dict[str, StreamFacts]:
        """Join what was told with what was counted, in the order of the tap's streams."""
        names = dict.fromkeys([*tally.counts, *self._streams])
        return {name: self._of(name, tally) for name in names}

    def _of(self, name: str, tally: Tally) -> StreamFacts:
        told = self._streams.get(name) or StreamFacts()
        counted: int | None = tally.counts.get(name, 0) + (told.batched or 0)
        if name in tally.batched and told.batched is None:
            counted = None
        if not self._target_tells:
            return replace(told, records=counted)
        # A target that tells of its commits has made none where it tells of none.
        split = CHANGES if not told.commits else ()
        filled = {key: getattr(told, key) or 0 for key in ("loaded", "quarantined", *split)}
        return replace(told, records=counted, **filled)


def find_mismatches(streams: Mapping[str, StreamFacts]) -> dict[str, str]:
    """Tell where the target accounts for other rows than the tap sent."""
    return {
        name: f"the tap sent {facts.records} records, the target accounts for {accounted}"
        for name, facts in streams.items()
        if facts.records is not None and facts.loaded is not None
        if (accounted := facts.loaded + (facts.quarantined or 0)) != facts.records
    }


def _number(value: Any) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
