-- Statements over schema.sql on which PostgreSQL judges the analyser. Each ends with a line that ends in a semicolon.
-- A comment that starts with # names what the statements below it probe. Lines that start with --@ are for the next one:
--   @ path a, b         the search_path; shop when there is none
--   @ before SQL        what the session has run before
--   @ also NAME(TYPES)  a function that runs although the statement as written does not call it; with the reason
--   @ needless NAME     a function that is reported, without which the statement runs all the same; with the reason

-- # Plain select lists
select id from customers;
select id, name as who, region from shop.customers;
select c.id, shop.customers.name from customers c, shop.customers;
select customers.name from customers;
select 1;
select;
select id + 1, -balance, upper(name), name || '/' || region from customers;
select 'x' as c, null, true, 1.5, b'01', e'\n' from customers;
select from customers;
select distinct region from customers;
select all region from customers;
select distinct on (region) region, name from customers order by region, born desc;
select distinct on (1) region from customers;
select oracle.shop.customers.name from customers;
select shop.customers.name from shop.customers;
select tags[1], tags[1:2], meta -> 'k', meta['k'], meta #>> '{k}' from customers;
select cast(id as text), id::bigint, text 'x', date '2026-01-01', interval '1 day' from customers;
select case when region = 'EU' then email else ssn end from customers;
select case region when 'EU' then 1 when 'US' then 2 end from customers;
select coalesce(email, name), nullif(region, 'EU'), greatest(id, 2), least(balance, 1) from customers;
select id between 1 and 2, name like 'A%', name ilike 'a%', name similar to 'A%', name ~ '^A' from customers;
select id in (1, 2), id not in (1, 2), id = any (array[1, 2]), id <> all ('{1}') from customers;
select born is null, born is not null, (id = 1) is true, (id = 1) is unknown, name is distinct from region from customers;
select array[id, 2], array[[id], [2]], row(id, name), (id, name) from customers;
select born at time zone 'UTC', extract(year from born), date_part('month', born), overlay(name placing 'x' from 1) from customers;
select substring(name from 1 for 2), position('a' in name), trim(both 'x' from name), name collate "C" from customers;
select current_user, current_date, localtimestamp, session_user, current_schema from customers;
select (born, born + 1) overlaps (date '1990-01-01', date '1991-01-01') from customers;
select to_jsonb(id), jsonb_build_object('a', name), json_agg(name) over () from customers;
select grouping(region), region from customers group by rollup (region);

-- # Tables without columns
select 1 from customers;
select count(*) from customers;
select count(*) from customers, orders;
select exists (select from orders) from customers;
select exists (select 1 from orders where false) from customers;
select c.id from customers c cross join orders;
select c.id from customers c left join orders on true;
select 1 from loner;
select 1 from customers limit 1;
select now() from customers;
select (select count(*) from hr.salaries);
select count(*) from v_customers;
select 1 from m_customers;
select 1 from events;
select 1 from f_lines;

-- # Names
select ID, Name, "name" from CUSTOMERS;
select "Name", "select", "weird "" name", "ünïcode" from "Customers";
select u&"n\0061me", U&"\0069d" from u&"c\0075stomers";
select u&"n!0061me" uescape '!' from customers;
select a_column_of_sixty_three_bytes_that_nobody_would_want_to_type_twice_x from a_name_of_sixty_three_bytes_that_nobody_would_want_to_type_twice_over;
select c."id" from "customers" as C;
select customers.id from customers as orders, orders as customers;
select name from ctes;
select count, text from ctes;
select ctes.count, ctes.text from ctes;
select "current_user", current_user from ctes;
select name.name, name.id from hr.name;
select name from hr.name;
select name as id, id as name from customers order by id;
select region as name from customers order by name;
select name as region from customers group by region, customers.name;
select lower(name) as name from customers group by name;
select lower(name) as region from customers order by region, upper(region);
select id as x from customers order by x, name, 1;
select name, count(*) from customers group by 1 order by 2;
--@ path alt, shop
select id, ssn, alt_only from customers;
--@ path alt, shop
select orders.id, customers.ssn from customers join orders on orders.customer_id = customers.id;
--@ path hr
select salary from salaries;
--@ path shop, pg_catalog
select upper(name) from customers;
--@ path shop
select upper(name), pg_catalog.upper(name), shop.upper(name) from customers;
--@ path alt
select secret(), shop.customers.name from shop.customers;
--@ path pg_catalog
select shop.customers.id from shop.customers;
--@ path nosuch, "Customers", shop
select id from customers;

