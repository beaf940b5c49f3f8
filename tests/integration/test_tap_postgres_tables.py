"""The tap on a real PostgreSQL: which tables there are, and what cannot be reached."""

from __future__ import annotations

import pytest

from singer_spark.errors import SettingsError, SourceError
from tests.support.tap import discover, entry_of, metadata_of, run_tap

SCHEMA = """
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
"""


def test_discovery_knows_views_partitions_and_keys_in_their_order(database):
    catalog = discover(database.config)
    assert [entry["tap_stream_id"] for entry in catalog["streams"]] == [
        "Odd Schema-Odd-Table",
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


def test_discovery_of_named_tables_lists_no_others(database):
    start = len(database.log())
    discover(database.reads("orders"))
    asked = database.log()[start:]
    assert "= 'public.orders'" in asked
    assert "parts" not in asked


def test_a_hand_written_catalog_finds_its_table_by_the_stream_id(database):
    schema = {"type": "object", "properties": {"a b": {}}}
    catalog = {"streams": [{"tap_stream_id": "Odd Schema-Odd-Table", "schema": schema}]}
    assert run_tap(database.config, catalog=catalog).records() == [{"a b": 1}]


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
    for url in (
        "jdbc:postgresql://127.0.0.1:1/shop?user=u&password=hunter2",
        "jdbc:postgresql://u:a/b@hunter2@127.0.0.1:1/shop",
    ):
        with pytest.raises(SourceError) as caught:
            discover({"source_url": url})
        assert "hunter2" not in str(caught.value)


def test_a_missing_driver_says_how_to_add_one(spark):
    with pytest.raises(SettingsError, match="spark_packages"):
        discover({"source_url": "jdbc:nosuchdb://h/d"})


def test_a_missing_table_or_column_is_named(database):
    catalog = discover(database.reads("orders"))
    entry = entry_of(catalog, "public-orders")
    metadata_of(entry).update({"replication-method": "INCREMENTAL", "replication-key": "updated"})
    with pytest.raises(
        SourceError, match=r"replication key updated is no column of public\.orders"
    ):
        run_tap(database.config, catalog=catalog)
    entry["table_name"] = "gone"
    with pytest.raises(SourceError, match=r"public-orders: table public\.gone is gone"):
        run_tap(database.config, catalog=catalog)
