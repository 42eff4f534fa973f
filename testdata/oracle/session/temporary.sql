set search_path = other;
create temporary table a (x int);
select x from a;
select id from other.a;
drop table a;
select id from a;