-- # Whole rows in every disguise
select * from customers;
select c.* from customers c;
select c from customers c;
select customers from customers;
select count(c) from customers c;
select row_to_json(c), to_jsonb(c) from customers c;
select c.*::text from customers c;
select c::text from customers c;
select (c).ssn from customers c;
select (c).* from customers c;
select (c.*).name from customers c;
select name(c) from customers c;
select ssn(c) from customers c;
select c.label from customers c;
select label(c), shop.label(c.*) from customers c;
select c is null, c is not null, c is distinct from c from customers c;
select c = d from orders c, orders d;
select c in (select d from orders d) from orders c;
select array_agg(c) from customers c;
select (array_agg(c))[1].ssn from customers c;
select row(c.*), row(c), (c.*, 1) from customers c;
select max(o::text) from orders o;
select coalesce(c, c) from customers c;
select case when true then c end from customers c;
select id from orders o order by o;
select count(*) from orders o group by o;
select distinct o from orders o;
select lag(o) over (order by id) from orders o;
select jsonb_agg(x) from (select id, name from customers) x;
select x from (select id, name from customers) x;
select (x).name from (select id, name from customers) x;
select x.name from (select c as name from customers c) x;
select (x.c).ssn from (select c from customers c) x;
select (x.c).* from (select c from customers c) x;
with x as (select c from customers c) select (c).email from x;
select x.* from (select * from customers) x;
select x from customers c, lateral (select c.name) x;
select json_populate_record(null::customers, '{}');
select row_to_json(row(id, name)) from customers;
select c #>> '{}' from (select to_jsonb(o) as c from orders o) x;
select count(distinct c.*) from orders c;
select v from v_customers v;
select m.* from m_customers m;
select e from events e;
select (select c) from customers c;
select (select c.ssn) from customers c;
select exists (select c.*) from customers c;
select j from (customers c join orders o on o.customer_id = c.id) j;
select (j).card from (customers c join orders o on o.customer_id = c.id) as j(a, b, c, d, e, f, g, h, i, x, k, l, m);

-- # Fields of composite columns
select (home).zip from customers;
select (c.home).street, (shop.customers.home).house from customers c, shop.customers;
select home from customers where (home).zip = '10115';
select (home).* from customers;
select street(home), (home).house + 1 from customers;
select home = row('a', 'b', 1)::address from customers;
select (row('a', 'b', 1)::shop.address).zip;
select (x.h).zip from (select home as h from customers) x;
select home::text, row_to_json(home) from customers;
select (price).amount, (n.price).currency from notes n;

-- # System columns
select ctid, tableoid from customers;
select c.ctid, c.xmin, c.xmax, c.cmin, c.cmax from customers c;
select tableoid::regclass, count(*) from events group by 1;
select a.tableoid from customers a, customers b;
select name from customers where ctid = '(0,1)';
select customers.tableoid from shop.customers order by ctid;
update customers set name = name where ctid = '(0,1)';
delete from orders where ctid = '(0,1)' returning tableoid;
select ctid from m_customers;
select tableoid from f_lines;

-- # Where, having, order, limit
select 1 from customers where ssn = '111';
select id from customers where name = 'Ana' and (region = 'EU' or not balance > 0);
select region, count(*) from customers group by region having max(balance) > 1;
select count(*) from customers having count(ssn) > 1;
select id from customers order by ssn, email nulls first, -balance desc;
select id from customers order by name using >;
select id from customers limit (select count(*) from hr.salaries);
select id from customers offset (select min(manager) from hr.salaries) limit 1;
select id from customers order by balance fetch first 2 rows with ties;
select id from customers order by 1 fetch next row only;
select id from customers where (id, name) = (1, 'Ana');
select id from customers where (id, name) < (2, 'B');
select id from customers where row(id, name) is distinct from row(1, region);

-- # Grouping sets, filters, ordered aggregates
select region, born, count(*) from customers group by grouping sets ((region), (born), ());
select region, count(*) from customers group by cube (region, (born, name));
select region, name from customers group by distinct rollup (region), rollup (region, name);
select id, name, email from customers group by id;
select c.id, c.ssn from customers c group by c.id having count(*) > 0;
select count(*) filter (where ssn is not null), sum(balance) from customers;
select string_agg(name, ',' order by ssn), array_agg(distinct region) from customers;
select percentile_cont(0.5) within group (order by balance) from customers;
select mode() within group (order by ssn), rank('x') within group (order by name) from customers;
select percentile_disc(array[0.1, 0.9]) within group (order by balance) filter (where region = 'EU') from customers;
select first_of() within group (order by balance) from customers;
select glue(name order by id), shop.glue(distinct region) from customers;
select glue(name) over (partition by region) from customers;
select grouping(region, born) from customers group by grouping sets ((region, born), (region));

-- # Windows
select name, row_number() over (order by balance) from customers;
select sum(balance) over (partition by region order by born rows between 1 preceding and current row) from customers;
select rank() over w, lag(name) over w from customers window w as (partition by region order by ssn);
select id from customers window w as (order by ssn);
select rank() over (w order by email) from customers window w as (partition by region);
select avg(balance) over (order by id rows between (select min(salary) from hr.salaries) preceding and current row) from customers;
select sum(balance) over (order by born range between interval '1 day' preceding and current row) from customers;
select sum(id) over (order by id groups between 1 preceding and 1 following exclude ties) from customers;
select first_value(ssn) over (order by id), nth_value(email, 2) over (order by id) from customers;
select count(*) over (), count(*) filter (where id > 1) over (order by region) from customers;
select ntile(2) over (order by sum(balance)) from customers group by region;

