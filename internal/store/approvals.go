package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"interlock/sqlgov"
)

// Approvals keeps held statements. It implements sqlgov.ApprovalStore. Each method is one transaction, and each change of
// state one conditional update.
type Approvals struct {
	store *Store
	seal  *sealer
}

// Approvals returns the approvals in the store, whose content is encrypted under the server's secret.
func (s *Store) Approvals(secret []byte) (*Approvals, error) {
	seal, err := newSealer(secret, "approvals")
	if err != nil {
		return nil, err
	}
	return &Approvals{s, seal}, nil
}

// place binds what is sealed to its row and to the columns that decide about it.
func place(a *sqlgov.Approval) string {
	return fmt.Sprintf("held\x00%s\x00%s\x00%s\x00%d\x00%d", a.ID, a.Requester, a.Source, a.Created.UnixNano(), a.Expires.UnixNano())
}

// QueueApproval implements sqlgov.ApprovalStore.
func (p *Approvals) QueueApproval(ctx context.Context, a *sqlgov.Approval, perIdentity, inAll int) error {
	held, err := json.Marshal(a.Held)
	if err != nil {
		return fmt.Errorf("keeping a held statement: %w", err)
	}
	result, err := p.store.db.ExecContext(ctx, `insert into approvals (id, state, requester, source, created_at, expires_at, changed_at, changed_by, held)
		select ?1, 'pending', ?2, ?3, ?4, ?5, ?4, ?2, ?6
		where (select count(*) from approvals where state = 'pending' and requester = ?2) < ?7
		and (select count(*) from approvals where state = 'pending') < ?8`,
		a.ID, a.Requester, a.Source, a.Created.UnixNano(), a.Expires.UnixNano(), p.seal.seal(held, place(a)), perIdentity, inAll)
	if err != nil {
		return fmt.Errorf("keeping a held statement: %w", err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return sqlgov.ErrTooManyApprovals
}

// FindApprovals implements sqlgov.ApprovalStore.
func (p *Approvals) FindApprovals(ctx context.Context, f sqlgov.ApprovalFilter) ([]sqlgov.Approval, error) {
	query := "select id, state, requester, source, created_at, expires_at, changed_at, held, note, rows, run from approvals where true"
	var args []any
	if f.ID != "" {
		query, args = query+" and id = ?", append(args, f.ID)
	}
	if len(f.States) > 0 {
		in, states := oneOf(f.States)
		query, args = query+" and state in "+in, append(args, states...)
	}
	limit := f.Limit
	if limit <= 0 {
		limit = 100
	}
	var all []sqlgov.Approval
	err := p.store.view(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, query+" order by id desc limit ?", append(args, limit)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			a, err := p.scan(rows)
			if err != nil {
				return err
			}
			all = append(all, *a)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		for i := range all {
			if all[i].Votes, err = p.votes(ctx, tx, all[i].ID); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading approvals: %w", err)
	}
	return all, nil
}

func oneOf(states []sqlgov.ApprovalState) (in string, args []any) {
	for _, s := range states {
		args = append(args, string(s))
	}
	return "(" + strings.TrimSuffix(strings.Repeat("?, ", len(states)), ", ") + ")", args
}

func (p *Approvals) scan(rows *sql.Rows) (*sqlgov.Approval, error) {
	a := &sqlgov.Approval{}
	var created, expires, changed int64
	var held, note []byte
	if err := rows.Scan(&a.ID, &a.State, &a.Requester, &a.Source, &created, &expires, &changed, &held, &note, &a.Rows, &a.Run); err != nil {
		return nil, err
	}
	a.Created, a.Expires, a.Changed = time.Unix(0, created).UTC(), time.Unix(0, expires).UTC(), time.Unix(0, changed).UTC()
	text, err := p.seal.open(held, place(a))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &a.Held); err != nil {
		return nil, fmt.Errorf("held statement %s: %w", a.ID, err)
	}
	text, err = p.seal.open(note, "note\x00"+a.ID)
	a.Note = string(text)
	return a, err
}

func (p *Approvals) votes(ctx context.Context, tx *sql.Tx, id string) ([]sqlgov.Vote, error) {
	rows, err := tx.QueryContext(ctx, "select by, reject, reason, at from approval_votes where approval = ? order by at, by", id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []sqlgov.Vote
	for rows.Next() {
		var v sqlgov.Vote
		var at int64
		var reason []byte
		if err := rows.Scan(&v.By, &v.Reject, &reason, &at); err != nil {
			return nil, err
		}
		text, err := p.seal.open(reason, "reason\x00"+id+"\x00"+v.By)
		if err != nil {
			return nil, err
		}
		v.Reason, v.At = string(text), time.Unix(0, at).UTC()
		all = append(all, v)
	}
	return all, rows.Err()
}

// VoteApproval implements sqlgov.ApprovalStore.
func (p *Approvals) VoteApproval(ctx context.Context, id string, v sqlgov.Vote, enough func([]sqlgov.Vote) bool) (counted bool, err error) {
	err = p.store.update(ctx, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, `insert into approval_votes (approval, by, reject, reason, at)
			select id, ?2, ?3, ?4, ?5 from approvals where id = ?1 and state = 'pending' and expires_at > ?5
			on conflict do nothing`, id, v.By, v.Reject, p.seal.seal([]byte(v.Reason), "reason\x00"+id+"\x00"+v.By), v.At.UnixNano())
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return err
		}
		counted = true
		to := sqlgov.ApprovalRejected
		if !v.Reject {
			votes, err := p.votes(ctx, tx, id)
			if err != nil || !enough(votes) {
				return err
			}
			to = sqlgov.ApprovalApproved
		}
		_, err = tx.ExecContext(ctx, "update approvals set state = ?, changed_at = ?, changed_by = ? where id = ? and state = 'pending'",
			string(to), v.At.UnixNano(), v.By, id)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("voting on approval %s: %w", id, err)
	}
	return counted, nil
}

// MoveApproval implements sqlgov.ApprovalStore.
func (p *Approvals) MoveApproval(ctx context.Context, m sqlgov.ApprovalMove) (bool, error) {
	in, states := oneOf(m.From)
	set := `update approvals set state = ?, changed_at = case when state = ? then changed_at else ? end, changed_by = ?, note = ?, rows = ?, run = ?`
	now := time.Now().UnixNano()
	args := []any{string(m.To), string(m.To), now, m.By, p.seal.seal([]byte(m.Note), "note\x00"+m.ID), m.Rows, m.Run}
	if m.To == sqlgov.ApprovalExecuting {
		set, args = set+", claim = ?, lease_at = ?", append(args, m.Claim, m.Lease.UnixNano())
	}
	where, conditions := " where id = ? and state in "+in, append([]any{m.ID}, states...)
	if m.Claim != "" {
		where, conditions = where+" and (claim = ? or claim = '' and state = 'approved' and expires_at > ?)", append(conditions, m.Claim, now)
	}
	result, err := p.store.db.ExecContext(ctx, set+where, append(args, conditions...)...)
	if err != nil {
		return false, fmt.Errorf("moving approval %s to %s: %w", m.ID, m.To, err)
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

// SweepApprovals implements sqlgov.ApprovalStore. It writes only if there is something to do.
func (p *Approvals) SweepApprovals(ctx context.Context, keep time.Time) error {
	now := time.Now().UnixNano()
	for _, s := range []struct {
		where  string
		arg    int64
		change string
	}{
		{"state in ('pending', 'approved') and expires_at <= ?", now, "update approvals set state = 'expired', changed_at = ?, changed_by = ?"},
		{"state = 'executing' and lease_at <= ?", now, "update approvals set state = 'unknown', changed_at = ?, changed_by = ?"},
	} {
		var due bool
		if err := p.store.db.QueryRowContext(ctx, "select exists (select 1 from approvals where "+s.where+")", s.arg).Scan(&due); err != nil {
			return fmt.Errorf("looking for approvals that are due: %w", err)
		}
		if !due {
			continue
		}
		if _, err := p.store.db.ExecContext(ctx, s.change+" where "+s.where, now, p.store.Actor, s.arg); err != nil {
			return fmt.Errorf("ending approvals that are due: %w", err)
		}
	}
	return p.forget(ctx, keep)
}

func (p *Approvals) forget(ctx context.Context, keep time.Time) error {
	const old = " from approvals where state not in ('pending', 'approved', 'executing') and changed_at < ?"
	var due bool
	err := p.store.db.QueryRowContext(ctx, "select exists (select 1"+old+")", keep.UnixNano()).Scan(&due)
	if err == nil && due {
		_, err = p.store.db.ExecContext(ctx, "delete"+old, keep.UnixNano())
	}
	if err != nil {
		return fmt.Errorf("forgetting old approvals: %w", err)
	}
	return nil
}
