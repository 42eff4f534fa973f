-- Statements that wait for people. Whatever can hold a value of the database or a person's words is sealed; see
-- approvals.go. Every change of state leaves an act in the same transaction, so the audit log has the whole life.

create table approvals (
    id         text primary key,     -- the decision id of the request that was held
    state      text not null check (state in ('pending', 'approved', 'executing', 'done', 'failed', 'unknown', 'rejected', 'expired', 'void')),
    requester  text not null,
    source     text not null,
    created_at integer not null,
    expires_at integer not null,
    changed_at integer not null,     -- when it came into its state
    changed_by text not null,        -- a person, or a node
    held       blob not null,        -- sealed JSON
    claim      text not null default '',
    lease_at   integer not null default 0,  -- until when the claim holds
    note       blob,                 -- sealed
    rows       integer not null default 0,
    run        text not null default ''
) strict;

create index approvals_state on approvals (state, id);

create table approval_votes (
    approval text not null references approvals (id) on delete cascade,
    by       text not null,
    reject   integer not null,
    reason   blob,                   -- sealed
    at       integer not null,
    primary key (approval, by)
) strict;

-- What was approved is what runs, and nothing leaves a final state. Only a node that was given up can still say how it ended.
create trigger approvals_keep_content before update on approvals
when new.id is not old.id or new.requester is not old.requester or new.source is not old.source or new.held is not old.held
  or new.created_at is not old.created_at or new.expires_at is not old.expires_at
  or old.state in ('done', 'failed', 'rejected', 'expired', 'void')
  or old.claim is not '' and new.claim is not old.claim
  or old.state is 'unknown' and new.state not in ('unknown', 'done', 'failed', 'void')
begin select raise(abort, 'an approval cannot change so'); end;

create trigger approvals_stay before delete on approvals
when old.state in ('pending', 'approved', 'executing')
begin select raise(abort, 'an approval that is open is not deleted'); end;

create trigger approval_votes_stay before update on approval_votes
begin select raise(abort, 'a vote does not change'); end;

create trigger approvals_queued after insert on approvals
begin
    insert into acts (id, at, name, actor, attributes) values (lower(hex(randomblob(16))), new.created_at, 'approval.queued', new.changed_by,
        json_object('approval', new.id, 'requester', new.requester, 'source', new.source));
end;

create trigger approvals_moved after update of state on approvals
when new.state is not old.state
begin
    insert into acts (id, at, name, actor, attributes) values (lower(hex(randomblob(16))), new.changed_at,
        'approval.' || case new.state when 'executing' then 'claimed' when 'done' then 'executed' else new.state end, new.changed_by,
        json_object('approval', new.id, 'requester', new.requester, 'source', new.source, 'rows', cast(new.rows as text), 'run', new.run));
end;

create trigger approval_votes_given after insert on approval_votes
begin
    insert into acts (id, at, name, actor, attributes) values (lower(hex(randomblob(16))), new.at,
        'approval.vote', new.by, json_object('approval', new.approval, 'vote', case new.reject when 0 then 'approve' else 'reject' end));
end;

create index acts_name on acts (name, number);