-- # Joins
select c.name, o.amount from customers c join orders o on o.customer_id = c.id;
select c.name from customers c left join orders o on o.customer_id = c.id and o.status = 'new';
select c.name from customers c right join orders o on o.customer_id = c.id where c.ssn is null;
select c.name, o.note from customers c full join orders o on o.customer_id = c.id;
select name from customers join hr.salaries using (name);
select id from customers join hr.salaries using (id);
select customers.id, salaries.id from customers join hr.salaries using (id);
select * from customers join hr.salaries using (id, name);
select id from customers full join hr.salaries using (id);
select id from customers right join hr.salaries using (id);
select salary from customers natural join hr.salaries;
select * from hr.name natural join hr.salaries;
select 1 from customers natural left join hr.salaries;
select 1 from customers natural join loner;
select j.id from customers join hr.salaries using (id) as j;
select j from customers join hr.salaries using (id, name) as j;
select j.* from customers c join hr.salaries s using (id) as j;
select s.salary, j.id from customers c join hr.salaries s using (id) as j;
select a, b from (customers c join hr.salaries s on s.id = c.id) as j(a, b);
select j.m from (customers c join hr.salaries s using (id)) as j(k, l, m);
select c1.name from customers c1 join customers c2 on c1.id = c2.id join orders o on o.customer_id = c2.id;
select a.name, d.salary from (customers a join orders b on b.customer_id = a.id) left join (hr.name c join hr.salaries d using (id)) on d.id = a.id;
select x.name from customers c join lateral (select c.name, o.amount from orders o where o.customer_id = c.id limit 1) x on true;
select o.id from customers c, lateral (select id from orders where customer_id = c.id) o;
select c.id, l.n from customers c left join lateral (select count(*) as n from orders o where o.customer_id = c.id) l on true;
select id from customers join hr.salaries using (id) join hr.name using (id);
select name from (customers join hr.salaries using (name)) join hr.name using (name);
select t.id from customers as t (id, name) where name <> 'x';
select t.a, t.b, ssn from customers as t (a, b);
select x.a, y.a from (select id from customers) as x(a) join (select id from orders) as y(a) using (a);
select customers.name from customers cross join hr.name cross join lateral (select hr.name.id) z;

-- # Subqueries of each kind
select (select name from customers where id = 1);
select (select o.note from orders o where o.customer_id = c.id limit 1) from customers c;
select id from customers where id in (select customer_id from orders where card is not null);
select id from customers where (id, name) in (select id, name from hr.salaries);
select id from customers c where exists (select 1 from orders o where o.customer_id = c.id);
select id from customers c where not exists (select from hr.salaries s where s.name = c.name);
select id from customers where balance > all (select salary from hr.salaries);
select id from customers where balance = any (select amount from orders);
select array(select name from customers order by ssn);
select (select (select c.email) from orders where customer_id = c.id limit 1) from customers c;
select name from customers where id = (select max(customer_id) from orders where note like (select max(name) from hr.name));
select 1 where exists (select ssn from customers);
select (select count(ssn) from customers) > 1;
select case when exists (select 1 from hr.salaries) then 1 else (select count(*) from orders) end;
select x.n from (select name as n, ssn from customers) x;
select x.n from (select name as n from customers where ssn is not null order by email limit 2) x where x.n <> '';
select a from (select id as a from customers) x join (select customer_id as b from orders) y on a = b;
select c.id from customers c where 1 = (select count(*) from orders where orders.customer_id = id and id = c.id);
select id from customers where (id, balance) > (select id, salary from hr.salaries limit 1);
select id from customers where id in (select id from orders where amount > balance);

