"""LOG_BASED on a real Kafka broker, with events of a real Debezium on a real PostgreSQL."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from decimal import Decimal

import pytest

from singer_spark.errors import DataError, SourceError, StateError
from singer_spark.jars import KAFKA, resolve
from tests.support.kafka import Debezium, KafkaBroker
from tests.support.tap import Postgres, discover, entry_of, previews, run_tap

pytestmark = pytest.mark.slow

JSON = "org.apache.kafka.connect.json.JsonConverter"
EVENT = {"before": None, "source": {"ts_ms": 1700000000000}, "ts_ms": 0}


@pytest.fixture(scope="module")
def broker(spark):
    assert resolve([KAFKA])
    found = KafkaBroker()
    yield found
    found.stop()


def config(broker, topic: str, **options) -> dict:
    return {
        "source_url": f"kafka:{broker.address}",
        "tables": [topic],
        "stream_options": {"*": options},
    }


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
    java = spark._jvm
    properties = java.java.util.Properties()
    properties.put("bootstrap.servers", broker.address)
    admin = java.org.apache.kafka.clients.admin.AdminClient.create(properties)
    try:
        yield admin
    finally:
        admin.close()


def expire(spark, broker, topic: str, offset: int) -> None:
    """Remove the events before an offset."""
    java, gateway = spark._jvm, spark.sparkContext._gateway
    # By reflection: a method of the object has the same name, and Py4J finds only that one.
    kinds, values = gateway.new_array(java.Class, 1), gateway.new_array(java.Object, 1)
    kinds[0], values[0] = java.Long.TYPE, offset
    kind = java.Class.forName("org.apache.kafka.clients.admin.RecordsToDelete")
    wanted = java.java.util.HashMap()
    place = java.org.apache.kafka.common.TopicPartition(topic, 0)
    wanted.put(place, kind.getMethod("beforeOffset", kinds).invoke(None, values))
    with administration(spark, broker) as admin:
        admin.deleteRecords(wanted).all().get()


def add_partitions(spark, broker, topic: str, count: int) -> None:
    java = spark._jvm
    wanted = java.java.util.HashMap()
    wanted.put(topic, java.org.apache.kafka.clients.admin.NewPartitions.increaseTo(count))
    with administration(spark, broker) as admin:
        admin.createPartitions(wanted).all().get()


def test_events_are_read_once_up_to_the_end_of_the_start(spark, broker):
    topic = "a.shop.orders"
    produce(spark, broker, topic, {"id": 1, "v": "x"}, {"id": 2, "v": None}, None)
    first = run_tap(config(broker, topic))
    assert ids(first) == [1, 2]
    assert {message["stream"] for message in first.of("RECORD")} == {"shop-orders"}
    assert first.bookmark("shop-orders")["offsets"] == {"0": 3}
    assert run_tap(config(broker, topic), state=first.state).records() == []
    produce(spark, broker, topic, *({"id": n, "v": "y"} for n in range(10)))
    settings = {**config(broker, topic), "slice_rows": 4}
    second = run_tap(settings, state=first.state)
    assert ids(second) == list(range(10))
    seen = [m["value"]["bookmarks"]["shop-orders"]["offsets"]["0"] for m in second.of("STATE")]
    assert [offset for offset in seen if offset > 3][:3] == [7, 11, 13]
    some = run_tap({**settings, "max_rows": 4}, state=first.state)
    assert ids(some) == [0, 1, 2, 3]


def test_an_interrupted_first_read_goes_on_where_it_stopped(spark, broker):
    topic = "e.shop.orders"
    produce(spark, broker, topic, *({"id": n, "v": "x"} for n in range(10)))
    expire(spark, broker, topic, 3)
    settings = {**config(broker, topic), "slice_rows": 3}
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


def test_only_what_a_transaction_committed_is_read(spark, broker):
    topic = "g.shop.orders"
    produce(spark, broker, topic, {"id": 1, "v": "x"})
    java = spark._jvm
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
        first = run_tap(config(broker, topic))
        assert ids(first) == [1, 3]
        producer.commitTransaction()
    finally:
        producer.close()
    second = run_tap(config(broker, topic), state=first.state)
    assert ids(second) == [4]
    # Behind the last event is only the mark of its transaction.
    third = run_tap(config(broker, topic), state=second.state)
    assert third.records() == []
    assert third.state == second.state


def test_partitions_that_appear_later_are_read_from_their_first_event(spark, broker):
    topic = "f.shop.orders"
    produce(spark, broker, topic, {"id": 1, "v": "x"})
    first = run_tap(config(broker, topic))
    add_partitions(spark, broker, topic, 3)
    produce(spark, broker, topic, {"id": 2, "v": "x"}, {"id": 3, "v": "x"}, partition=1)
    produce(spark, broker, topic, {"id": 4, "v": "x"})
    second = run_tap(config(broker, topic), state=first.state)
    assert sorted(ids(second)) == [2, 3, 4]
    assert second.bookmark("shop-orders")["offsets"] == {"0": 2, "1": 2, "2": 0}


def test_a_topic_that_cannot_be_followed_says_how_to_start_again(spark, broker):
    topic = "b.shop.orders"
    produce(spark, broker, topic, *({"id": n, "v": "x"} for n in range(5)))
    state = {"bookmarks": {"shop-orders": {"offsets": {"0": 2}}}}
    assert ids(run_tap(config(broker, topic), state=state)) == [2, 3, 4]
    expire(spark, broker, topic, 4)
    with pytest.raises(SourceError, match=r"shop-orders .*no longer kept; remove the stream's"):
        run_tap(config(broker, topic), state=state)
    assert ids(run_tap(config(broker, topic))) == [4]
    ahead = {"bookmarks": {"shop-orders": {"offsets": {"0": 99}}}}
    with pytest.raises(StateError, match=r"shop-orders: .* the topic was made anew"):
        run_tap(config(broker, topic), state=ahead)


def test_a_malformed_event_is_named_by_topic_partition_and_offset(spark, broker):
    topic = "c.shop.orders"
    produce(spark, broker, topic, {"id": 1, "v": "x"}, "{no json", {"id": 2, "v": "y"})
    with pytest.raises(DataError, match=r"event 1 of partition 0 of topic c\.shop\.orders is no"):
        run_tap(config(broker, topic))


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


@pytest.fixture(scope="module")
def followed(broker):
    """A database whose table two connectors follow: one writes schemas, the other none."""
    server = Postgres(wal_level="logical")
    server.run(
        "create table orders (id bigint primary key, name text, price numeric(10,2), "
        "at timestamptz, ts timestamp); "
        "insert into orders values (1, 'a', 1.10, '2024-01-01 00:00:00.123456+02', null)"
    )
    common = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "database.hostname": "127.0.0.1",
        "database.port": server.port,
        "database.user": server.user,
        "database.password": server.password,
        "database.dbname": "postgres",
    }
    plain = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
    plain |= {"key.converter": JSON, "key.converter.schemas.enable": "false"}
    connectors = {
        "full": {**common, "topic.prefix": "full", "slot.name": "one", "publication.name": "one"},
        "plain": {
            **common,
            **plain,
            "topic.prefix": "plain",
            "slot.name": "two",
            "publication.name": "two",
            "decimal.handling.mode": "string",
            "provide.transaction.metadata": "true",
        },
    }
    worker = Debezium(broker, connectors)
    yield server
    worker.stop()
    server.stop()


SCHEMA = {
    "id": "bigint",
    "name": "string",
    "price": "decimal(10,2)",
    "at": "timestamp",
    "ts": "io.debezium.time.MicroTimestamp",
}


def wait_for(settings: dict, count: int, state: dict | None = None):
    """Run the tap until so many records have come."""
    until = time.monotonic() + 300
    while True:
        try:
            output = run_tap(settings, state=state)
            if len(output.records()) >= count:
                return output
        except SourceError:
            output = None
        if time.monotonic() > until:
            raise AssertionError(output and output.text)
        time.sleep(2)


@pytest.mark.parametrize(("prefix", "options"), [("full", {}), ("plain", {"schema": SCHEMA})])
def test_what_debezium_tells_of_a_database_arrives(broker, followed, prefix, options):
    settings = config(broker, f"{prefix}.public.orders", **options)
    first = wait_for(settings, 1)
    record = first.records()[0]
    assert record == {
        "id": 1,
        "name": "a",
        "price": Decimal("1.10"),
        "at": "2023-12-31T22:00:00.123456+00:00",
        "ts": None,
    }
    assert entry_of(discover(settings), "public-orders")["key_properties"] == ["id"]
    number = {"full": 10, "plain": 20}[prefix]
    followed.run(
        f"begin; insert into orders values ({number}, 'x', 2, null, '2024-01-01 00:00:00.000001'); "
        f"update orders set id = {number + 1} where id = {number}; commit"
    )
    followed.run(f"delete from orders where id = {number + 1}")
    second = wait_for(settings, 4, state=first.state)
    told = [
        (record["id"], "gone" if record.get("_sdc_deleted_at") else record["ts"])
        for record in second.records()
        if record["id"] in (number, number + 1)
    ]
    assert told == [
        (number, "2024-01-01T00:00:00.000001"),
        (number, "gone"),
        (number + 1, "2024-01-01T00:00:00.000001"),
        (number + 1, "gone"),
    ]
