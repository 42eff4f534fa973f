package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Follow makes a node the one that tells a follower of acts, until a time, and reports if it is. A follower that is new
// hears of acts from now on.
func (s *Store) Follow(ctx context.Context, follower, node string, until time.Time) (bool, error) {
	_, err := s.db.ExecContext(ctx, `insert into followers (name, number)
		select ?, coalesce(max(number), 0) from acts where true on conflict do nothing`, follower)
	if err != nil {
		return false, fmt.Errorf("following acts: %w", err)
	}
	result, err := s.db.ExecContext(ctx, "update followers set node = ?1, lease_at = ?2 where name = ?3 and (node = ?1 or lease_at < ?4)",
		node, until.UnixNano(), follower, time.Now().UnixNano())
	if err != nil {
		return false, fmt.Errorf("following acts: %w", err)
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

// FollowedActs returns the acts whose name begins with a prefix and that a follower has not confirmed, oldest first, at
// most 100.
func (s *Store) FollowedActs(ctx context.Context, follower, prefix string) ([]Act, error) {
	rows, err := s.db.QueryContext(ctx, `select number, id, at, name, actor, attributes from acts
		where number > (select number from followers where name = ?1) and substr(name, 1, length(?2)) = ?2 order by number limit 100`, follower, prefix)
	if err != nil {
		return nil, fmt.Errorf("reading acts: %w", err)
	}
	defer rows.Close()
	var all []Act
	for rows.Next() {
		a, err := scanAct(rows)
		if err != nil {
			return nil, fmt.Errorf("reading acts: %w", err)
		}
		all = append(all, a)
	}
	return all, rows.Err()
}

// ConfirmActs says that a follower knows every act up to a number.
func (s *Store) ConfirmActs(ctx context.Context, follower string, number int64) error {
	if _, err := s.db.ExecContext(ctx, "update followers set number = max(number, ?) where name = ?", number, follower); err != nil {
		return fmt.Errorf("confirming acts: %w", err)
	}
	return nil
}

func scanAct(row interface{ Scan(...any) error }) (a Act, err error) {
	var at int64
	var text string
	if err := row.Scan(&a.Number, &a.ID, &at, &a.Name, &a.Actor, &text); err != nil {
		return a, err
	}
	a.At = time.Unix(0, at).UTC()
	return a, json.Unmarshal([]byte(text), &a.Attributes)
}
