-- Times are nanoseconds since 1970 UTC.

create table rulesets (
    number     integer primary key autoincrement,
    digest     text not null,
    document   text not null,  -- the governance document as JSON
    texts      text not null,  -- the files that it was read from, as JSON: {"name": "text"}
    applied_at integer not null,
    applied_by text not null
) strict;

create trigger rulesets_keep_content before update on rulesets
begin select raise(abort, 'a ruleset does not change'); end;

create trigger rulesets_stay before delete on rulesets
begin select raise(abort, 'a ruleset is not deleted'); end;

create table keys (
    id         text primary key,
    identity   text not null,
    name       text not null,
    hint       text not null,
    mac        blob not null unique,
    stored_key blob not null,
    server_key blob not null,
    created_at integer not null,
    expires_at integer,
    revoked_at integer
) strict;

create index keys_identity on keys (identity);

-- Once revoked, always revoked; and a key is nobody else's.
create trigger keys_stay_revoked before update on keys
when old.revoked_at is not null and new.revoked_at is not old.revoked_at
  or new.id is not old.id or new.identity is not old.identity or new.mac is not old.mac
begin select raise(abort, 'a key can only be revoked'); end;

create table catalogs (
    id         integer primary key autoincrement,
    source     text not null,
    version    text not null,
    scanned_at integer not null,
    content    blob not null
) strict;

create index catalogs_source on catalogs (source, scanned_at);
create index catalogs_version on catalogs (version);
