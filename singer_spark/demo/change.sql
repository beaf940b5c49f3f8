-- What happens in the shop between the two runs.
begin;

update orders set is_paid = true, updated_at = '2026-03-01 09:00:00' where id in (1, 11, 21);

insert into orders values
  (1001, 41, 'POT-01', 1, 8900, false, null, '2026-03-01 09:30:00'),
  (1002, 7, 'CUP-01', 4, 2900, true, 'Four of a kind', '2026-03-01 09:45:00');

insert into customers values
  (41, 'Customer 41', 'customer41@example.com', null, '2026-03-01 09:29:59');
update customers set email = null, updated_at = '2026-03-01 10:00:00' where id = 2;

update products set price_cents = 510 where sku = 'TEA-01';
delete from products where sku = 'GIFT';

commit;
