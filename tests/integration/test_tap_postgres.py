"""The tap on a real PostgreSQL: every type, what is pushed down, and what goes wrong."""

from __future__ import annotations

import logging
import re
from decimal import Decimal

import pytest
from fixtures_tap import Postgres, discover, entry_of, metadata_of, run_tap

from singer_spark.errors import DataError, SettingsError, SourceError

SCHEMA = """
create type mood as enum ('sad', 'ok');
create domain positive as integer check (value > 0);
create domain price as numeric(10,2);
create table kinds (
  id bigserial primary key, si smallint, i int, b bool, r real, d double precision,
  n numeric, n_exact numeric(20,5), n_wide numeric(50,10), n_hundreds numeric(5,-2),
  n_full numeric(38,0), m money, t text, vc varchar(10), ch char(5), nm name, by bytea, u uuid,
  j json, jb jsonb, dt date, tm time, tmz timetz, ts timestamp, tz timestamptz, ts3 timestamp(3),
  iv interval, e mood, dom positive, dom2 price, ip inet, cd cidr, o oid, bit1 bit(1), bit8 bit(8),
  vb varbit, pt point, rng int4range, ia int[], ia2 int[][], ta text[], na numeric[],
  n2a numeric(10,2)[], tsa timestamp[], tza timestamptz[], bya bytea[], ua uuid[], ja jsonb[],
  da date[], ea mood[], tma time[]);
insert into kinds values
  (1, -32768, 2147483647, true, 1.1, 1.1, 123456789012345678901234567890.12345678901234567890123,
   123456789012345.12345, 1234567890123456789012345678901234567890.0123456789, 12300,
   12345678901234567890123456789012345678, 12.34, E'line\\nbreak "q" \\u00e9', 'vc', 'ch', 'nm',
   '\\x00ff', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"a": 1.10}', '{"a": 1.10}', '0001-01-01',
   '23:59:59.123456', '10:00:00+05', '2024-01-01 10:00:00.123456', '2024-01-01 10:00:00.123456+02',
   '2024-01-01 10:00:00.123', '1 year 2 days 03:04:05.6', 'ok', 5, 1.25, '10.0.0.1', '10.0.0.0/8',
   4294967295, B'1', B'10101010', B'101', '(1,2)', '[1,5)', '{1,2,null}', '{{1,2},{3,4}}',
   '{a,"b c"}', '{1.5,2.25}', '{1.25}', '{2024-01-01 00:00:00.123456}',
   '{2024-01-01 00:00:00.123456+02}', '{"\\\\x00ff"}', '{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}',
   array['{"a": 1}'::jsonb], '{2024-01-01}', '{sad}', '{10:00:00.5}');
insert into kinds (id) values (2);
create table orders (id int primary key, at timestamptz, ts timestamp, day date, amount numeric,
  code text);
insert into orders select n, '2024-01-01 00:00:00.000001+00'::timestamptz + n * interval '1 day',
  '2024-01-01 00:00:00.000001'::timestamp + n * interval '1 day', date '2024-01-01' + n,
  n + 0.5, chr(96 + n) from generate_series(1, 5) n;
create index on orders (at);
create view some_orders as select id, at from orders;
create materialized view old_orders as select id from orders;
create table parts (id int, at date, primary key (at, id)) partition by range (at);
create table parts_2024 partition of parts for values from ('2024-01-01') to ('2025-01-01');
insert into parts values (1, '2024-05-05');
create schema "Odd Schema";
create table "Odd Schema"."Odd-Table" ("a b" int, "c""d" text, primary key ("c""d", "a b"));
insert into "Odd Schema"."Odd-Table" values (1, 'x');
create table far (id int primary key, ts timestamp, tz timestamptz, d date, n numeric(5,2),
  da date[]);
insert into far values (1, 'infinity'), (2, '0044-03-15 BC');
insert into far (id, tz) values (3, '-infinity');
insert into far (id, d) values (4, 'infinity');
insert into far (id, n) values (5, 'NaN');
insert into far (id, da) values (6, '{infinity}');
insert into far values (7, '9999-12-31 23:59:59.999999', '0001-01-01 00:00:00+00', '9999-12-31');
"""
EXPECTED = {
    "id": 1,
    "si": -32768,
    "i": 2147483647,
    "b": True,
    "r": Decimal("1.1"),
    "d": Decimal("1.1"),
    "n": "123456789012345678901234567890.12345678901234567890123",
    "n_exact": Decimal("123456789012345.12345"),
    "n_wide": "1234567890123456789012345678901234567890.0123456789",
    "n_hundreds": "12300",
    "n_full": 12345678901234567890123456789012345678,
    "m": "$12.34",
    "t": 'line\nbreak "q" é',
    "vc": "vc",
    "ch": "ch   ",
    "nm": "nm",
    "by": "AP8=",
    "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "j": '{"a": 1.10}',
    "jb": '{"a": 1.10}',
    "dt": "0001-01-01",
    "tm": "23:59:59.123456",
    "tmz": "10:00:00+05",
    "ts": "2024-01-01T10:00:00.123456",
    "tz": "2024-01-01T08:00:00.123456+00:00",
    "ts3": "2024-01-01T10:00:00.123000",
    "iv": "1 year 2 days 03:04:05.6",
    "e": "ok",
    "dom": 5,
    "dom2": Decimal("1.25"),
    "ip": "10.0.0.1",
    "cd": "10.0.0.0/8",
    "o": 4294967295,
    "bit1": True,
    "bit8": "10101010",
    "vb": "101",
    "pt": "(1,2)",
    "rng": "[1,5)",
    "ia": [1, 2, None],
    "ia2": [[1, 2], [3, 4]],
    "ta": ["a", "b c"],
    "na": ["1.5", "2.25"],
    "n2a": [Decimal("1.25")],
    "tsa": ["2024-01-01T00:00:00.123456"],
    "tza": ["2023-12-31T22:00:00.123456+00:00"],
    "bya": ["AP8="],
    "ua": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "ja": ['{"a": 1}'],
    "da": ["2024-01-01"],
    "ea": ["sad"],
    "tma": ["10:00:00.5"],
}


