"""ORC, Avro and text folders, and the tables of Spark's own catalog."""

from __future__ import annotations

from decimal import Decimal

import pytest

from singer_spark.errors import SettingsError, SourceError
from tests.support.tap import discover, run_tap

ROW = """
select true as b, 3 as i, 9223372036854775807 as l, cast(1.5 as float) as f, double('NaN') as d,
  cast('12345678901234567890.12345' as decimal(38,5)) as n, 'line\\nbreak "' as txt, X'00ff' as bin,
  date'0001-01-01' as day, timestamp'2024-01-01 00:00:00.123456' as at,
  timestamp_ntz'2024-01-01 00:00:00.000001' as ntz, array(1, null) as arr,
  named_struct('a', 1, 'b', cast(null as string)) as st, cast(null as string) as nothing
"""
RECORD = {
    "b": True,
    "i": 3,
    "l": 9223372036854775807,
    "f": Decimal("1.5"),
    "d": "NaN",
    "n": Decimal("12345678901234567890.12345"),
    "txt": 'line\nbreak "',
    "bin": "AP8=",
    "day": "0001-01-01",
    "at": "2024-01-01T00:00:00.123456+00:00",
    "ntz": "2024-01-01T00:00:00.000001",
    "arr": [1, None],
    "st": {"a": 1, "b": None},
    "nothing": None,
}


@pytest.mark.parametrize("kind", ["orc", "avro"])
def test_every_type_arrives_exactly(spark, tmp_path, kind):
    spark.sql(ROW).write.format(kind).save(f"{tmp_path}/kinds")
    assert run_tap({"source_url": f"{kind}:{tmp_path}"}).records("kinds") == [RECORD]


def test_text_is_one_record_per_line(tmp_path):
    (tmp_path / "log.txt").write_text("first\n\nthird é\n")
    records = run_tap({"source_url": f"text:{tmp_path}"}).records("log")
    assert [record["value"] for record in records] == ["first", "", "third é"]


def test_csv_files_whose_header_differs_are_not_mixed_up(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "a.csv").write_text("id,name\n1,ann\n")
    (tmp_path / "t" / "b.csv").write_text("name,id\nbob,2\n")
    with pytest.raises(SourceError, match="t "):
        run_tap({"source_url": f"csv:{tmp_path}"})


@pytest.fixture
def schema(spark):
    spark.sql("create schema if not exists shop")
    spark.range(1).createOrReplaceTempView("not_a_table")
    yield "shop"
    spark.catalog.dropTempView("not_a_table")
    spark.sql("drop schema shop cascade")


def test_tables_of_a_catalog_are_streams(spark, schema):
    spark.sql("create table shop.orders (id bigint, at timestamp) using delta")
    spark.sql("insert into shop.orders values (1, timestamp'2024-01-01'), (2, null)")
    spark.sql("create table shop.items using parquet as select 1 as id")
    spark.sql("create view shop.some_items as select id from shop.items")
    catalog = discover({"source_url": "catalog:spark_catalog"})
    streams = {entry["tap_stream_id"]: entry for entry in catalog["streams"]}
    assert set(streams) == {"shop-items", "shop-orders", "shop-some_items"}
    config = {
        "source_url": "catalog:spark_catalog.shop",
        "stream_options": {"shop-orders": {"replication_key": "at"}},
    }
    output = run_tap(config, catalog=catalog)
    assert len(output.records("shop-orders")) == 2
    assert output.records("shop-items") == output.records("shop-some_items") == [{"id": 1}]
    assert output.bookmark("shop-orders")["replication_key_value"].startswith("2024-01-01")
    others = ["shop.items", "shop.some_items"]
    by_default = {**config, "tables": others, "default_replication_method": "LOG_BASED"}
    assert run_tap(by_default).records() == [{"id": 1}, {"id": 1}]
    only = discover({"source_url": "catalog:spark_catalog", "tables": ["shop.items"]})
    assert [entry["tap_stream_id"] for entry in only["streams"]] == ["shop-items"]


def test_a_table_or_catalog_that_is_not_there_is_named(spark, schema):
    with pytest.raises(SourceError, match=r"no table shop\.gone in the catalog"):
        discover({"source_url": "catalog:spark_catalog", "tables": ["shop.gone"]})
    with pytest.raises(SourceError, match="catalog:elsewhere"):
        discover({"source_url": "catalog:elsewhere"})
    spark.sql("create table shop.t using parquet as select 1 as id")
    config = {"source_url": "catalog:spark_catalog.shop"}
    catalog = discover(config)
    spark.sql("drop table shop.t")
    with pytest.raises(SourceError, match=r"shop-t: table shop\.t is gone"):
        run_tap(config, catalog=catalog)


def test_a_source_without_a_log_refuses_log_based(tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n")
    config = {
        "source_url": f"csv:{tmp_path}",
        "stream_options": {"t": {"replication_method": "LOG_BASED"}},
    }
    with pytest.raises(SettingsError, match="t: LOG_BASED needs a Delta table"):
        run_tap(config)