-- # Common table expressions
with x as (select id, name from customers) select name from x;
with x as (select id, ssn from customers) select id from x;
with x(a, b) as (select id, name from customers) select a from x where b = 'Ana';
with x as materialized (select id, ssn from customers) select 1 from x;
with x as not materialized (select id, ssn from customers) select id from x;
with customers as (select id from orders) select id from customers;
with customers as (select * from customers) select id from customers;
with customers as (select id from orders) select c.name, customers.id from shop.customers c, customers;
with recursive customers as (select 1 as id union all select id + 1 from customers where id < 3) select id from customers;
with a as (select id from customers), b as (select id from a), c as (select b.id from b, a) select * from c;
with recursive up as (select id, manager from hr.salaries where id = 3 union all select s.id, s.manager from hr.salaries s join up on s.id = up.manager) select * from up;
with recursive up(id, boss) as (select id, manager from hr.salaries union select s.id, up.boss from hr.salaries s, up where s.manager = up.id) select boss from up;
with recursive a as (select 1 as n union all select n + 1 from a where n < 3), b as (select n from a) select * from b join customers on n = id;
with recursive up as (select id, manager from hr.salaries union all select s.id, s.manager from hr.salaries s join up on s.id = up.manager) search depth first by id set path select path from up;
with recursive up as (select id, manager from hr.salaries union all select s.id, s.manager from hr.salaries s join up on s.id = up.manager) search breadth first by id, manager set ord select id from up order by ord;
with recursive up as (select id, manager from hr.salaries union all select s.id, s.manager from hr.salaries s join up on s.id = up.manager) cycle id set looped using path select * from up;
with recursive up as (select id, manager from hr.salaries union all select s.id, s.manager from hr.salaries s join up on s.id = up.manager) cycle id, manager set looped to 'y' default 'n' using path select looped from up;
with x as (select ssn from customers) select 1;
with x as (select ssn from customers), y as (select * from x) select 1;
with x as (select ssn from customers), y as materialized (select 1) select name from customers;
with x as (select id from customers) select (select max(id) from x), (with x as (select amount from orders) select max(amount) from x);
with x as (with y as (select name from customers) select name from y) select * from x;
with x as (insert into orders (customer_id, amount) values (1, 2) returning id, amount) select amount from x;
with x as (update customers set name = 'x' where id = 1 returning *) select id from x;
with x as (delete from items where order_id = 1 returning qty) select sum(qty) from x;
with x as (delete from items) select 1;
with x as (insert into loner values (1)), y as (update loner set only_one = 2) select 1;
with gone as (delete from hr.salaries where id = 1 returning id, name) insert into hr.name (id, name) select id, name from gone;
with x as (select id from customers) insert into loner select id from x;
with x as (select id from customers) update orders set amount = 0 from x where x.id = orders.customer_id;
with x as (select id from customers) delete from orders using x where x.id = customer_id;
with t as (values (1, 'a'), (2, 'b')) select * from t, customers where id = column1;

-- # Set operations and VALUES
select id from customers union select customer_id from orders;
select name, ssn from customers union all select name, 'x' from hr.salaries;
select id from customers intersect select id from hr.salaries except select only_one from loner;
(select id from customers order by ssn limit 1) union all (select id from orders limit 1) order by 1;
select id as a from customers union select id from orders order by a;
select * from (select name from customers union select name from hr.name) x where name <> 'x';
select id, null from customers union select 1, card from orders;
select id from customers where id in (select 1 union select manager from hr.salaries);
select 1 from customers union all select 2 from orders;
select c from orders c union all select d from orders d;
values (1, 'a'), (2, 'b');
values ((select max(ssn) from customers)), ('x');
select * from (values (1, 'a'), (2, 'b')) as v(n, t) join customers on id = n;
select id from customers where (id, name) in (values (1, 'Ana'), (2, 'Bob'));
values (1), (2) order by 1 limit 1;
table customers;
table only customers;
with x as (table orders) select card from x;

-- # Functions in FROM
select g from generate_series(1, 3) g;
select g.g, c.name from generate_series(1, 3) as g, customers c where c.id = g;
select c.id, u from customers c, unnest(c.tags) u;
select c.id, u.tag, u.n from customers c, unnest(tags) with ordinality as u(tag, n);
select * from unnest(array[1, 2], array['a', 'b']) as u(n, t);
select * from rows from (generate_series(1, 2), pairs(3)) with ordinality as r(a, b, c, d);
select e.* from customers c, jsonb_each(c.meta) e;
select e.key from customers, lateral jsonb_each_text(meta) as e(key, val);
select k, v from pairs(2);
select p from pairs(2) p;
select x.a, x.b from loose(2) as x(a int, b text);
select x.b from rows from (loose(2) as (a int, b text), generate_series(1, 2)) as x;
select * from two();
select (two()).a, (two()).b;
select e.ssn from everyone() e;
select name from everyone();
select e from everyone() e;
select everyone();
select (everyone()).name;
select * from everyone() with ordinality;
select t.* from jsonb_to_recordset('[{"a": 1}]') as t(a int, b text);
select t.a from customers c, json_to_record(c.meta::json) as t(a int);
select * from regexp_split_to_table('a b', ' ') as w;
select unnest(tags), name from customers;
select c.id from customers c, generate_series(1, c.id) where c.balance > 0;
select * from json_array_elements((select json_agg(o) from orders o));
select upper from upper('x');
select s.* from current_date s;
select x.* from xmltable('/a/b' passing xml '<a><b c="1">x</b></a>' columns c int path '@c', t text path '.') x;
select x.n from customers c, xmltable('/a' passing (('<a>' || c.name || '</a>')::xml) columns n text path '.' default c.region, o for ordinality) x;
select xmlelement(name e, xmlattributes(id as i), name), xmlforest(ssn, email as e) from customers;
select xmlparse(content name), xmlconcat('<a/>', '<b/>'), xmlagg(xmlelement(name x, region)) over () from customers;

