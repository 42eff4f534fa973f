-- What psql asks the catalog to describe things.
create schema described;
create table described.item (id int generated always as identity primary key, name text not null unique, price numeric(8,2) default 1 check (price > 0),
	half numeric generated always as (price / 2) stored, parent int references described.item);
comment on table described.item is 'things';
comment on column described.item.name is 'what it is called';
create table described.event (at timestamptz not null, item int references described.item) partition by range (at);
create table described.event_2026 partition of described.event for values from ('2026-01-01') to ('2027-01-01');
create index on described.event (item) where item is not null;
create view described.cheap as select id, name from described.item where price < 10 with check option;
create materialized view described.totals as select parent, sum(price) as total from described.item group by parent;
create type described.pair as (x int, y text);
create domain described.short as varchar(10) check (value <> '');
create function described.twice(int) returns int language sql immutable as 'select 2 * $1';
create operator described.## (leftarg = int, rightarg = int, function = int4mul);
create statistics described.both (dependencies) on name, price from described.item;
alter table described.item enable row level security;
create policy own on described.item using (parent is null);
create rule quiet as on delete to described.item do also notify item;
create trigger same before update on described.item for each row execute function suppress_redundant_updates_trigger();
create publication changes for table described.item;
\d
\d+
\dt *.*
\dt+
\dv+
\dm+
\di+
\ds+
\df
\df+ described.*
\dfa
\dn+
\du+
\dp
\ddp
\l+
\dT+
\dx+
\dD+
\do+ described.*
\dC+
\dA+
\dAc
\dAf
\dAo
\dAp
\dF+
\dFd+
\dFp+
\dFt+
\dy+
\des+
\det+
\dew+
\deu+
\dE+
\dL+
\dO+
\dP+
\dRp+
\dRs+
\drds
\da
\db+
\dc+
\dconfig+ work_mem
\dd
\dg+
\dl+
\dX
\z
\d described.item
\d+ described.item
\d+ described.event
\d+ described.event_2026
\d+ described.cheap
\d+ described.totals
\d+ described.item_id_seq
\d+ described.item_pkey
\d+ described.pair
\sf described.twice
\sf+ described.twice
\sv described.cheap
\sv+ described.cheap
\dt described.i*
\dti+ described.*
