"""LOG_BASED on events that a real Debezium makes of a real PostgreSQL, through a real broker."""

from __future__ import annotations

import time
from decimal import Decimal

import pytest

from singer_spark.errors import SourceError
from tests.support.kafka import Debezium, follows
from tests.support.tap import Postgres, discover, entry_of, run_tap

pytestmark = pytest.mark.slow

JSON = "org.apache.kafka.connect.json.JsonConverter"


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
