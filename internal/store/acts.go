package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"
)

// Act is an administrative act: something that was done to the control store, or beside it, and belongs in the audit
// log. A process that cannot write the log leaves its acts here; the one that can takes them over.
type Act struct {
	Number     int64 // counts up from 1; gaps mean that one was removed
	ID         string
	At         time.Time
	Name       string // of the audit event
	Actor      string // who did it; "" is not known
	Attributes map[string]string
}

// AddAct leaves an act and returns its number. Changes of keys leave theirs by themselves, in the same transaction.
func (s *Store) AddAct(ctx context.Context, a Act) (int64, error) {
	text, err := json.Marshal(a.Attributes)
	if err != nil {
		return 0, err
	}
	res, err := s.db.ExecContext(ctx, "insert into acts (id, at, name, actor, attributes) values (?, ?, ?, ?, ?)",
		a.ID, a.At.UnixNano(), a.Name, s.Actor, string(text))
	if err != nil {
		return 0, fmt.Errorf("noting an administrative act: %w", err)
	}
	return res.LastInsertId()
}

// named says who did what tx has done so far.
func (s *Store) named(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "update acts set actor = ? where actor = '' and number = (select max(number) from acts)", s.Actor)
	return err
}

// ActsToTake returns the acts that the audit log does not have yet, oldest first, at most 100.
func (s *Store) ActsToTake(ctx context.Context) ([]Act, error) {
	rows, err := s.db.QueryContext(ctx, `select number, id, at, name, actor, attributes from acts
		where number > (select number from acts_taken) order by number limit 100`)
	if err != nil {
		return nil, fmt.Errorf("reading administrative acts: %w", err)
	}
	defer rows.Close()
	var all []Act
	for rows.Next() {
		a, err := scanAct(rows)
		if err != nil {
			return nil, fmt.Errorf("reading administrative act %d: %w", a.Number, err)
		}
		all = append(all, a)
	}
	return all, rows.Err()
}

// TakeActs says that the audit log has every act up to a number.
func (s *Store) TakeActs(ctx context.Context, number int64) error {
	if _, err := s.db.ExecContext(ctx, "update acts_taken set number = max(number, ?)", number); err != nil {
		return fmt.Errorf("taking over administrative acts: %w", err)
	}
	return nil
}

// ActsTaken returns the number up to which the audit log has the acts.
func (s *Store) ActsTaken(ctx context.Context) (n int64, err error) {
	if err := s.db.QueryRowContext(ctx, "select number from acts_taken").Scan(&n); err != nil {
		return 0, fmt.Errorf("reading administrative acts: %w", err)
	}
	return n, nil
}
