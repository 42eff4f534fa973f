-- What was done to the control store, by whichever process, for the audit log: the gateway that writes the log takes each
-- act over, in order, and notes how far it has come.

create table acts (
    number     integer primary key autoincrement,
    id         text not null unique,  -- ULID or other id of the audit event
    at         integer not null,
    name       text not null,
    actor      text not null,         -- who; '' is not known
    attributes text not null          -- JSON object of strings
) strict;

create trigger acts_keep_content before update on acts
when new.number is not old.number or new.id is not old.id or new.at is not old.at or new.name is not old.name
  or new.attributes is not old.attributes or old.actor is not '' and new.actor is not old.actor
begin select raise(abort, 'an act does not change'); end;

create trigger acts_stay before delete on acts
begin select raise(abort, 'an act is not deleted'); end;

create table acts_taken (number integer not null) strict;
insert into acts_taken values (0);

create trigger keys_created after insert on keys
begin
    insert into acts (id, at, name, actor, attributes) values (lower(hex(randomblob(16))), new.created_at, 'key.created', '',
        json_object('key', new.id, 'identity', new.identity, 'name', new.name,
            'expires', coalesce(strftime('%Y-%m-%dT%H:%M:%SZ', new.expires_at / 1000000000, 'unixepoch'), 'never')));
end;

create trigger keys_revoked after update of revoked_at on keys
when old.revoked_at is null and new.revoked_at is not null
begin
    insert into acts (id, at, name, actor, attributes) values (lower(hex(randomblob(16))), new.revoked_at, 'key.revoked', '',
        json_object('key', new.id, 'identity', new.identity));
end;

create trigger keys_deleted after delete on keys
begin
    insert into acts (id, at, name, actor, attributes) values (lower(hex(randomblob(16))), cast(unixepoch('subsec') * 1000 as integer) * 1000000,
        'key.deleted', '', json_object('key', old.id, 'identity', old.identity));
end;
