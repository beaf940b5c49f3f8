-- The shop as it is before the first run. Prices are in cents.
begin;

create table customers (
  id         integer  not null primary key,
  name       text     not null,
  email      text,
  born_on    date,
  updated_at datetime not null
);
create table products (
  sku         text    not null primary key,
  name        text    not null,
  price_cents integer not null,
  weight_kg   real
);
create table orders (
  id           integer  not null primary key,
  customer_id  integer  not null,
  sku          text     not null,
  quantity     smallint not null,
  amount_cents integer  not null,
  is_paid      boolean  not null,
  note         text,
  updated_at   datetime not null
);
create index customers_updated_at on customers (updated_at);
create index orders_updated_at on orders (updated_at);

insert into products values
  ('TEA-01', 'Green tea, 100 g', 490, 0.1),
  ('TEA-02', 'Black tea, 100 g', 450, 0.1),
  ('CUP-01', 'Cup, white', 725, 0.32),
  ('POT-01', 'Teapot, cast iron', 8900, 1.85),
  ('GIFT', 'Gift voucher', 2500, null);

with recursive numbers (n) as (select 0 union all select n + 1 from numbers where n < 39)
insert into customers
select n + 1,
       'Customer ' || (n + 1),
       case when n % 4 <> 0 then 'customer' || (n + 1) || '@example.com' end,
       case when n % 3 <> 0 then date('1989-03-01', (n * 97) || ' days') end,
       datetime('2026-01-05 08:00:00', n || ' minutes')
from numbers;

with recursive numbers (n) as (select 0 union all select n + 1 from numbers where n < 999)
insert into orders
select n + 1,
       n % 40 + 1,
       p.sku,
       n % 3 + 1,
       (n % 3 + 1) * p.price_cents,
       n % 10 > 0,
       case when n % 50 = 0 then 'Please wrap as a gift' end,
       datetime('2026-01-05 08:00:00', n || ' hours')
from numbers join products p on p.rowid = n % 4 + 1;

commit;
