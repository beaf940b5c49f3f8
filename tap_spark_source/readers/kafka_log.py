"""LOG_BASED on a topic: the events from the bookmark's offsets up to the end at the run's start.

The bookmark holds, for each partition, the offset of the next event. The order of the events of a
partition is kept, and Kafka keeps those of one key in one partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from singer_spark.errors import StateError
from tap_spark_source.plan.bookmark import OFFSETS
from tap_spark_source.plan.read_plan import ReadPlan
from tap_spark_source.readers.chunks import Chunk, Preview
from tap_spark_source.sources.kafka.topics import KafkaSource, Offsets

Kind = TypeVar("Kind")


def chunks(source: KafkaSource, plan: ReadPlan) -> Iterator[Chunk]:
    """Yield the events, about `slice_rows` at a time, each partition's share of them."""
    start, ends = span(source, plan)
    steps = cuts(start, ends, rows=plan.slice_rows, most=plan.max_rows)
    if not steps:
        yield Chunk(bookmark={**plan.bookmark, OFFSETS: dict(ends)}, is_last=True)
    for stop in steps:
        look = source.look(plan, start, stop)
        for end, fields in runs(start, stop, look.schemas):
            frame = source.changes(plan, start, end, fields=fields, orphans=look.orphans)
            bookmark = {**plan.bookmark, OFFSETS: dict(end)}
            yield Chunk(frame=frame, bookmark=bookmark, is_last=end == ends)
            start = end


def preview(source: KafkaSource, plan: ReadPlan) -> Preview:
    """Describe the read by offsets."""
    first, last = span(source, plan)
    return Preview(dict(first), dict(last), sum(last[part] - first[part] for part in last))


def span(source: KafkaSource, plan: ReadPlan) -> tuple[Offsets, Offsets]:
    """Return where this run begins in each partition, and where it ends."""
    topic = plan.table.name
    ends = source.ends[topic]
    seen = known_starts(plan.table.stream, plan.bookmark.get(OFFSETS), ends)
    new = [partition for partition in ends if partition not in seen]
    return {**seen, **source.firsts(topic, new)}, ends


def known_starts(stream: str, seen: Any, ends: Offsets) -> Offsets:
    """Return where to go on in the partitions that the bookmark knows."""
    seen = {} if seen is None else seen
    if not isinstance(seen, dict) or not all(type(at) is int and at >= 0 for at in seen.values()):
        raise StateError(f"{stream}: the bookmark's {OFFSETS} must be a number for each partition")
    beyond = [part for part, at in seen.items() if at > ends.get(part, -1)]
    if beyond:
        raise StateError(
            f"{stream}: the bookmark's {OFFSETS} lie behind the end of partition "
            f"{', '.join(sorted(beyond))}: the topic was made anew; remove the stream's bookmark "
            "from the state, and it is read from its first event"
        )
    return dict(seen)


def cuts(start: Offsets, ends: Offsets, *, rows: int, most: int | None) -> list[Offsets]:
    """Return where to stop for a STATE: after about so many events, and at last at the end."""
    steps: list[Offsets] = []
    at, done = dict(start), 0
    while at != ends and (most is None or done < most):
        size = rows if most is None else min(rows, most - done)
        share = max(1, size // len(ends))
        stop = {part: min(end, at[part] + share) for part, end in ends.items()}
        done += sum(stop[part] - at[part] for part in ends)
        steps.append(stop)
        at = stop
    return steps


def runs(
    start: Offsets, stop: Offsets, schemas: Mapping[str, Sequence[tuple[int, Kind]]]
) -> list[tuple[Offsets, Kind | None]]:
    """Cut events where their schema changes, so that those read together have the same one.

    Return where each run ends, and its schema; none where no event tells one.
    """
    found: list[tuple[Offsets, Kind | None]] = []
    at = dict(start)
    while at != stop:
        behind = (part for part in stop if at[part] < stop[part])
        heads = {part: _head(schemas.get(part, ()), at[part]) for part in behind}
        wanted = next((kind for kind, _ in heads.values() if kind is not None), None)
        for part, (kind, end) in heads.items():
            if kind in (None, wanted):
                at[part] = stop[part] if end is None else min(end, stop[part])
        found.append((dict(at), wanted))
    return found


def _head(schemas: Sequence[tuple[int, Kind]], at: int) -> tuple[Kind | None, int | None]:
    """Return the schema of the event at an offset, and the offset where another one begins."""
    begun = [kind for offset, kind in schemas if offset <= at] or [kind for _, kind in schemas[:1]]
    kind = begun[-1] if begun else None
    return kind, next((to for to, other in schemas if to > at and other != kind), None)
