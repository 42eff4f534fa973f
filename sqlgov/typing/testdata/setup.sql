-- Types, functions, operators, casts and aggregates of a user, made to be confused with each other and with
-- PostgreSQL's own.
create extension citext;
create extension hstore;
create schema app;
create schema other;

create type app.mood as enum ('sad', 'glad');
create type app.pair as (a int4, b text);
create type app.mini as (a int2, b varchar(3));
create type app.floatrange as range (subtype = float8);
create table app.parent (a int4, b text);
create table app.child (c int4) inherits (app.parent);
create table app.grandchild () inherits (app.child);
create table app.typed of app.pair;
create type app.label;
create function app.label_in(cstring) returns app.label language internal immutable strict as 'textin';
create function app.label_out(app.label) returns cstring language internal immutable strict as 'textout';
create type app.label (input = app.label_in, output = app.label_out, like = text, category = 'S');
create cast (text as app.label) without function as implicit;
create type other.mood as enum ('other');

create function app.ok(int4) returns bool language sql as 'select $1 > 0';
create function app.okay(int4) returns bool language sql as 'select $1 > 0';
create domain app.posint as int4 check (app.ok(value));
create domain app.small as app.posint check (app.okay(value) and value < 100);
create domain app.short as varchar(5);
create domain app.words as text[];
create domain app.pairdom as app.pair;
create domain app.mooddom as app.mood;
create domain app.numdom as numeric(8, 2);
create domain other.txt as text;
create type app.holder as (p app.posint, m app.mood);

-- Overloads and shadows.
create function app.f(int4) returns text language sql as 'select ''int4''::text';
create function app.f(int8) returns int8 language sql as 'select 1::int8';
create function app.f(text) returns bool language sql as 'select true';
create function app.f(numeric) returns numeric language sql as 'select 1.0';
create function app.f(app.mood) returns app.mood language sql as 'select $1';
create function other.f(int4) returns date language sql as 'select current_date';
create function other.f(date) returns date language sql as 'select $1';
create function other.f(int4, int4) returns int4 language sql as 'select 1';
create function app.upper(text) returns int4 language sql as 'select 1';
create function other.lower(varchar) returns int4 language sql as 'select 1';
create function app.length(app.pair) returns int4 language sql as 'select 1';
create function app.abs(app.posint) returns app.posint language sql as 'select $1';
create function app.text(int4) returns text language sql as 'select ''x''::text';
create function app.name(app.pair) returns text language sql as 'select ''x''::text';
create function app.mood(text) returns app.mood language sql as 'select null::app.mood';
create function app.dom(app.posint) returns int4 language sql as 'select 1';
create function app.dom(int8) returns int8 language sql as 'select 1::int8';
create function app.row1(app.parent) returns int4 language sql as 'select 1';
create function app.row1(app.pair) returns text language sql as 'select ''x''::text';
create function app.row2(record) returns int4 language plpgsql as 'begin return 1; end';
create function app.rows(record[]) returns int4 language internal as 'array_ndims';
create function app.setof(int4) returns setof int4 language sql as 'select 1';
create function app.outs(int4, out x int4, out y text) language sql as 'select 1, ''x''::text';
create function app.tab(int4) returns table (x int4, y text) language sql as 'select 1, ''x''::text';

-- Defaults and names.
create function app.g(a int4, b int4 default 1, c text default 'x') returns int4 language sql as 'select 1';
create function app.g(a text, d date default null) returns text language sql as 'select $1';
create function app.g2(a int4) returns int4 language sql as 'select 1';
create function app.g2(a int4, b text default 'x') returns text language sql as 'select $2';
create function other.g2(a int4) returns date language sql as 'select null::date';
create function app.swap(a int4, b text) returns int4 language sql as 'select 1';
create function app.swap(b text, a int4) returns text language sql as 'select ''x''::text';
create function app.named(a int4, inout b text, out c int4, d date default null) language sql as 'select $2, 1';

-- Variadics.
create function app.v(variadic int4[]) returns int4 language sql as 'select 1';
create function app.v(int4) returns text language sql as 'select ''x''::text';
create function app.v(int4, variadic int4[]) returns date language sql as 'select null::date';
create function app.vp(a text, variadic b anyarray) returns anyelement language sql as 'select $2[1]';
create function app.vc(a anycompatible, variadic b anycompatiblearray) returns anycompatiblearray language sql as 'select $2';
create function app.va(variadic "any") returns int4 language internal as 'pg_num_nulls';
create function app.vt(variadic text[]) returns text language sql as 'select $1[1]';
create function other.vt(text, text) returns int4 language sql as 'select 1';
create function app.vnamed(a int4, variadic b text[]) returns int4 language sql as 'select 1';
create function app.vd(a int4, b int4 default 2, variadic c int4[] default '{}') returns int4 language sql as 'select 1';

