-- A table with a column of each kind of type, every one of them masked: see shell/masked.
create schema masked;
create domain masked.address as varchar(40);
create table masked.wide (id int primary key, t text, dom masked.address, a text[], n numeric, i bigint, f double precision, ia int[], d date, tz timestamptz,
    j jsonb, u uuid, b bytea, yes boolean, ip inet);
insert into masked.wide values (1, 'ada@raw.test', 'ada@raw.test', '{raw,null}', 12345.67, 1234, 1234.5, '{150,null,-150}', '2026-08-31', '2026-08-31 23:59:59.999999+00',
    '{"token": "raw", "n": [1, 2]}', '123e4567-e89b-12d3-a456-426614174000', '\x726177', false, '10.0.0.1');
grant usage on schema masked to gateway;
grant select on masked.wide to gateway;
