-- Index over the audit log. It can be made again from the log's segments at any time, so it is not migrated: a file of
-- another version is thrown away.

-- 'cursor' is how far the index has come, 'sealed' the end of the blocks that do not change any more.
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

create index shape_fingerprint on shape (fingerprint);

-- A block has the requests and events of the entries from first to last. head lists what of the dictionaries, which
-- sessions and which clients are in it, traces which trace ids; keys and places have the requests themselves, column by
-- column. Times are Unix milliseconds, ids the times of decision ids; odd is set if there are ids without
-- one. The block under way is written again and again until it is full.
create table block (
    first integer primary key, last integer not null,
    from_time integer not null, to_time integer not null, from_id integer not null, to_id integer not null, odd integer not null,
    head blob not null, keys blob not null, places blob not null, traces blob not null
) strict;

-- The numbers of a block's requests by hour. They are apart, since SQLite reads all that stands before a field. callers has them
-- without hours and shapes, shapes without hours and callers: most statistics need no more, and these are much smaller.
create table counts (first integer primary key, callers blob not null, shapes blob not null, sums blob not null) strict;

-- The requests that were running when their block was full. id, session, trace and host are hashes: what is found is
-- compared in full. A place without a segment is of an outcome that is not there, or of a record that was pruned.
create table loose (
    seq integer primary key, time integer not null, id integer not null,
    who integer not null, shape integer not null, ending integer not null,
    session integer not null, host integer not null, trace integer not null,
    segment integer not null, at integer not null, ended_segment integer not null, ended_at integer not null,
    rows integer not null, nanos integer not null
) strict;

-- statements of a session that is open are those in full blocks.
create table session (
    id text primary key, hash integer not null, who integer not null, client text not null, opened integer not null,
    closed integer, statements integer not null default 0
) strict;

create index session_opened on session (opened);
create index session_hash on session (hash);
