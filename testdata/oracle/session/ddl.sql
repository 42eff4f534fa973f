-- Statements are judged in a session that changes the catalog under them.
create schema life;
set search_path = life;
create table a (id int primary key, v text);
insert into a values (1, 'x') returning *;
select id, v from a;
alter table a add column w int default 7;
select * from a;
alter table a drop column v;
select * from a;
select a from a;
alter table a rename column w to v;
select v from a where id = 1;
create view va as select v as x from a;
select x from va;
create or replace view va as select v as x, id from a;
select x, id from va;
create function f(int) returns int language sql as 'select $1';
select f(v) from a;
create function f(numeric) returns int language sql as 'select 0';
select f(v), f(1.5) from a;
drop function f(int);
select f(v) from a;
create schema other;
create table other.a (id text, secret int);
insert into other.a values ('k', 1);
select id from a;
set search_path = other, life;
select id, secret from a;
select id from life.a;
set search_path = life, other;
select id from a;
drop table a cascade;
select id, secret from a;
copy other.a from stdin;
l	2
\.
select count(*) from other.a;
select secret as s from other.a \gset
select :s, 'two;parts' \; select id from other.a;
\echo done