-- # Sampling
select id from customers tablesample system (50);
select id from customers tablesample bernoulli (100) repeatable (1);
select c.name from customers as c tablesample system ((select max(salary) from hr.salaries) / 10) where c.ssn is null;
select id from m_customers tablesample bernoulli (10);
select id from events tablesample bernoulli (10);
--@ path shop, ext
--@ needless ext.system_rows PostgreSQL does not check the right to call a sampling method
select id from customers tablesample system_rows (1);

-- # Views and materialized views
select id, national from v_customers;
select * from v_customers where region = 'EU';
select ref from v_nested;
select v.name from v_all v;
select name from v_barrier where email like 'a%';
select id from v_invoker;
select name from v_invoker;
select id from v_over_invoker;
select name, salary from v_invoker_join;
select amount from v_invoker_join;
select ref from v_invoker_over;
select total from v_totals where region = 'EU';
select name from v_union;
select boss from v_with;
select id from v_taxed;
select tax from v_taxed;
select amount from v_taxed where tax > 1;
select id from v_volatile;
select loud from v_volatile;
select tax from v_volatile;
select national from m_customers;
select m.id, v.ref from m_customers m join v_nested v using (id);
select v from v_taxed v;
select id from v_instead;

-- # Inheritance, partitions, foreign tables
select id, name from vips;
select secret from vips;
select name from only customers;
select c.name, v.secret from customers c join vips v using (id);
select id, payload from events;
select at from events where region = 'EU';
select payload from events_eu;
select e from events_eu e;
select line from f_lines;
select f from f_lines f where extra = 'x';
update customers set balance = 1 where id = 50;
insert into events (id, region) values (3, 'EU');
insert into events values (3, 'US', '{}') returning at;
update events set region = 'US' where id = 1;
delete from events where region = 'EU';

-- # Locks
select id from customers for update;
select id from customers where name = 'Ana' for no key update nowait;
select id from customers for share skip locked;
select id from customers for key share;
select c.id, o.amount from customers c join orders o on o.customer_id = c.id for update of o;
select c.id, o.amount from customers c join orders o on o.customer_id = c.id for share of c, o;
select id from v_customers for update;
select id from v_invoker for update;
select id from v_over_invoker for update;
select name from v_invoker_join for update;
select x.id from (select id, name from customers) x for update;
select x.id from (select id from customers where ssn = '1' for update) x;
with x as (select id from customers) select id from x for update;
select 1 from customers for update;
select id from customers for update for share;
select name from vips for update;

-- # INSERT
insert into loner values (1);
insert into loner (only_one) values (1), (2);
insert into customers (name, email) values ('x', 'y');
insert into customers values (default, 'x');
insert into customers (name, region) values ('x', default), ('z', 'y');
insert into loner default values;
insert into serials default values;
insert into serials (v) values ('x') returning id;
insert into counted (v) values ('x') returning *;
insert into orders (customer_id) select id from customers where ssn = '111';
insert into orders (customer_id, note) select id, (select max(name) from hr.name) from only customers;
insert into loner select 1;
insert into loner (only_one) table loner;
insert into customers (name, home.zip, home.street) values ('x', '1', 'y');
insert into customers (name, tags[1]) values ('x', 'y');
insert into orders (id, customer_id) overriding system value values (100, 1);
insert into orders (id, customer_id) overriding user value values (100, 1) returning id;
insert into customers (id, name) overriding system value values (99, 'x');
insert into customers as c (name) values ('x') returning c.id, c.initials, upper(c.region);
insert into customers (name) values ('x') returning customers;
insert into customers (name) values ('x') returning *;
insert into loner values ((select count(*) from hr.salaries));
insert into loner values (1) returning (select max(salary) from hr.salaries where id = only_one);
insert into loner with x as (select id from customers) select id from x;
insert into items (order_id, line) values (1, 1) on conflict do nothing;
insert into items (order_id, line) values (1, 1) on conflict (order_id, line) do nothing;
insert into items (order_id, line) values (1, 1) on conflict on constraint items_pkey do nothing;
insert into items (order_id, line, qty) values (1, 1, 5) on conflict (line, order_id) do update set qty = excluded.qty;
insert into items (order_id, line, qty) values (1, 1, 5) on conflict (order_id, line) do update set qty = items.qty + 1;
insert into items as i (order_id, line, qty) values (1, 1, 5) on conflict (order_id, line) do update set qty = i.qty + excluded.qty where i.price < excluded.price;
insert into items (order_id, line) values (1, 1) on conflict (order_id, line) do update set (qty, price) = (select salary, 1 from hr.salaries where id = 1);
insert into items (order_id, line) values (1, 1) on conflict (order_id, line) do update set (qty, price) = (1, excluded.price) returning sku;
insert into items (order_id, line) values (1, 1) on conflict on constraint items_pkey do update set qty = default;
insert into items (order_id, line) values (1, 1) on conflict on constraint items_pkey do update set sku = row_to_json(excluded)::text;
insert into items (order_id, line) values (1, 1) on conflict on constraint items_pkey do update set sku = items::text;
insert into items (order_id, line, sku, qty) values (1, 9, 's1', 1) on conflict (lower(sku), order_id) where qty > 0 do nothing;
insert into items (order_id, line, sku, qty) values (1, 9, 's1', 1) on conflict (order_id, lower(sku) collate "default" text_ops) where qty > 0 do update set price = 1;
insert into booked values (2, '[3,4)') on conflict on constraint booked_during_excl do nothing;
insert into customers (email, name) values ('ana@x.test', 'x') on conflict (email) do update set name = excluded.name where customers.ssn = '111' returning id;
insert into customers (email, name) select name, title from (select 'x' as name, title from products) p on conflict (email) do nothing;
insert into v_customers (name) values ('x');
insert into v_customers (name) values ('x') returning id;
insert into v_check (name, region) values ('x', 'EU');
insert into v_invoker (name) values ('x') returning name;
insert into v_invoker (name) values ('x');
insert into v_over_invoker (id, name) values (99, 'x');
insert into v_over_invoker (id, name) values (99, 'x') returning name;
insert into v_all (name, ssn) values ('x', 'y');
insert into "Customers" ("Name", "select") values ('x', 1);
insert into events_eu (id, region) values (5, 'EU');