-- Polymorphic functions.
create function app.p1(anyelement) returns anyarray language sql as 'select array[$1]';
create function app.p2(anyelement, anyarray) returns anyelement language sql as 'select $1';
create function app.p3(anynonarray, anyelement) returns bool language sql as 'select true';
create function app.p4(anyenum, anyenum) returns anyenum language sql as 'select $1';
create function app.p5(anyrange, anyelement) returns anymultirange language sql as 'select null';
create function app.p6(anymultirange) returns anyrange language sql as 'select null';
create function app.p7(anyarray) returns anyelement language sql as 'select $1[1]';
create function app.p7(int4) returns text language sql as 'select ''x''::text';
create function app.c1(anycompatible, anycompatible) returns anycompatible language sql as 'select $1';
create function app.c2(anycompatiblearray, anycompatible) returns anycompatiblearray language sql as 'select $1';
create function app.c3(anycompatiblerange, anycompatible) returns anycompatiblerange language sql as 'select $1';
create function app.c4(anycompatiblemultirange, anycompatiblerange) returns anycompatiblemultirange language sql as 'select $1';
create function app.c5(anycompatiblenonarray, anycompatible, int4) returns anycompatible language sql as 'select $2';
create function app.c6(anycompatible, anyelement) returns anyarray language sql as 'select array[$2]';
create function app.c7(anycompatiblemultirange) returns anycompatible language sql as 'select null';
create function app.pd(anyelement, anyelement default 5) returns anyelement language sql as 'select $1';
create function app.cd(anycompatible, anycompatible default 1.5) returns anycompatible language sql as 'select $1';
create function app.mix(anyelement, int4) returns text language sql as 'select ''x''::text';
create function app.mix(int4, anyelement) returns int4 language sql as 'select 1';

-- Procedures.
create procedure app.proc(int4) language plpgsql as 'begin raise notice ''app.proc(integer)''; end';
create procedure app.proc(text) language plpgsql as 'begin raise notice ''app.proc(text)''; end';
create procedure app.proc2(a int4, inout b text, out c int4) language plpgsql as 'begin raise notice ''app.proc2(integer, text)''; end';
create procedure app.proc2(a text, inout b text, out c date) language plpgsql as 'begin raise notice ''app.proc2(text, text)''; end';
create procedure app.proc3(a int4, b int4 default 2) language plpgsql as 'begin raise notice ''app.proc3(integer, integer)''; end';
create procedure app.proc3(a text, c text default null) language plpgsql as 'begin raise notice ''app.proc3(text, text)''; end';
create procedure other.proc(int4) language plpgsql as 'begin raise notice ''other.proc(integer)''; end';

-- Aggregates.
create aggregate app.total(int4) (sfunc = int4pl, stype = int4);
create aggregate app.total(float8) (sfunc = float8pl, stype = float8);
create aggregate app.everything(*) (sfunc = int8inc, stype = int8, initcond = '0');
create aggregate app.pick(float8 order by anyelement) (sfunc = ordered_set_transition, stype = internal,
	finalfunc = percentile_disc_final, finalfunc_extra);
create aggregate app.place(variadic "any" order by variadic "any") (sfunc = ordered_set_transition_multi, stype = internal,
	finalfunc = rank_final, finalfunc_extra, hypothetical);
create function app.newest(anyelement, anyelement) returns anyelement language sql as 'select $2';
create aggregate app.last(anyelement) (sfunc = app.newest, stype = anyelement);

create aggregate app.named_total(a int4) (sfunc = int4pl, stype = int4);

-- Casts.
create function app.to_int(app.pair) returns int4 language sql as 'select $1.a';
create cast (app.pair as int4) with function app.to_int(app.pair);
create function app.rank(app.mood) returns int4 language sql as 'select 1';
create cast (app.mood as int4) with function app.rank(app.mood) as assignment;
create function app.to_mood(int8) returns app.mood language sql as 'select null::app.mood';
create cast (int8 as app.mood) with function app.to_mood(int8) as implicit;
create cast (app.mood as text) with inout as implicit;
create cast (app.mini as app.pair) with inout;
create function app.to_range(float8) returns app.floatrange language sql as 'select null::app.floatrange';
create cast (float8 as app.floatrange) with function app.to_range(float8) as implicit;

-- Operators.
create function app.op_int(int4, int4) returns text language sql as 'select ''x''::text';
create function app.op_text(text, text) returns int4 language sql as 'select 1';
create function app.op_mood(app.mood, app.mood) returns bool language sql as 'select true';
create function app.op_pair(app.pair, app.pair) returns bool language sql as 'select true';
create function app.op_pos(app.posint, app.posint) returns bool language sql as 'select true';
create function app.op_neg(app.mood) returns app.mood language sql as 'select $1';
create function app.op_any(anyelement, anyelement) returns anyarray language sql as 'select array[$1, $2]';
create function app.op_elem(anyarray, anyelement) returns bool language sql as 'select true';
create function app.op_comp(anycompatible, anycompatiblearray) returns anycompatible language sql as 'select $1';
create operator app.+ (leftarg = int4, rightarg = int4, function = app.op_int);
create operator app.+ (leftarg = text, rightarg = text, function = app.op_text);
create operator app.= (leftarg = app.mood, rightarg = app.mood, function = app.op_mood);
create operator app.= (leftarg = app.pair, rightarg = app.pair, function = app.op_pair);
create operator app.= (leftarg = app.posint, rightarg = app.posint, function = app.op_pos);
create operator app.- (rightarg = app.mood, function = app.op_neg);
create operator app.=== (leftarg = anyelement, rightarg = anyelement, function = app.op_any);
create operator app.=== (leftarg = int4, rightarg = int4, function = app.op_int);
create operator app.@@@ (leftarg = anyarray, rightarg = anyelement, function = app.op_elem);
create operator app.@@@ (leftarg = anycompatible, rightarg = anycompatiblearray, function = app.op_comp);
create operator other.=== (leftarg = int4, rightarg = int4, function = int4eq);
create operator other.+ (leftarg = int4, rightarg = int4, function = int4mi);
