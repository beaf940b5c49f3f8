"""A small shop in an embedded database, with every type that Derby has."""

from __future__ import annotations

STATEMENTS = """
create schema shop;
create table shop.kinds (
  id bigint not null, part char(3) not null, s smallint, d decimal(20,5), n numeric(31,0), r real,
  f double, v varchar(50), c clob, bl blob, bin varchar(10) for bit data, dt date, tm time,
  ts timestamp, ok boolean, primary key (part, id));
insert into shop.kinds values
  (9223372036854775807, 'abc', -32768, 123456789012345.12345, 1234567890123456789012345678901,
   1.5, 1e300, 'a "quoted" text', 'clob', cast(X'00ff' as blob), X'0102', '0001-01-01',
   '23:59:59', '2024-01-01 00:00:00.123456', true);
insert into shop.kinds (id, part) values (1, 'nul');
create table shop.fine (ts timestamp);
insert into shop.fine values ('2024-01-01 00:00:00.123456789');
create table shop.orders (
  id int primary key, "AT" timestamp, price decimal(10,2), day date, code varchar(9));
insert into shop.orders values
  (1, '2024-01-01 00:00:00', 1.00, '2024-01-01', 'a'),
  (2, '2024-01-02 00:00:00.123456', 2.00, '2024-01-02', 'b'),
  (3, '2024-01-03 00:00:00', 3.00, '2024-01-03', 'c'),
  (4, null, null, null, null);
create view shop.some_orders as select id, "AT" from shop.orders;
create table shop."Odd-Name *" ("A b" int primary key, "c""q" varchar(9));
insert into shop."Odd-Name *" values (1, 'x');
"""
STREAM = "SHOP-ORDERS"


def orders(url: str, **options) -> dict:
    """Return a config that reads the orders."""
    return {
        "source_url": url,
        "tables": ["SHOP.ORDERS"],
        "stream_options": {STREAM: options},
    }
