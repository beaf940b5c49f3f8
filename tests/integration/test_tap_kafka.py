"""LOG_BASED on a real Kafka broker: order, bookmarks, schemas and what ends a run."""

from __future__ import annotations

import json
from contextlib import contextmanager
from decimal import Decimal

import pytest

from singer_spark.errors import DataError, SourceError, StateError
from tests.support.kafka import follows
from tests.support.session import java as gateway
from tests.support.tap import discover, entry_of, metadata_of, previews, run_tap

pytestmark = pytest.mark.timeout(1800)

EVENT = {"before": None, "source": {"ts_ms": 1700000000000}, "ts_ms": 0}


def produce(spark, broker, topic: str, *values: dict | str | None, partition: int = 0) -> None:
    """Write events; a mapping is the row after an insertion, None a tombstone."""
    rows = []
    for value in values:
        event = {**EVENT, "op": "c", "after": value} if isinstance(value, dict) else value
        key = json.dumps({"id": value["id"] if isinstance(value, dict) else 1})
        rows.append(
            (topic, partition, key, json.dumps(event) if isinstance(event, dict) else event)
        )
    frame = spark.createDataFrame(rows, "topic string, partition int, key string, value string")
    frame.coalesce(1).write.format("kafka").option("kafka.bootstrap.servers", broker.address).save()


def ids(output) -> list[int]:
    return [record["id"] for record in output.records()]


@contextmanager
def administration(spark, broker):
    """Kafka's own client of administration, in the driver's Java."""
    java = gateway().jvm
    properties = java.java.util.Properties()
    properties.put("bootstrap.servers", broker.address)
    admin = java.org.apache.kafka.clients.admin.AdminClient.create(properties)
    try:
        yield admin
    finally:
        admin.close()


def expire(spark, broker, topic: str, offset: int) -> None:
    """Remove the events before an offset."""
    access = gateway()
    java = access.jvm
    # By reflection: a method of the object has the same name, and Py4J finds only that one.
    kinds, values = access.new_array(java.Class, 1), access.new_array(java.Object, 1)
    kinds[0], values[0] = java.Long.TYPE, offset
    kind = java.Class.forName("org.apache.kafka.clients.admin.RecordsToDelete")
    wanted = java.java.util.HashMap()
    place = java.org.apache.kafka.common.TopicPartition(topic, 0)
    wanted.put(place, kind.getMethod("beforeOffset", kinds).invoke(None, values))
    with administration(spark, broker) as admin:
        admin.deleteRecords(wanted).all().get()


def add_partitions(spark, broker, topic: str, count: int) -> None:
    java = gateway().jvm
    wanted = java.java.util.HashMap()
    wanted.put(topic, java.org.apache.kafka.clients.admin.NewPartitions.increaseTo(count))
    with administration(spark, broker) as admin:
        admin.createPartitions(wanted).all().get()


def test_events_are_read_once_up_to_the_end_of_the_start(spark, broker):
    topic = "a.shop.orders"
    produce(spark, broker, topic, {"id": 1, "v": "x"}, {"id": 2, "v": None}, None)
    first = run_tap(follows(broker, topic))
    # The last is a tombstone that no deletion precedes, as compaction leaves them.
    assert ids(first) == [1, 2, 1]
    assert set(first.records()[-1]) == {"id", "_sdc_deleted_at"}
    assert {message["stream"] for message in first.of("RECORD")} == {"shop-orders"}
    assert first.bookmark("shop-orders")["offsets"] == {"0": 3}
    assert run_tap(follows(broker, topic), state=first.state).records() == []
    produce(spark, broker, topic, *({"id": n, "v": "y"} for n in range(10)))
    settings = {**follows(broker, topic), "slice_rows": 4}
    second = run_tap(settings, state=first.state)
    assert ids(second) == list(range(10))
    seen = [m["value"]["bookmarks"]["shop-orders"]["offsets"]["0"] for m in second.of("STATE")]
    assert [offset for offset in seen if offset > 3][:3] == [7, 11, 13]
    some = run_tap({**settings, "max_rows": 4}, state=first.state)
    assert ids(some) == [0, 1, 2, 3]


