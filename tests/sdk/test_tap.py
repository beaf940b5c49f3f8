"""The SDK's own suite for taps, in full, on a database with every type that Derby has."""

from __future__ import annotations

import tempfile
from pathlib import Path

from singer_sdk.testing import SuiteConfig, get_tap_test_class

from tap_spark_source.tap import TapSparkSource
from tests.support.session import shared_session
from tests.support.tap import make_derby

TABLES = """
create schema shop;
create table shop.kinds (
  id bigint not null, part char(3) not null, s smallint, i integer, d decimal(20,5),
  n numeric(31,0), r real, f double, v varchar(50), lv long varchar, c clob, bl blob,
  bin varchar(10) for bit data, dt date, tm time, ts timestamp, ok boolean,
  primary key (part, id));
insert into shop.kinds values
  (9223372036854775807, 'abc', -32768, 1, 123456789012345.12345,
   1234567890123456789012345678901, 1.5, 1e300, 'a "quoted" text', 'long', 'clob',
   cast(X'00ff' as blob), X'0102', '0001-01-01', '23:59:59', '2024-01-01 00:00:00.123456', true),
  (2, 'abc', null, null, null, null, null, null, null, null, null, null, null, null, null, null,
   null);
create table shop.orders (id int primary key, updated_at timestamp);
insert into shop.orders values (1, '2024-01-01 00:00:00'), (2, '2024-01-02 00:00:00.5');
create view shop.all_orders as select id from shop.orders;
"""
# The suite asks for the streams while tests are collected, so the session must be the shared one.
shared_session()
FOLDER = Path(tempfile.mkdtemp(prefix="tap-sdk-suite-"))
CONFIG = {
    "source_url": make_derby(FOLDER / "shop", TABLES),
    "stream_options": {"SHOP-ORDERS": {"replication_key": "UPDATED_AT"}},
    # So that the limit of records is also met in several slices.
    "slice_rows": 1,
}

TestTapSparkSource = get_tap_test_class(TapSparkSource, config=CONFIG)


class TestTapSparkSourceWithRecordLimit(
    get_tap_test_class(
        TapSparkSource,
        config=CONFIG,
        include_tap_tests=False,
        include_stream_attribute_tests=False,
        suite_config=SuiteConfig(max_records_limit=1),
    )
):
    """The same with the SDK's limit of records reached by every stream."""

    def test_no_stream_writes_more_than_the_limit(self, runner):
        assert {name: len(found) for name, found in runner.records.items()} == {
            "SHOP-KINDS": 1,
            "SHOP-ORDERS": 1,
            "SHOP-ALL_ORDERS": 1,
        }