-- # Code behind defaults, constraints, indexes, domains and generated columns
-- What a table runs by itself when it is written is not called by the statement as written, so it is not reported. PostgreSQL
-- asks the caller's right to call it all the same: these are granted on top.
--@ also shop.next_note() the default of a column that is not named
--@ also shop.tax(numeric) a generated column and a CHECK constraint
insert into notes (id) values (9);
--@ also shop.tax(numeric) a generated column and a CHECK constraint
insert into notes (body) values ('x');
--@ also shop.next_note() DEFAULT as written
--@ also shop.tax(numeric) a generated column and a CHECK constraint
insert into notes (body, checked) values (default, 1);
--@ also shop.tax(numeric) a generated column and a CHECK constraint
insert into notes (body, price) values ('x', 5.0);
--@ also shop.tax(numeric) a generated column and a CHECK constraint
update notes set checked = 2 where id = 1;
--@ also shop.tax(numeric) a CHECK constraint is checked whatever is changed
update notes set body = 'x' where id = 1;
--@ also shop.next_note() DEFAULT as written
--@ also shop.tax(numeric) a CHECK constraint is checked whatever is changed
update notes set body = default;
--@ also shop.minus_text(text) the expression of an index
insert into codes values ('c', 3);
--@ also shop.minus_text(text) the expression of an index
update codes set code = 'z' where rank = 1;
--@ also shop.zip_ok(text) the domain of a column that is not named, which becomes NULL
insert into places (id) values (2);
update codes set rank = 5;
insert into places (id, zip) values (2, '123');
update places set zip = '5' where id = 1;
update places set area[1] = '7', id = 2;
select '123'::zip, cast('5' as shop.zip);
select zip('7') from customers;
select zip from places where zip = '10115';
select p, area[1], p::text from places p;
select '(1,2,{3},4)'::places;
select row(1, '2', '{3}', 4)::places;
select array['1', '2']::zip[], '{1,2}'::zips;
select 5::positive + 1;
select name::zip from customers where name = '1';
select 5.5::money_t, cast(balance as money_t) from customers;
select (balance::money_t).currency from customers;
select amount::numeric::money_t from orders;

-- # User functions, operators, aggregates
select tax(balance) from customers;
select tax_at(balance), tax_at(balance, 0.3), tax_at(1, rate => 0.5) from customers;
select tax_at(balance, rate => 0.1) from customers;
select name ~~~ region, name operator(shop.~~~) email from customers;
select !! name from customers;
select many(1, 2, 3), many(variadic array[id]) from customers;
select same(id), same(tags), same(c) from customers c;
select same(name) from customers where shop.tax(balance) > 1 order by tax(id);
select id from customers where name ~~~ any (array['Ana', 'Bob']);
select count(*) from customers group by tax(balance);
select id from customers order by name using ~<~;
select glue(name) filter (where tax(balance) > 0) from customers;
select sum(tax(amount)) over (partition by tax_at(amount)) from orders;
select c.name, t from customers c, lateral tax(c.balance) t;
select (select tax(max(amount)) from orders);
update customers set balance = tax(balance) where tax(balance) > 1 returning tax_at(balance);
insert into loner values (many(1)) returning same(only_one);
delete from orders where tax(amount) > 1000;
select id from customers limit many(1, 2);
select lower(label), label = 'LABEL' from products;
select attributes operator(ext.->) 'a', attributes operator(ext.@>) 'a=>1'::ext.hstore from products;
--@ path shop, ext
select attributes -> 'a', attributes ? 'a', (each(attributes)).key from products;
--@ path shop, ext
select label, count(*) from products group by label;
--@ path shop, ext
select distinct label from products order by label;
--@ path shop, ext
select label = 'label', label in ('a', 'b'), title % 'One', similarity(title, sku) from products;
--@ path shop, ext
select c.name from customers c join products p on p.label = c.name::citext;
--@ path shop, ext
select max(label), min(label) from products;