@pytest.mark.slow
def test_an_interrupted_first_read_goes_on_where_it_stopped(spark, broker):
    topic = "e.shop.orders"
    produce(spark, broker, topic, *({"id": n, "v": "x"} for n in range(10)))
    expire(spark, broker, topic, 3)
    settings = {**follows(broker, topic), "slice_rows": 3}
    (found,) = previews(settings)
    assert (found["low"], found["high"], found["rows"]) == ({"0": 3}, {"0": 10}, 7)
    first = run_tap(settings)
    assert ids(first) == [3, 4, 5, 6, 7, 8, 9]
    seen = [m["value"]["bookmarks"]["shop-orders"]["offsets"]["0"] for m in first.of("STATE")]
    assert list(dict.fromkeys(seen)) == [6, 9, 10]
    assert ids(run_tap(settings, state=first.of("STATE")[0]["value"])) == [6, 7, 8, 9]
    state, runs = None, []
    while True:
        output = run_tap({**settings, "max_rows": 4}, state=state)
        if output.state == state:
            break
        runs.append(ids(output))
        state = output.state
    assert runs == [[3, 4, 5, 6], [7, 8, 9]]


@pytest.mark.slow
def test_only_what_a_transaction_committed_is_read(spark, broker):
    topic = "g.shop.orders"
    produce(spark, broker, topic, {"id": 1, "v": "x"})
    java = gateway().jvm
    properties = java.java.util.Properties()
    text = "org.apache.kafka.common.serialization.StringSerializer"
    for name, value in {
        "bootstrap.servers": broker.address,
        "transactional.id": "t",
        "key.serializer": text,
        "value.serializer": text,
    }.items():
        properties.put(name, value)
    producer = java.org.apache.kafka.clients.producer.KafkaProducer(properties)
    try:
        producer.initTransactions()
        for id_, end in ((2, "abortTransaction"), (3, "commitTransaction"), (4, None)):
            producer.beginTransaction()
            key, event = (
                json.dumps({"id": id_}),
                {**EVENT, "op": "c", "after": {"id": id_, "v": "y"}},
            )
            record = java.org.apache.kafka.clients.producer.ProducerRecord
            producer.send(record(topic, key, json.dumps(event))).get()
            if end:
                getattr(producer, end)()
        first = run_tap(follows(broker, topic))
        assert ids(first) == [1, 3]
        producer.commitTransaction()
    finally:
        producer.close()
    second = run_tap(follows(broker, topic), state=first.state)
    assert ids(second) == [4]
    # Behind the last event is only the mark of its transaction.
    third = run_tap(follows(broker, topic), state=second.state)
    assert third.records() == []
    assert third.state == second.state


@pytest.mark.slow
def test_partitions_that_appear_later_are_read_from_their_first_event(spark, broker):
    topic = "f.shop.orders"
    produce(spark, broker, topic, {"id": 1, "v": "x"})
    first = run_tap(follows(broker, topic))
    add_partitions(spark, broker, topic, 3)
    produce(spark, broker, topic, {"id": 2, "v": "x"}, {"id": 3, "v": "x"}, partition=1)
    produce(spark, broker, topic, {"id": 4, "v": "x"})
    second = run_tap(follows(broker, topic), state=first.state)
    assert sorted(ids(second)) == [2, 3, 4]
    assert second.bookmark("shop-orders")["offsets"] == {"0": 2, "1": 2, "2": 0}


@pytest.mark.slow
def test_a_topic_that_cannot_be_followed_says_how_to_start_again(spark, broker):
    topic = "b.shop.orders"
    produce(spark, broker, topic, *({"id": n, "v": "x"} for n in range(5)))
    state = {"bookmarks": {"shop-orders": {"offsets": {"0": 2}}}}
    assert ids(run_tap(follows(broker, topic), state=state)) == [2, 3, 4]
    expire(spark, broker, topic, 4)
    with pytest.raises(SourceError, match=r"shop-orders .*no longer kept; remove the stream's"):
        run_tap(follows(broker, topic), state=state)
    assert ids(run_tap(follows(broker, topic))) == [4]
    ahead = {"bookmarks": {"shop-orders": {"offsets": {"0": 99}}}}
    with pytest.raises(StateError, match=r"shop-orders: .* the topic was made anew"):
        run_tap(follows(broker, topic), state=ahead)


