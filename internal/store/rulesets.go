package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"interlock/sqlgov/policy"
)

// Applied says how a ruleset came to be in force.
type Applied struct {
	By    string            `json:"by"`    // who applied it
	At    time.Time         `json:"at"`    // set by SaveRuleset
	Texts map[string]string `json:"texts"` // the files that it was read from, by name
}

// RulesetInfo is a line in the history of rulesets.
type RulesetInfo struct {
	Number int64     `json:"number"`
	Digest string    `json:"digest"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
}

// SaveRuleset keeps a ruleset as the newest and sets its Number. If the newest has the same digest already, nothing
// is kept, and the Number is that one's.
func (s *Store) SaveRuleset(ctx context.Context, rs *policy.Ruleset, how Applied) error {
	document, err := json.Marshal(rs.Document)
	if err != nil {
		return fmt.Errorf("keeping the ruleset: %w", err)
	}
	texts, err := json.Marshal(how.Texts)
	if err != nil {
		return fmt.Errorf("keeping the ruleset: %w", err)
	}
	var number int64
	err = s.update(ctx, func(tx *sql.Tx) error {
		var digest string
		err := tx.QueryRowContext(ctx, "select number, digest from rulesets order by number desc limit 1").Scan(&number, &digest)
		if err == nil && digest == rs.Digest {
			return nil
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		result, err := tx.ExecContext(ctx, "insert into rulesets (digest, document, texts, applied_at, applied_by) values (?, ?, ?, ?, ?)",
			rs.Digest, string(document), string(texts), time.Now().UnixNano(), how.By)
		if err != nil {
			return err
		}
		number, err = result.LastInsertId()
		return err
	})
	if err != nil {
		return fmt.Errorf("keeping the ruleset: %w", err)
	}
	rs.Number = number
	return nil
}

// CurrentRuleset returns the newest ruleset, or nil if there is none.
func (s *Store) CurrentRuleset(ctx context.Context) (*policy.Ruleset, Applied, error) {
	return s.ruleset(ctx, "select number, digest, document, texts, applied_at, applied_by from rulesets order by number desc limit 1")
}

// CurrentNumber returns the number of the newest ruleset, or 0 if there is none.
func (s *Store) CurrentNumber(ctx context.Context) (int64, error) {
	var n int64
	if err := s.db.QueryRowContext(ctx, "select coalesce(max(number), 0) from rulesets").Scan(&n); err != nil {
		return 0, fmt.Errorf("looking for the newest ruleset: %w", err)
	}
	return n, nil
}

// Ruleset returns a ruleset by its number, or nil if there is none.
func (s *Store) Ruleset(ctx context.Context, number int64) (*policy.Ruleset, Applied, error) {
	return s.ruleset(ctx, "select number, digest, document, texts, applied_at, applied_by from rulesets where number = ?", number)
}

func (s *Store) ruleset(ctx context.Context, query string, args ...any) (*policy.Ruleset, Applied, error) {
	var number int64
	var digest, document, texts string
	var at sql.NullInt64
	var how Applied
	err := s.db.QueryRowContext(ctx, query, args...).Scan(&number, &digest, &document, &texts, &at, &how.By)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, how, nil
	}
	if err != nil {
		return nil, how, fmt.Errorf("reading a ruleset: %w", err)
	}
	how.At = fromNanos(at)
	rs, err := compile(document, digest)
	if err == nil {
		err = json.Unmarshal([]byte(texts), &how.Texts)
	}
	if err != nil {
		return nil, how, fmt.Errorf("reading ruleset %d: %w", number, err)
	}
	rs.Number = number
	return rs, how, nil
}

// compile makes a ruleset of a kept document, which must still be what the digest says.
func compile(document, digest string) (*policy.Ruleset, error) {
	var doc policy.Document
	if err := json.Unmarshal([]byte(document), &doc); err != nil {
		return nil, err
	}
	rs, err := policy.Compile(&doc)
	if err != nil {
		return nil, err
	}
	if rs.Digest != digest {
		return nil, fmt.Errorf("its digest is %s, but %s was applied", rs.Digest, digest)
	}
	return rs, nil
}

// Rulesets returns the history, newest first, at most limit lines of it.
func (s *Store) Rulesets(ctx context.Context, limit int) ([]RulesetInfo, error) {
	rows, err := s.db.QueryContext(ctx, "select number, digest, applied_by, applied_at from rulesets order by number desc limit ?", limit)
	if err != nil {
		return nil, fmt.Errorf("listing rulesets: %w", err)
	}
	defer rows.Close()
	var all []RulesetInfo
	for rows.Next() {
		var r RulesetInfo
		var at sql.NullInt64
		if err := rows.Scan(&r.Number, &r.Digest, &r.By, &at); err != nil {
			return nil, fmt.Errorf("listing rulesets: %w", err)
		}
		r.At = fromNanos(at)
		all = append(all, r)
	}
	return all, rows.Err()
}
