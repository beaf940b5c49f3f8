"""What is known of a topic and of some of its events, before they are read."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from typing_extensions import override

from singer_spark.errors import SettingsError, SourceError
from singer_spark.names import quote
from tap_spark_source.plan.read_plan import DELETED_AT, ReadPlan
from tap_spark_source.plan.table import Table, is_name, is_wanted
from tap_spark_source.plan.warnings import inform, warn
from tap_spark_source.settings import Settings
from tap_spark_source.sources.base import Place, Source, source_errors
from tap_spark_source.sources.kafka import connect, debezium

Offsets = Mapping[str, int]
Fields = tuple[connect.Field, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShape:
    """What the events of one topic look like; the user may have given it."""

    fields: Fields
    keys: tuple[str, ...]
    is_given: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSchemas:
    """What some events look like.

    `schemas` are the columns that the events of a partition have from an offset on, `orphans` the
    tombstones that no deletion precedes.
    """

    schemas: Mapping[str, Sequence[tuple[int, Fields]]]
    orphans: DataFrame | None = None


def label_of(topic: str) -> str:
    """Name the table of a topic: what follows the connector's prefix."""
    return topic.partition(".")[2] or topic


def read_events(events: DataFrame) -> list[debezium.Event]:
    """Fetch a few events."""
    texts = events.selectExpr("cast(key as string) as key", "cast(value as string) as value")
    rows: list[dict[str, Any]] = texts.toArrow().to_pylist()
    return [event for row in rows if (event := debezium.read_event(row["key"], row["value"]))]


# What Kafka calls the first offset that is there.
EARLIEST = -2
_SAMPLED_EVENTS = 50
_SAMPLED_FURTHER = 5_000