@pytest.fixture(scope="module")
def database(spark):
    server = Postgres()
    server.run(SCHEMA)
    yield server
    server.stop()


def config(database: Postgres, *tables: str, **options) -> dict:
    return {
        **database.config,
        "tables": [f"public.{table}" for table in tables],
        "stream_options": {"*": options},
    }


def ids(output) -> list[int]:
    return sorted(record["id"] for record in output.records())


def test_every_type_arrives_exactly(database):
    records = run_tap(config(database, "kinds")).records()
    first, second = sorted(records, key=lambda record: record["id"])
    assert first == EXPECTED
    assert second == {**dict.fromkeys(EXPECTED), "id": 2}


def test_unbounded_numbers_are_declared_as_decimal_text(database):
    schema = run_tap(config(database, "kinds")).of("SCHEMA")[0]["schema"]["properties"]
    text = {"type": ["string", "null"], "format": "x-singer.decimal", "x-sql-datatype": "string"}
    assert schema["n"] == text
    assert schema["n_exact"]["x-sql-datatype"] == "decimal(20,5)"
    assert schema["ts"]["x-sql-datatype"] == "timestamp_ntz"
    assert schema["tz"] == {
        "type": ["string", "null"],
        "format": "date-time",
        "x-sql-datatype": "timestamp",
    }


def test_discovery_knows_views_partitions_and_keys_in_their_order(database):
    catalog = discover(database.config)
    assert [entry["tap_stream_id"] for entry in catalog["streams"]] == [
        "Odd Schema-Odd-Table",
        "public-far",
        "public-kinds",
        "public-old_orders",
        "public-orders",
        "public-parts",
        "public-some_orders",
    ]
    assert entry_of(catalog, "public-parts")["key_properties"] == ["at", "id"]
    assert entry_of(catalog, "Odd Schema-Odd-Table")["key_properties"] == ['c"d', "a b"]
    for view in ("public-some_orders", "public-old_orders"):
        assert metadata_of(entry_of(catalog, view))["is-view"] is True
    orders = entry_of(catalog, "public-orders")
    assert metadata_of(orders)["valid-replication-keys"] == ["id", "at", "ts", "day"]
    assert metadata_of(orders, "properties", "at")["sql-datatype"] == "timestamp with time zone"


def test_odd_names_partitions_and_views_are_read(database):
    tables = {**database.config, "tables": ["Odd Schema.*", "public.parts", "public.some_orders"]}
    output = run_tap(tables)
    assert output.records("Odd Schema-Odd-Table") == [{"a b": 1, 'c"d': "x"}]
    assert output.records("public-parts") == [{"id": 1, "at": "2024-05-05"}]
    assert len(output.records("public-some_orders")) == 5


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (1, "infinity is outside the years 1 to 9999"),
        (2, "0044-03-15 00:00:00 BC is outside the years"),
        (3, "-infinity is outside"),
        (4, "infinity is outside"),
        (5, "NaN"),
        (6, "infinity} is outside"),
    ],
)
def test_what_spark_would_bend_is_an_error(database, row, reason):
    with pytest.raises(DataError, match=re.escape(reason)) as caught:
        run_tap(config(database, "far", where=f"id = {row}"))
    assert "public-far" in str(caught.value)
    assert caught.value.exit_code == 65


def test_the_ends_of_the_calendar_arrive(database):
    (record,) = run_tap(config(database, "far", where="id = 7")).records()
    assert record["ts"] == "9999-12-31T23:59:59.999999"
    assert record["tz"] == "0001-01-01T00:00:00.000000+00:00"
    assert record["d"] == "9999-12-31"


