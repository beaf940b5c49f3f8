"""Topics of a Kafka cluster that hold Debezium's events: one stream per topic."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from singer_spark.errors import SettingsError, SourceError
from singer_spark.names import quote
from tap_spark_source.key import Key
from tap_spark_source.plan import DELETED_AT, ReadPlan
from tap_spark_source.slicing import Slice, Survey
from tap_spark_source.sources import connect, debezium
from tap_spark_source.sources.base import Reach, Source, describe_column, source_errors
from tap_spark_source.table import Column, Table, is_name, is_wanted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger("tap-spark-source")

Offsets = Mapping[str, int]
# What Kafka calls the first offset that is there.
EARLIEST = -2
_SAMPLED_EVENTS = 50
_ONLY_LOG = "a Kafka topic is read by LOG_BASED alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """What the events of one topic look like."""

    fields: tuple[connect.Field, ...]
    keys: tuple[str, ...]


class KafkaSource(Source):
    """The topics of one cluster; how far they reach is asked once, at the start."""

    can_slice = False
    has_log = True

    @override
    def discover(self) -> list[Table]:
        patterns = self._settings.tables
        streams = self._streams()
        wanted = [
            (stream, topic)
            for stream, topic in sorted(streams.items())
            if is_wanted(topic, patterns) or is_wanted(_label(topic), patterns)
        ]
        known = {name for _, topic in wanted for name in (topic, _label(topic))}
        if missing := [name for name in patterns if is_name(name) and name not in known]:
            raise SourceError(
                f"no topic {', '.join(missing)} at {self._servers}; correct tables, or wait for "
                "Debezium to make it"
            )
        tables = [self._table(stream, topic) for stream, topic in wanted]
        return [table for table in tables if table is not None]

    @override
    def find(self, stream: str, *, schema: str | None, name: str | None) -> Table | None:
        del schema
        topic = name if name in self.ends else self._streams().get(stream)
        return self._table(stream, topic) if topic else None

    @override
    def describe(self, table: Table, expression: str) -> Column:
        raise SettingsError(f"{table.stream}: {_ONLY_LOG}; remove its replication_key")

    @override
    def frame(self, plan: ReadPlan, piece: Slice | None = None) -> DataFrame:
        raise SettingsError(f"{plan.table.stream}: {_ONLY_LOG}; set replication_method")

    @override
    def survey(self, plan: ReadPlan, key: Key, reach: Reach) -> Survey:
        raise SettingsError(f"{plan.table.stream}: {_ONLY_LOG}; set replication_method")

    @override
    def count(self, plan: ReadPlan, piece: Slice | None = None) -> int:
        raise SettingsError(f"{plan.table.stream}: {_ONLY_LOG}; set replication_method")

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
        looks = [
            self._events(topic, {**ends, partition: EARLIEST}, ends)
            .selectExpr("cast(partition as string) as part", "offset")
            .limit(1)
            for partition in partitions
        ]
        if not looks:
            return {}
        found = reduce(lambda one, other: one.union(other), looks).toArrow().to_pylist()
        known = {row["part"]: row["offset"] for row in found}
        return {partition: known.get(partition, ends[partition]) for partition in partitions}

    def changes(self, plan: ReadPlan, first: Offsets, last: Offsets) -> DataFrame:
        """Return what the events from one offset up to another did, in their order."""
        topic = plan.table.name
        shape = self._shape(plan.table.stream, topic)
        events = self._events(topic, first, last)
        keys = plan.key_properties or shape.keys
        changes = debezium.changes(events, shape.fields, keys, plan.where)
        names = [*(quote(column.name) for column in plan.columns), DELETED_AT]
        return changes.select(*names)

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
        bounds = {
            "subscribe": topic,
            "startingOffsets": json.dumps({topic: dict(first)}),
            "endingOffsets": json.dumps({topic: dict(last)}),
        }
        return (
            self.spark.read.format("kafka")
            .options(**{**self._options(), **bounds, **options})
            .load()
        )

    def _streams(self) -> dict[str, str]:
        """Return the topics by the streams that they become."""
        streams = defaultdict(list)
        for topic in sorted(self.ends):
            wanted = self._settings.tables
            if is_wanted(topic, wanted) or is_wanted(_label(topic), wanted):
                streams[_label(topic).replace(".", "-")].append(topic)
        if clashes := [", ".join(topics) for topics in streams.values() if len(topics) > 1]:
            raise SettingsError(
                f"topics of one table: {'; '.join(clashes)}; name the topic to read in tables"
            )
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
                logger.info("Topic %s holds no Debezium events; it is left out", topic)
                return None
            nothing = self._events(topic, self.ends[topic], self.ends[topic])
            fields = debezium.changes(nothing, shape.fields, shape.keys).schema.fields
        natives = {field.name: field.native for field in shape.fields}
        columns = tuple(
            describe_column(
                field,
                singer_decimal=self._settings.singer_decimal,
                native=natives[field.name],
                reading=connect.hint_of(natives[field.name]),
            )
            for field in fields
            if field.name in natives
        )
        return Table(stream=stream, name=topic, columns=columns, keys=shape.keys)

    def _shape(self, stream: str, topic: str) -> _Shape:
        if topic not in self._shapes:
            events = self._sample(topic)
            given: Mapping[str, str] = self._settings.of_stream(stream).get("schema") or {}
            fields = [connect.given_field(name, kind) for name, kind in given.items()]
            found = fields or debezium.fields_of(events)
            if not fields and found and not debezium.have_schema(events):
                logger.warning(
                    "%s: the events of %s carry no schema, so types are guessed; name them in "
                    "the option schema, or let Debezium's converter write schemas",
                    stream,
                    topic,
                )
            self._shapes[topic] = _Shape(fields=tuple(found), keys=debezium.keys_of(events))
        return self._shapes[topic]

    @cached_property
    def _shapes(self) -> dict[str, _Shape]:
        return {}

    def _sample(self, topic: str) -> Sequence[debezium.Event]:
        """Look at the newest events of each partition, the newest first."""
        ends = self.ends[topic]
        firsts = {part: max(0, end - _SAMPLED_EVENTS) for part, end in ends.items()}
        # The oldest of them may have expired already.
        found = self._events(topic, firsts, ends, failOnDataLoss="false")
        rows: list[dict[str, Any]] = (
            found.orderBy("timestamp", "offset", ascending=False)
            .selectExpr("cast(key as string) as key", "cast(value as string) as value")
            .toArrow()
            .to_pylist()
        )
        return [event for row in rows if (event := debezium.read_event(row["key"], row["value"]))]


def _label(topic: str) -> str:
    """Name the table of a topic: what follows the connector's prefix."""
    return topic.partition(".")[2] or topic