class KafkaSource(Source):
    """The topics of one cluster; how far they reach is asked once, at the start."""

    can_slice = False

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        super().__init__(spark, settings)
        self._shapes: dict[str, TopicShape] = {}
        self._known: dict[str, Fields] = {}

    @override
    def discover(self) -> list[Table]:
        patterns, wanted = self._settings.tables, sorted(self._streams().items())
        known = {name for _, topic in wanted for name in (topic, label_of(topic))}
        if missing := [name for name in patterns if is_name(name) and name not in known]:
            raise SourceError(
                f"no topic {', '.join(missing)} at {self._servers}; correct tables, or wait for "
                "Debezium to make it"
            )
        tables = [self._table(stream, topic) for stream, topic in wanted]
        return [table for table in tables if table is not None]

    @override
    def find(self, place: Place) -> Table | None:
        topic = place.name if place.name in self.ends else self._streams().get(place.stream)
        return self._table(place.stream, topic) if topic else None

    @cached_property
    def ends(self) -> dict[str, Offsets]:
        """The offsets behind the last event of each topic, as of the first question.

        Only a streaming query tells them without reading; this one begins at the end.
        """
        with source_errors(self._settings, "the topics"):
            stream = self.spark.readStream.format("kafka").options(**self._options())
            stream = stream.options(subscribePattern=".*", startingOffsets="latest")
            query = stream.load().writeStream.format("noop").trigger(availableNow=True).start()
            query.awaitTermination()
            progress = query.lastProgress
        sources = json.loads(progress.json)["sources"] if progress else [{}]
        found = sources[0].get("endOffset") or {}
        return dict(json.loads(found) if isinstance(found, str) else found)

    def firsts(self, topic: str, partitions: Sequence[str]) -> Offsets:
        """Return the offset of the first event that partitions hold; the end where there is none.

        Each look ends at the first event that it meets.
        """
        ends = self.ends[topic]
        looks = []
        for partition in partitions:
            events = self._events(topic, {**ends, partition: EARLIEST}, ends)
            looks.append(events.selectExpr("cast(partition as string) as part", "offset").limit(1))
        if not looks:
            return {}
        found = reduce(lambda one, other: one.union(other), looks).toArrow().to_pylist()
        known = {row["part"]: row["offset"] for row in found}
        return {partition: known.get(partition, ends[partition]) for partition in partitions}

    def look(self, plan: ReadPlan, first: Offsets, last: Offsets) -> EventSchemas:
        """Find out what the events from one offset up to another look like."""
        topic = plan.table.name
        found = debezium.look(self._events(topic, first, last)).toArrow()
        lonely = found.filter(found["is_orphan"]).select(["part", "offset"])
        orphans = self.spark.createDataFrame(lonely) if lonely.num_rows else None
        schemas: dict[str, list[tuple[int, Fields]]] = defaultdict(list)
        if not self._shape(plan.table.stream, topic).is_given:
            for row in found.sort_by("offset").to_pylist():
                part, offset, schema = row["part"], row["offset"], row["schema"]
                if schema and (fields := self._fields_at(topic, part, offset, schema)):
                    schemas[part].append((offset, fields))
        return EventSchemas(schemas=schemas, orphans=orphans)

    def changes(
        self,
        plan: ReadPlan,
        first: Offsets,
        last: Offsets,
        *,
        fields: Fields | None = None,
        orphans: DataFrame | None = None,
    ) -> DataFrame:
        """Return what the events from one offset up to another did, in their order.

        `fields` are their columns where those are not the newest, `orphans` the tombstones that are
        deletions.
        """
        topic = plan.table.name
        shape = self._shape(plan.table.stream, topic)
        events = self._events(topic, first, last)
        if orphans is not None:
            partition = "cast(part as int) as partition"
            marked = orphans.selectExpr(partition, "offset", "true as is_orphan")
            events = events.join(F.broadcast(marked), ["partition", "offset"], "left")
        types = {column.name: column.datatype for column in plan.table.columns}
        read = connect.carried(shape.fields, fields, types) if fields else shape.fields
        keys = plan.key_properties or shape.keys
        has_own_key = set(keys) != set(shape.keys)
        names = [column.name for column in plan.columns if column.name != DELETED_AT]
        changes = debezium.changes(
            events, read, keys, plan.where, has_own_key=has_own_key, selected=names
        )
        return changes.select(*map(quote, names), DELETED_AT)

    @property
    def _servers(self) -> str:
        return self._settings.url.partition(":")[2]

    def _options(self) -> dict[str, str]:
        return {
            # What a producer took back was never there.
            "kafka.isolation.level": "read_committed",
            **self._settings.options,
            "kafka.bootstrap.servers": self._servers,
        }

    def _events(self, topic: str, first: Offsets, last: Offsets, **options: str) -> DataFrame:
        start, end = (json.dumps({topic: dict(offsets)}) for offsets in (first, last))
        bounds = {"subscribe": topic, "startingOffsets": start, "endingOffsets": end}
        reader = self.spark.read.format("kafka")
        return reader.options(**{**self._options(), **bounds, **options}).load()

    def _streams(self) -> dict[str, str]:
        """Return the topics by the streams that they become."""
        streams = defaultdict(list)
        wanted = self._settings.tables
        for topic in sorted(self.ends):
            if is_wanted(topic, wanted) or is_wanted(label_of(topic), wanted):
                streams[label_of(topic).replace(".", "-")].append(topic)
        if clashes := [", ".join(topics) for topics in streams.values() if len(topics) > 1]:
            told = "; ".join(clashes)
            raise SettingsError(f"topics of one table: {told}; name the topic to read in tables")
        return {stream: topics[0] for stream, topics in streams.items()}

    def _table(self, stream: str, topic: str) -> Table | None:
        with source_errors(self._settings, stream):
            shape = self._shape(stream, topic)
            if not shape.fields:
                if topic in self._settings.tables:
                    raise SourceError(
                        f"{stream}: topic {topic} holds no Debezium event yet; wait for one, or "
                        "set schema in stream_options"
                    )
                inform(stream, f"topic {topic} holds no Debezium events; it is left out")
                return None
            nothing = self._events(topic, self.ends[topic], self.ends[topic])
            fields = debezium.changes(nothing, shape.fields, shape.keys).schema.fields
        natives = {field.name: field.native for field in shape.fields}
        columns = tuple(
            self._column_of(field, natives[field.name], connect.hint_of(natives[field.name]))
            for field in fields
            if field.name in natives
        )
        return Table(stream=stream, name=topic, columns=columns, keys=shape.keys)

    def _shape(self, stream: str, topic: str) -> TopicShape:
        if topic not in self._shapes:
            events = self._sample(topic)
            given = self._settings.of_stream(stream).schema or {}
            fields = [connect.given_field(name, kind) for name, kind in given.items()]
            found = fields or debezium.fields_of(events, topic)
            if not fields and found and not debezium.have_schema(events):
                warn(
                    stream,
                    f"the events of {topic} carry no schema, so types are guessed; name them in "
                    "the option schema, or let Debezium's converter write schemas",
                )
            if not fields and not debezium.tell_types(events):
                raise SourceError(
                    f"{stream}: the newest events of {topic} are deletions that tell nothing but "
                    "keys; name the columns' types in the option schema of stream_options"
                )
            self._shapes[topic] = TopicShape(
                fields=tuple(found), keys=debezium.keys_of(events), is_given=bool(fields)
            )
        return self._shapes[topic]

    def _fields_at(self, topic: str, part: str, offset: int, schema: str) -> Fields:
        """Return the columns that an event tells; those of one schema are looked at once."""
        if schema not in self._known:
            ends = self.ends[topic]
            one = self._events(topic, {**ends, part: offset}, {**ends, part: offset + 1})
            self._known[schema] = tuple(debezium.fields_of(read_events(one), topic))
        return self._known[schema]

    def _sample(self, topic: str) -> Sequence[debezium.Event]:
        """Look at the newest events of each partition, the newest first.

        Where these are all deletions, which tell no types, at some rows of before them too.
        """
        events = self._newest(topic, _SAMPLED_EVENTS)
        if not debezium.tell_types(events):
            events += self._newest(topic, _SAMPLED_FURTHER, debezium.HAS_ROW)
        return events

    def _newest(self, topic: str, count: int, condition: str = "true") -> list[debezium.Event]:
        ends = self.ends[topic]
        firsts = {part: max(0, end - count) for part, end in ends.items()}
        # The oldest of them may have expired already.
        found = self._events(topic, firsts, ends, failOnDataLoss="false").where(condition)
        ordered = found.orderBy("timestamp", "offset", ascending=False)
        return read_events(ordered.limit(_SAMPLED_EVENTS * len(ends)))