-- # UPDATE
update customers set name = 'x';
update customers set name = 'x' where id = 1;
update customers set name = coalesce(ssn, 'x'), balance = balance + 1 where region = 'EU';
update customers c set name = c.email from orders o where o.customer_id = c.id and o.amount > 5;
update customers set (name, region) = ('x', 'y');
update customers set (name, region) = (select name, 'x' from hr.salaries where salaries.id = customers.id and salary > 0) where id = 1;
update customers set (name, region) = row('x', default) where id = 1;
update customers set name = default, region = default where false;
update customers set region = (select max(name) from hr.name);
update only customers set name = 'x' returning id, ssn;
update customers as c set balance = 0 from (select customer_id from orders group by customer_id) o where o.customer_id = c.id returning c.*;
update customers set home.zip = '1' where id = 1;
update customers set tags[1] = 'x', meta['a'] = '1' where id = 1;
update customers set tags[id] = region where id = 1;
update orders set status = 'paid' where customer_id in (select id from customers where ssn = '111');
update orders o set note = c.name from customers c left join hr.salaries s on s.id = c.id where c.id = o.customer_id returning o.id, c.email, s.salary;
update events_eu as t1 set region = (t2.tableoid)::text from counted as t2, counted as t3;
update orders set amount = amount returning orders, note;
update v_customers set name = 'x' where national = '111';
update v_customers set national = name returning region;
update v_invoker set name = 'x' where id = 1;
update v_over_invoker set name = 'x';
update v_over_invoker set name = name where id = 1;
update v_invoker set name = 'x';
update v_invoker_over set ref = 'x';
update v_check set name = 'x' where id = 1;
update vips set secret = 'x', name = 'y' where limit_amount > 1;
update counted set v = 'x';
update items set (qty, price) = (price, qty), sku = 'x' where (order_id, line) = (1, 1);

-- # DELETE and TRUNCATE
delete from items;
delete from items where qty > 1;
delete from items i using orders o where o.id = i.order_id and o.note = 'x';
delete from items using orders o join customers c on c.id = o.customer_id where o.id = items.order_id and c.ssn = '111' returning items.sku, c.name;
delete from only customers where id = 50 returning *;
delete from items returning items;
delete from items where order_id in (select id from orders where card is null);
delete from v_customers where id = 50;
delete from v_invoker where name = 'x';
delete from v_invoker;
delete from v_over_invoker;
delete from v_over_invoker where id = 50 returning name;
delete from v_volatile;
delete from v_volatile where loud = 'x';
delete from v_volatile returning loud;
delete from v_taxed where tax > 1;
delete from v_taxed returning tax;
delete from v_taxed returning amount;
delete from vips;
delete from items where exists (select 1 from hr.salaries);
delete from items where true returning 1;
truncate items;
truncate table items, shop.codes;
truncate counted continue identity;
truncate only items cascade;

-- # EXPLAIN and COPY
explain select name from customers where ssn = 'x';
explain (analyze, costs off) select name from customers;
explain update customers set name = 'x' where id = 1 returning email;
explain (verbose, format json) select v from v_taxed v;
explain analyze delete from items where sku = 's1';
--@ before prepare p (int) as select ssn from customers where id = $1
explain execute p (1);
copy (select name, ssn from customers) to stdout;
copy (values (1), (2)) to stdout;
copy (delete from items returning sku) to stdout;
copy (insert into loner values (1) returning *) to stdout;
copy customers to stdout;
copy customers (id, name) to stdout (format csv);
copy shop.orders (card) to stdout with csv header;
copy loner from stdin;
copy orders (customer_id, note) from stdin (format csv);
copy customers (name, email) from stdin where region <> 'x';

