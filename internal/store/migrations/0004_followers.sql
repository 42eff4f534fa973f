-- Who is told of acts beside the audit log, and how far each has come. Of several nodes one at a time tells a follower.

create table followers (
    name     text primary key,
    number   integer not null,            -- of the last act that was confirmed
    node     text not null default '',
    lease_at integer not null default 0
) strict;
