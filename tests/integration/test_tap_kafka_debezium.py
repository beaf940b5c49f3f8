"""LOG_BASED on events that a real Debezium makes of a real PostgreSQL, through a real broker."""

from __future__ import annotations

import json
import time
from decimal import Decimal

import pytest

from singer_spark.errors import DataError, SourceError
from singer_spark.names import literal
from tap_spark_source.sources.kafka import debezium
from tap_spark_source.sources.kafka.debezium import is_unavailable
from tap_spark_source.sources.kafka.topics import read_events
from tests.support.kafka import Debezium, follows
from tests.support.tap import Postgres, discover, entry_of, run_tap

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

# Types whose values can be too large for a row, and such values.
LARGE = [
    ("text", "repeat('x', 10000)"),
    ("bytea", "decode(repeat('00', 10000), 'hex')"),
    ("text[]", "array_fill('word'::text, array[3000])"),
    ("bytea[]", "array_fill('\\x0001'::bytea, array[3000])"),
    ("uuid[]", "array_fill(gen_random_uuid(), array[3000])"),
    ("int[]", "array_fill(7, array[3000])"),
    ("bigint[]", "array_fill(7::bigint, array[3000])"),
    ("jsonb", "to_jsonb(array_fill('word'::text, array[3000]))"),
    ("date[]", "array_fill(date '2024-01-01', array[3000])"),
]
JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture(scope="module")
def followed(broker):
    """A database whose table two connectors follow: one writes schemas, the other none."""
    server = Postgres(wal_level="logical")
    server.run(
        "create table orders (id bigint primary key, name text, price numeric(10,2), "
        "at timestamptz, ts timestamp); "
        "insert into orders values (1, 'a', 1.10, '2024-01-01 00:00:00.123456+02', null); "
        "create table coded (id int primary key, code text not null, v int); "
        "alter table coded replica identity full; insert into coded values (1, 'a', 1)"
    )
    server.run("create table large (id int primary key, n int); insert into large values (1, 1)")
    for number, (kind, value) in enumerate(LARGE):
        server.run(
            f"alter table large add v{number} {kind}; "
            f"alter table large alter v{number} set storage external; "
            f"update large set v{number} = {value}"
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
    settings = follows(broker, f"{prefix}.public.orders", **options)
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


def test_a_large_value_that_did_not_change_is_known_whatever_its_type(spark, broker, followed):
    topic = "full.public.large"
    settings = follows(broker, topic)
    state = wait_for(settings, 1).state
    followed.run("update large set n = 2")
    with pytest.raises(DataError, match="lacks a large value that did not change"):
        wait_for(settings, 1, state=state)
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.address)
    *_, event = read_events(reader.option("subscribe", topic).load().orderBy("offset"))
    kinds = {field.name: field.json_type for field in debezium.fields_of([event])}
    row = json.dumps(event.image("after"))
    schema = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    names = [f"v{number}" for number in range(len(LARGE))]
    asked = [f"{is_unavailable([(f'r.{name}', kinds[name])])} as {name}" for name in names]
    found = spark.range(1).selectExpr(f"from_json({literal(row)}, {literal(schema)}) as r")
    (told,) = found.selectExpr(*asked).toArrow().to_pylist()
    assert told == dict.fromkeys(names, True), row


def test_an_update_of_a_key_of_ones_own_is_a_deletion_and_a_row(broker, followed):
    settings = follows(broker, "full.public.coded", key_properties=["code"])
    first = wait_for(settings, 1)
    assert first.records() == [{"id": 1, "code": "a", "v": 1}]
    followed.run("update coded set v = 2")
    followed.run("update coded set code = 'b'")
    second = wait_for(settings, 3, state=first.state)
    kept, gone, moved = second.records()
    assert (kept["code"], kept["v"]) == ("a", 2)
    assert set(gone) == {"code", "_sdc_deleted_at"}
    assert gone["code"] == "a"
    assert (moved["code"], moved["v"], moved.get("_sdc_deleted_at")) == ("b", 2, None)
