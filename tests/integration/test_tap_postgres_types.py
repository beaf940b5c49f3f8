"""The tap on a real PostgreSQL: every type, and what Spark would bend."""

from __future__ import annotations

import re
from contextlib import contextmanager
from decimal import Decimal

import pytest

from singer_spark.errors import DataError
from tests.support.session import java
from tests.support.tap import run_tap

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
create table far (id int primary key, ts timestamp, tz timestamptz, d date, n numeric(5,2),
  da date[]);
insert into far values (1, 'infinity'), (2, '0044-03-15 BC');
insert into far (id, tz) values (3, '-infinity');
insert into far (id, d) values (4, 'infinity');
insert into far (id, n) values (5, 'NaN');
insert into far (id, da) values (6, '{infinity}');
create table gaps (id int primary key, ts timestamp, tsa timestamp[]);
insert into gaps values (1, '2024-03-31 02:30:00.5', '{2024-03-31 02:30:00.5, null}');
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


def test_every_type_arrives_exactly(database):
    records = run_tap(database.reads("kinds")).records()
    first, second = sorted(records, key=lambda record: record["id"])
    assert first == EXPECTED
    assert second == {**dict.fromkeys(EXPECTED), "id": 2}


def test_unbounded_numbers_are_declared_as_decimal_text(database):
    schema = run_tap(database.reads("kinds")).of("SCHEMA")[0]["schema"]["properties"]
    text = {"type": ["string", "null"], "format": "x-singer.decimal", "x-sql-datatype": "string"}
    assert schema["n"] == text
    assert schema["n_exact"]["x-sql-datatype"] == "decimal(20,5)"
    assert schema["ts"]["x-sql-datatype"] == "timestamp_ntz"
    assert schema["tz"] == {
        "type": ["string", "null"],
        "format": "date-time",
        "x-sql-datatype": "timestamp",
    }


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
        run_tap({**database.reads("far", where=f"id = {row}"), "show_values": True})
    assert "public-far" in str(caught.value)
    assert caught.value.exit_code == 65


@contextmanager
def zone_of_java(name: str):
    zones = java().jvm.java.util.TimeZone
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone(name))
    try:
        yield
    finally:
        zones.setDefault(before)


@pytest.mark.parametrize("key", ["ts", "coalesce(ts, ts)"])
def test_a_time_without_a_zone_arrives_whatever_the_zone_of_java_is(spark, database, key):
    # Berlin's clocks never showed it.
    with zone_of_java("Europe/Berlin"):
        output = run_tap(database.reads("gaps", replication_key=key))
    gap = "2024-03-31T02:30:00.500000"
    assert output.records() == [{"id": 1, "ts": gap, "tsa": [gap, None]}]
    assert output.bookmark("public-gaps")["replication_key_value"] == gap


def test_the_ends_of_the_calendar_arrive(database):
    (record,) = run_tap(database.reads("far", where="id = 7")).records()
    assert record["ts"] == "9999-12-31T23:59:59.999999"
    assert record["tz"] == "0001-01-01T00:00:00.000000+00:00"
    assert record["d"] == "9999-12-31"
