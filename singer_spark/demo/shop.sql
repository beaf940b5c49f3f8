-- The shop as it is before the first run.
create schema shop;
set schema shop;

create table customers (
  id         integer       not null primary key,
  name       varchar(60)   not null,
  email      varchar(100),
  born_on    date,
  credit     decimal(12,2) not null,
  updated_at timestamp     not null
);
create table products (
  sku        varchar(20)   not null primary key,
  name       varchar(60)   not null,
  price      decimal(10,2) not null,
  weight_kg  double
);
create table orders (
  id          bigint        not null primary key,
  customer_id integer       not null,
  sku         varchar(20)   not null,
  quantity    smallint      not null,
  amount      decimal(12,2) not null,
  is_paid     boolean       not null,
  placed_on   date          not null,
  note        varchar(200),
  updated_at  timestamp     not null
);
create index customers_updated_at on customers (updated_at);
create index orders_updated_at on orders (updated_at);

insert into products values
  ('TEA-01', 'Green tea, 100 g', 4.90, 0.1),
  ('TEA-02', 'Black tea, 100 g', 4.50, 0.1),
  ('CUP-01', 'Cup, white', 7.25, 0.32),
  ('POT-01', 'Teapot, cast iron', 89.00, 1.85),
  ('GIFT', 'Gift voucher', 25.00, null);

create table digits (n integer not null);
insert into digits values 0, 1, 2, 3, 4, 5, 6, 7, 8, 9;

insert into customers
select n + 1,
       'Customer ' || trim(char(n + 1)),
       case when mod(n, 4) = 0 then null else 'customer' || trim(char(n + 1)) || '@example.com' end,
       case when mod(n, 3) = 0 then null else date(7000 + n * 97) end,
       n * 12.5,
       {fn timestampadd(sql_tsi_minute, n, timestamp('2026-01-05 08:00:00.000001'))}
from (select a.n * 10 + b.n as n from digits a, digits b where a.n < 4) numbers;

insert into orders
select n + 1,
       mod(n, 40) + 1,
       case mod(n, 4) when 0 then 'TEA-01' when 1 then 'TEA-02' when 2 then 'CUP-01' else 'POT-01' end,
       cast(mod(n, 3) + 1 as smallint),
       (mod(n, 3) + 1) * case mod(n, 4) when 0 then 4.90 when 1 then 4.50 when 2 then 7.25 else 89.00 end,
       mod(n, 10) > 0,
       date({fn timestampadd(sql_tsi_hour, n, timestamp('2026-01-05 08:00:00'))}),
       case when mod(n, 50) = 0 then 'Please wrap as a gift' end,
       {fn timestampadd(sql_tsi_hour, n, timestamp('2026-01-05 08:00:00.123456'))}
from (select a.n * 100 + b.n * 10 + c.n as n from digits a, digits b, digits c) numbers;

drop table digits;
