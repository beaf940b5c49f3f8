"""The tap on a real PostgreSQL: which tables there are, and what cannot be reached."""

from __future__ import annotations

import pytest

from singer_spark.errors import SettingsError, SourceError
from tap_spark_source.tap import TapSparkSource
from tests.support.tap import discover, entry_of, metadata_of, previews, run_tap

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
        with pytest.raises((SourceError, SettingsError)) as caught:
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


def test_two_tables_that_would_be_one_stream_are_named(database):
    database.run(
        'create schema "a"; create table "a"."b-c" (id int); insert into "a"."b-c" values (7)'
    )
    database.run('create schema "a-b"; create table "a-b"."c" (id int)')
    try:
        both = {**database.config, "tables": ["a.*", "a-b.*"]}
        with pytest.raises(SourceError, match=r"one stream for a\.b-c and a-b\.c; name the one"):
            discover(both)
        catalog = {"streams": [{"tap_stream_id": "a-b-c", "schema": {"type": "object"}}]}
        with pytest.raises(SourceError, match="one stream for"):
            run_tap(database.config, catalog=catalog)
        one = {**both, "tables": ["a.*"]}
        assert run_tap(one, catalog=discover(one)).records("a-b-c") == [{"id": 7}]
    finally:
        database.run('drop schema "a" cascade; drop schema "a-b" cascade')


def test_rows_that_others_inherit_are_counted_in(database):
    database.run(
        "create table base (id int primary key); create table child () inherits (base); "
        "insert into base values (1); insert into child select generate_series(2, 30)"
    )
    try:
        database.run("analyze base; analyze child")
        settings = database.reads("base", settings={"slice_rows": 10, "num_partitions": 1})
        assert previews(settings)[0]["rows"] == 30
        output = run_tap(settings)
        assert sorted(row["id"] for row in output.records()) == list(range(1, 31))
        assert output.kinds.count("STATE") > 2
    finally:
        database.run("drop table base cascade")


@pytest.mark.parametrize("quoted", ['"at"', "at"])
def test_an_expression_may_be_longer_than_a_name(database, quoted):
    spelled = f"greatest({', '.join([quoted] * 20)})"
    flag = f"case when {spelled} > timestamptz '2024-01-05 12:00+00' then {spelled} end"
    settings = database.reads("orders", replication_key=spelled, deleted_flag=flag)
    first = run_tap(settings)
    assert first.bookmark("public-orders") == {
        "replication_key": spelled,
        "replication_key_value": "2024-01-06T00:00:00.000001+00:00",
    }
    deleted = {row["id"]: row["_sdc_deleted_at"] for row in first.records()}
    assert [id for id, at in sorted(deleted.items()) if at] == [5]
    assert [row["id"] for row in run_tap(settings, state=first.state).records()] == [5]


def test_an_expression_is_known_by_the_databases_own_type(database):
    source = TapSparkSource(config=database.reads("orders")).source
    (table,) = source.discover()
    natives = [source.describe(table, one).native for one in ("coalesce(ts, ts)", "day + 1")]
    assert natives == ["timestamp", "date"]
