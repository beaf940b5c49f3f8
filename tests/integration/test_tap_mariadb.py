"""MariaDB through its own driver and through MySQL's: every type arrives exactly."""

from __future__ import annotations

import shutil
from decimal import Decimal

import pytest

from singer_spark.errors import DataError
from tests.support.stores import MariaDB
from tests.support.tap import discover, entry_of, run_tap

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("mariadbd"), reason="needs mariadbd on the PATH"),
]

STATEMENTS = [
    """create table kinds (
      id bigint unsigned not null primary key, t tinyint(1), u int unsigned, d decimal(20,5),
      wide decimal(65,10), f float, r double, v varchar(20), c text, b varbinary(10), bl blob,
      j json, e enum('x', 'y'), one bit(1), many bit(40), day date, at datetime(6), ts timestamp(6),
      tm time(6), y year, `odd ``name` int) charset utf8mb4""",
    """insert into kinds values
      (18446744073709551615, 2, 4294967295, 123456789012345.12345,
       1234567890123456789012345678901234567890.5, 16777217, 1e300, 'it''s é', 'back\\\\slash',
       x'00ff', x'', '{"a": 1}', 'y', b'1', b'1000000000000000000000000000000000000001',
       '0001-01-01', '2024-01-01 00:00:00.123456', '2024-01-01 00:00:00.123456',
       '-838:59:59.000001', 1901, 7)""",
    "insert into kinds (id) values (1)",
    "create table zero (id int primary key, day date)",
    "set sql_mode = ''",
    "insert into zero values (1, '0000-00-00')",
    "create table orders (id int primary key, at datetime(6), index (at))",
    """insert into orders select seq, '2024-01-01' + interval seq second from seq_1_to_100""",
]


@pytest.fixture(scope="module")
def server(spark):
    import pymysql

    found = MariaDB()
    with pymysql.connect(
        host="127.0.0.1",
        port=found.port,
        user=found.user,
        password=found.password,
        database="state",
        autocommit=True,
        init_command="set time_zone = '+00:00'",
    ) as connection:
        for statement in STATEMENTS:
            connection.cursor().execute(statement)
    yield found
    found.stop()


@pytest.fixture(params=["mariadb", "mysql"])
def config(request, server):
    return {
        "source_url": f"jdbc:{request.param}://127.0.0.1:{server.port}/state",
        "source_user": server.user,
        "source_password": server.password,
    }


def test_every_type_arrives_exactly(config):
    output = run_tap({**config, "tables": ["state.kinds"]})
    first, second = sorted(output.records("state-kinds"), key=lambda row: row["id"])
    assert set(first.values()) == {1, None}
    assert second == {
        "id": 18446744073709551615,
        "t": 2,
        "u": 4294967295,
        "d": Decimal("123456789012345.12345"),
        "wide": "1234567890123456789012345678901234567890.5000000000",
        "f": 16777216,
        "r": Decimal("1E+300"),
        "v": "it's é",
        "c": "back\\slash",
        "b": "AP8=",
        "bl": "",
        "j": '{"a": 1}',
        "e": "y",
        "one": True,
        "many": 2**39 + 1,
        "day": "0001-01-01",
        "at": "2024-01-01T00:00:00.123456",
        "ts": "2024-01-01T00:00:00.123456+00:00",
        "tm": "-838:59:59.000001",
        "y": 1901,
        "odd `name": 7,
    }


def test_keys_and_tables_are_found(config):
    catalog = discover(config)
    assert entry_of(catalog, "state-kinds")["key_properties"] == ["id"]
    assert {entry["tap_stream_id"] for entry in catalog["streams"]} == {
        "state-kinds",
        "state-orders",
        "state-zero",
    }


def test_a_replication_key_without_an_index_is_warned_of(config, caplog):
    for table, key in (("kinds", "at"), ("orders", "at")):
        options = {"*": {"replication_key": key}}
        run_tap({**config, "tables": [f"state.{table}"], "stream_options": options})
    assert "state-kinds: no index begins with the replication key at" in caplog.text
    assert "state-kinds: replication key at may be NULL" in caplog.text
    assert "state-orders: no index" not in caplog.text


def test_a_date_that_no_calendar_has_is_an_error(config):
    with pytest.raises(DataError, match="0000-00-00"):
        run_tap({**config, "tables": ["state.zero"]})


@pytest.mark.parametrize("key", ["at", f"coalesce({', '.join(['`at`'] * 60)})"], ids=len)
def test_slices_and_bookmarks_of_a_time(config, key):
    options = {"state-orders": {"replication_key": key}}
    settings = {**config, "tables": ["state.orders"], "stream_options": options}
    first = run_tap({**settings, "slice_rows": 30})
    assert sorted(row["id"] for row in first.records()) == list(range(1, 101))
    assert first.bookmark("state-orders")["replication_key_value"] == "2024-01-01T00:01:40.000000"
    again = run_tap(settings, state=first.state)
    assert [row["id"] for row in again.records()] == [100]