-- # MERGE
merge into loner l using customers c on c.id = l.only_one when matched then delete;
merge into orders o using customers c on o.customer_id = c.id when matched and c.region = 'EU' then update set note = c.name, amount = o.amount + 1 when matched then do nothing;
merge into items using (select order_id, line, qty as q from items where price > 1) s on items.order_id = s.order_id and items.line = s.line when matched and items.sku is null then delete when matched then update set qty = s.q;
merge into loner using customers on only_one = id when not matched then insert (only_one) values (id);
merge into loner using customers on only_one = id when not matched and ssn = 'x' then insert default values;
merge into only loner as l using hr.salaries as s on l.only_one = s.salary when not matched then insert values (s.salary);
merge into orders o using (values (1, 'x')) v(id, note) on o.id = v.id when matched then update set (note, card) = (v.note, o.card) when not matched then insert (customer_id, note) overriding user value values (1, v.note);
with s as (select id, ssn from customers) merge into orders using s on s.id = customer_id when matched then update set note = ssn;
merge into orders o using customers c on c.id = o.customer_id when matched and tax(o.amount) > 1 then update set note = row_to_json(c)::text;
merge into counted c using (select 1 as one) s on c.id = s.one when not matched then insert (v) values ('x');
merge into vips v using customers c on v.id = c.id when matched then update set secret = c.name;
merge into events e using customers c on e.id = c.id when matched then update set payload = c.meta when not matched then insert (id, region) values (c.id, 'EU');
merge into loner using (select 1 as n) s on true when matched then delete;
merge into loner using (select 1 as n) s on true when matched then update set only_one = n;
merge into loner using (select 1 as n) s on false when not matched then insert values (n);
merge into counted using (select 1) s on true when matched then do nothing;
merge into loner using (select 1 as n) s on false when not matched then do nothing;
merge into loner using (select 1 as n) s on true when matched and n = 5 then do nothing when matched then delete;

-- # Prepared statements
prepare p as select id, name from customers;
prepare p (int) as select ssn from customers where id = $1;
prepare p (text) as update customers set name = coalesce($1, 'x') where region = 'EU' returning id;
--@ before prepare p as select id, name from customers
execute p;
--@ before prepare p (int) as select ssn from customers where id = $1
execute p (1);
--@ before prepare p (int, text) as insert into customers (id, name) values ($1, $2) returning initials
execute p (77, 'x');
--@ before prepare p (numeric) as select tax($1)
execute p (tax_at(1.5));

-- # Odds and ends
select id /* , ssn */ from customers -- , email
where name <> 'ssn; select ssn from customers';
select $$ssn$$, $x$select ssn$x$ from customers;
select id::regclass, 'customers'::regclass from customers;
select pg_catalog.count(*), pg_catalog.max(name) from customers;
select nextval('counter'), currval('shop.counter');
select c.name from customers c where c.meta @> '{"k": 1}' and c.meta ? 'k' and c.tags && array['a'];
select id from customers where true or ssn = 'x';
select id from customers where false and ssn = 'x';
select case when true then 1 else length(ssn) end from customers;
select width_bucket(balance, 0, 100, 5), born - date '2000-01-01', -id, @ balance, id % 2 from customers;
select (array[1, 2])[id], ('{a,b}'::text[])[1:id], (tags)[array_lower(tags, 1)] from customers;
select balance::int::text || name::char(3) || region::varchar(2) from customers;
select timestamp '2026-01-01' at time zone region, born::timestamptz from customers where name = 'nobody';
select format('%s', c), concat(c.*, 1) from orders c;
select num_nulls(c.*), count(*) from orders c group by c.id;
select id from customers where id = 1::smallint and name = 'x'::name and ssn = 'y'::varchar;
select null::customers, (null::customers).ssn;
select 1 as one from customers order by one, ssn;
select a.id from customers a, customers b, customers c where a.id = b.id and b.name = c.name;
select amount::numeric(10,2), amount::numeric(10,3), balance::numeric(12,2), balance::numeric, name::text, name::varchar, (home)::shop.address, tags::text[] from orders, customers;
select (x.j8).zip from (select meta as j8 from customers where false) x;
select (t4.*).region, t4.region, t4.* from v_totals as t2 join v_check as t3 using (region) as t4;
select * from shop.bounds(int4range(1, 11));
select * from shop.spans('{[1,2)}'::int4multirange, 1.5);
select (shop.twins('x'::text)).column2, (shop.twins(1)).column1, t.* from customers, shop.twins(born) t;
select * from shop.common(1, 2.5::float8, 3);
select xmlserialize(content '<a/>'::xml as varchar(20)), xmlserialize(content '<a/>'::xml as char(10)), xmlserialize(content '<a/>'::xml as text);
insert into serials (id, v) values (1, 'x') on conflict (id) do update set (id, v) = row(excluded.*);
insert into items as i (order_id, line, sku, qty) values (91, 1, 's', 1) on conflict (lower(i.sku), order_id) where i.qty > 0 do nothing;
select last_value(id) over (order by id range between current row and 4 following), sum(amount) over (order by amount range 1 preceding), count(*) over (order by placed range '1 day' preceding) from orders;
select sum(qty) over (w range between 1 preceding and 2::smallint following) from items window w as (partition by sku order by line);
select max(price) over (v range 1 preceding) from items window w as (order by price), v as (w);
