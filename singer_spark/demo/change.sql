-- What happens in the shop between the two runs.
set schema shop;

update orders
set is_paid = true, updated_at = timestamp('2026-03-01 09:00:00.654321')
where id in (1, 11, 21);

insert into orders values
  (1001, 41, 'POT-01', 1, 89.00, false, '2026-03-01', null, '2026-03-01 09:30:00.000000'),
  (1002, 7, 'CUP-01', 4, 29.00, true, '2026-03-01', 'Four of a kind', '2026-03-01 09:45:00.000000');

insert into customers values
  (41, 'Customer 41', 'customer41@example.com', null, 0.00, '2026-03-01 09:29:59.999999');
update customers
set email = null, updated_at = timestamp('2026-03-01 10:00:00.000000')
where id = 2;

update products set price = 5.10 where sku = 'TEA-01';
delete from products where sku = 'GIFT';