@pytest.mark.slow
def test_a_malformed_event_is_named_by_topic_partition_and_offset(spark, broker):
    topic = "c.shop.orders"
    produce(spark, broker, topic, {"id": 1, "v": "x"}, "{no json", {"id": 2, "v": "y"})
    with pytest.raises(DataError, match=r"event 1 of partition 0 of topic c\.shop\.orders is no"):
        run_tap(follows(broker, topic))


@pytest.mark.slow
def test_a_large_value_is_missed_only_where_its_column_is_selected(spark, broker):
    topic = "j.shop.orders"
    produce(spark, broker, topic, {"id": 1, "v": "__debezium_unavailable_value"})
    settings = follows(broker, topic)
    catalog = discover(settings)
    run_tap(settings, catalog=catalog, fails=DataError)
    metadata_of(entry_of(catalog, "shop-orders"), "properties", "v")["selected"] = False
    assert run_tap(settings, catalog=catalog).records() == [{"id": 1}]


@pytest.mark.slow
def test_topics_that_are_none_of_debezium_are_left_out(spark, broker):
    produce(spark, broker, "d.shop.orders", {"id": 1, "v": "x"})
    produce(spark, broker, "d.transaction", '{"status": "BEGIN"}')
    settings = {"source_url": f"kafka:{broker.address}", "tables": ["d.*"]}
    catalog = discover(settings)
    assert [entry["tap_stream_id"] for entry in catalog["streams"]] == ["shop-orders"]
    assert ids(run_tap(settings, catalog=catalog)) == [1]
    with pytest.raises(SourceError, match=r"transaction: topic d\.transaction holds no Debezium"):
        discover({**settings, "tables": ["d.transaction"]})
    with pytest.raises(SourceError, match=r"no topic d\.gone"):
        discover({**settings, "tables": ["d.gone"]})


def with_schema(scale: int, **row) -> str:
    """An insertion as a converter with schemas writes it; the price has so many decimals."""
    parameters = {"scale": str(scale), "connect.decimal.precision": "10"}
    name = "org.apache.kafka.connect.data.Decimal"
    price = {"field": "price", "type": "bytes", "name": name, "parameters": parameters}
    fields = [{"field": "id", "type": "int64"}, price]
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
    return json.dumps({"schema": schema, "payload": {**EVENT, "op": "c", "after": row}})


@pytest.mark.slow
def test_events_of_an_older_schema_keep_their_meaning(spark, broker):
    topic = "h.shop.orders"
    old = [with_schema(2, id=n, price="bg==") for n in (1, 2)]
    produce(spark, broker, topic, *old, with_schema(4, id=3, price="bg=="))
    output = run_tap(follows(broker, topic))
    told = [(record["id"], record["price"]) for record in output.records()]
    assert told == [(1, Decimal("1.1000")), (2, Decimal("1.1000")), (3, Decimal("0.0110"))]
    seen = [m["value"]["bookmarks"]["shop-orders"]["offsets"]["0"] for m in output.of("STATE")]
    assert [offset for offset in seen if offset][:2] == [2, 3]


@pytest.mark.slow
def test_types_are_learned_from_before_a_row_of_deletions(spark, broker):
    topic = "i.shop.orders"
    gone = json.dumps({**EVENT, "op": "d", "after": None, "before": {"id": 1, "n": None}})
    produce(spark, broker, topic, {"id": 1, "n": 5}, *[gone] * 60)
    output = run_tap(follows(broker, topic))
    assert output.of("SCHEMA")[0]["schema"]["properties"]["n"]["type"] == ["integer", "null"]
    assert output.records()[0]["n"] == 5