@pytest.mark.parametrize(
    ("key", "bookmark", "last"),
    [
        ("at", "2024-01-05T00:00:00.000001+00:00", "2024-01-06T00:00:00.000001+00:00"),
        ("at", "2024-01-05T05:00:00.000001+05:00", "2024-01-06T00:00:00.000001+00:00"),
        ("ts", "2024-01-05T00:00:00.000001", "2024-01-06T00:00:00.000001"),
        ("day", "2024-01-05", "2024-01-06"),
        ("id", 4, 5),
        ("amount", "4.5", "5.5"),
        ("code", "d", "e"),
    ],
)
def test_the_window_is_inclusive_to_the_microsecond(database, key, bookmark, last):
    state = {"replication_key": key, "replication_key_value": bookmark}
    output = run_tap(
        config(database, "orders", replication_key=key),
        state={"bookmarks": {"public-orders": state}},
    )
    assert ids(output) == [4, 5]
    assert output.bookmark("public-orders")["replication_key_value"] == last


def test_the_database_itself_applies_window_columns_and_upper_bound(database):
    start = len(database.log())
    state = {"replication_key": "at", "replication_key_value": "2024-01-05T00:00:00.000001+00:00"}
    run_tap(
        config(database, "orders", replication_key="at"),
        state={"bookmarks": {"public-orders": state}},
    )
    asked = [line for line in database.log()[start:].splitlines() if '"public"."orders"' in line]
    highest = [line for line in asked if 'max("at")' in line]
    window = (
        """("at" >= '2024-01-05T00:00:00.000001+00:00' and """
        """"at" <= '2024-01-06T00:00:00.000001+00:00')"""
    )
    reads = [line for line in asked if window in line]
    assert any("WHERE 1=0" not in line for line in highest)
    assert any("WHERE 1=0" not in line for line in reads)
    unbounded = [line for line in asked if "WHERE 1=0" not in line]
    assert all("max(" in line or window in line for line in unbounded)


def test_discovery_of_named_tables_lists_no_others(database):
    start = len(database.log())
    discover(config(database, "orders"))
    asked = database.log()[start:]
    assert "= 'public.orders'" in asked
    assert "kinds" not in asked


def test_a_row_that_arrives_during_the_read_waits_for_the_next_run(database, monkeypatch):
    from tap_spark_source.sources.jdbc import JdbcSource

    original = JdbcSource.frame

    def late(self, table, columns, **options):
        if options.get("bounds"):
            database.run(
                "insert into orders (id, at) values (99, '2025-01-01') on conflict do nothing"
            )
        return original(self, table, columns, **options)

    monkeypatch.setattr(JdbcSource, "frame", late)
    try:
        output = run_tap(config(database, "orders", replication_key="at"))
        assert ids(output) == [1, 2, 3, 4, 5]
        monkeypatch.undo()
        again = run_tap(config(database, "orders", replication_key="at"), state=output.state)
        assert ids(again) == [5, 99]
    finally:
        database.run("delete from orders where id = 99")


def test_a_wrong_password_is_one_line_without_the_password(database):
    wrong = {**database.config, "source_password": "not-the-pa55word"}
    with pytest.raises(SourceError, match="password authentication failed") as caught:
        discover(wrong)
    assert "not-the-pa55word" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unreachable_database_is_named(database):
    with pytest.raises(SourceError, match=r"127\.0\.0\.1:1/shop.*refused"):
        discover({"source_url": "jdbc:postgresql://127.0.0.1:1/shop", "source_user": "x"})


def test_credentials_in_a_url_are_masked(database):
    url = "jdbc:postgresql://127.0.0.1:1/shop?user=u&password=hunter2"
    with pytest.raises(SourceError) as caught:
        discover({"source_url": url})
    assert "hunter2" not in str(caught.value)


def test_a_missing_driver_says_how_to_add_one(spark):
    with pytest.raises(SettingsError, match="spark_packages"):
        discover({"source_url": "jdbc:nosuchdb://h/d"})


def test_a_missing_table_or_column_is_named(database):
    catalog = discover(config(database, "orders"))
    entry = entry_of(catalog, "public-orders")
    metadata_of(entry).update({"replication-method": "INCREMENTAL", "replication-key": "updated"})
    with pytest.raises(
        SourceError, match=r"replication key updated is no column of public\.orders"
    ):
        run_tap(database.config, catalog=catalog)
    entry["table_name"] = "gone"
    with pytest.raises(SourceError, match=r"public-orders: table public\.gone is gone"):
        run_tap(database.config, catalog=catalog)


def test_a_hand_written_catalog_finds_its_table_by_the_stream_id(database):
    schema = {"type": "object", "properties": {"a b": {}}}
    catalog = {"streams": [{"tap_stream_id": "Odd Schema-Odd-Table", "schema": schema}]}
    assert run_tap(database.config, catalog=catalog).records() == [{"a b": 1}]


def test_a_bad_where_is_an_error_of_the_source(database, caplog):
    with caplog.at_level(logging.CRITICAL), pytest.raises(SourceError, match="nope"):
        run_tap(config(database, "orders", where="nope = 1"))
