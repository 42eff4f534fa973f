-- Index over the audit log. It can be made again from the log's segments at any time, so it is not migrated: a file of
-- another version is thrown away.

create table meta (key text primary key, value text not null) strict;

-- The dictionaries: what is the same for many requests is kept once.
create table who (
    id integer primary key, identity text not null, key text not null, door text not null, source text not null,
    application text not null,
    unique (identity, key, door, source, application)
) strict;

create table shape (
    id integer primary key, digest blob not null unique, statement text not null, folded text not null,
    fingerprint text not null, verdict text not null, kinds text not null
) strict;

create table touch (name text not null, what text not null, shape integer not null,
    primary key (name, what, shape)) strict, without rowid;

create table ending (
    id integer primary key, status text not null, sqlstate text not null, refusal text not null, event text not null,
    unique (status, sqlstate, refusal, event)
) strict;

-- A combination is what searches select by. first and last bound the numbers of its requests.
create table combo (
    id integer primary key, who integer not null, shape integer not null, ending integer not null,
    n integer not null, first integer not null, last integer not null,
    unique (who, shape, ending)
) strict;

create index combo_shape on combo (shape);
create index shape_fingerprint on shape (fingerprint);

-- A request or event. at and ended_at are places in the log. id, session, trace and host are hashes: what is found is
-- compared in full.
create table request (
    seq integer primary key, time integer not null, id integer not null, combo integer not null, session integer not null,
    trace integer not null, host integer not null, segment integer not null, at integer not null, ended_segment integer, ended_at integer,
    rows integer not null, nanos integer not null
) strict;

create index request_id on request (id);
create index request_combo on request (combo);
create index request_session on request (session) where session <> 0;
create index request_host on request (host) where host <> 0;
create index request_trace on request (trace) where trace <> 0;

-- When requests came, here and there, so that times can be turned into numbers.
create table mark (seq integer primary key, time integer not null) strict;

create table session (
    id text primary key, hash integer not null, who integer not null, client text not null, opened integer not null,
    closed integer, statements integer
) strict;

create index session_opened on session (opened);

-- Counts by hour.
create table hourly (hour integer not null, combo integer not null, n integer not null, rows integer not null, nanos integer not null,
    primary key (hour, combo)) strict, without rowid;
