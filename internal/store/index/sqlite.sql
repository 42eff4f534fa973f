-- Index over the audit log. It can be made again from the log's segments at any time, so it is not migrated: a file of
-- another version is thrown away. The index that nodes share (postgres.sql) has the same tables, by which both are read and
-- written with the same statements. part is the log that a row belongs to: 0, the only one that there is here.

-- 'cursor' is how far the index has come, 'sealed' the end of the blocks that do not change any more.
create table meta (part integer not null, key text not null, value text not null, primary key (part, key)) strict;

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

create index shape_fingerprint on shape (fingerprint);

-- A block has the requests and events of the entries from first to last. head lists what of the dictionaries, which
-- sessions and which clients are in it, traces which trace ids; keys, details and places have the requests themselves, column by
-- column: what each has of the dictionaries, what else can be searched by, and where it is. Times are Unix milliseconds, ids the times of decision ids; odd is set if there are ids without
-- one. The block under way is written again and again until it is full.
create table block (
    part integer not null, first integer not null, last integer not null,
    from_time integer not null, to_time integer not null, from_id integer not null, to_id integer not null, odd integer not null,
    head blob not null, keys blob not null, details blob not null, places blob not null, traces blob not null,
    primary key (part, first)
) strict;

-- The numbers of a block's requests by hour. They are apart, since SQLite reads all that stands before a field. callers has them
-- without shapes, shapes without callers: most statistics need no more, and these are much smaller.
create table counts (
    part integer not null, first integer not null, callers blob not null, shapes blob not null, sums blob not null,
    primary key (part, first)
) strict;

-- The requests that were running when their block was full. id, session, trace and host are hashes: what is found is
-- compared in full. A place without a segment is of an outcome that is not there, or of a record that was pruned.
create table loose (
    part integer not null, seq integer not null, time integer not null, id integer not null,
    who integer not null, shape integer not null, ending integer not null,
    session integer not null, host integer not null, trace integer not null,
    segment integer not null, at integer not null, ended_segment integer not null, ended_at integer not null,
    rows integer not null, nanos integer not null,
    primary key (part, seq)
) strict;

-- statements of a session that is open are those in full blocks.
create table session (
    part integer not null, id text not null, hash integer not null, who integer not null, client text not null, opened integer not null,
    closed integer, statements integer not null default 0,
    primary key (part, id)
) strict;

create index session_opened on session (opened);
create index session_hash on session (part, hash);
