package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"interlock/sqlgov"
)

// InsertKey keeps a new API key.
func (s *Store) InsertKey(ctx context.Context, k sqlgov.KeyRecord) error {
	err := s.update(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `insert into keys (id, identity, name, hint, mac, stored_key, server_key, created_at, expires_at, revoked_at)
		values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, k.ID, k.Identity, k.Name, k.Hint, k.MAC, k.StoredKey, k.ServerKey,
			toNanos(k.Created), toNanos(k.Expires), toNanos(k.Revoked))
		if err != nil {
			return err
		}
		return s.named(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("keeping an API key: %w", err)
	}
	return nil
}

// FindKeys returns the keys that a filter selects, oldest first.
func (s *Store) FindKeys(ctx context.Context, f sqlgov.KeyFilter) ([]sqlgov.KeyRecord, error) {
	query := "select id, identity, name, hint, mac, stored_key, server_key, created_at, expires_at, revoked_at from keys where true"
	var args []any
	if f.ID != "" {
		query, args = query+" and id = ?", append(args, f.ID)
	}
	if f.Identity != "" {
		query, args = query+" and identity = ?", append(args, f.Identity)
	}
	if f.MAC != nil {
		query, args = query+" and mac = ?", append(args, f.MAC)
	}
	rows, err := s.db.QueryContext(ctx, query+" order by created_at, id", args...)
	if err != nil {
		return nil, fmt.Errorf("reading API keys: %w", err)
	}
	defer rows.Close()
	var all []sqlgov.KeyRecord
	for rows.Next() {
		k, err := scanKey(rows)
		if err != nil {
			return nil, fmt.Errorf("reading API keys: %w", err)
		}
		all = append(all, k)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading API keys: %w", err)
	}
	return all, nil
}

func scanKey(rows *sql.Rows) (k sqlgov.KeyRecord, err error) {
	var created, expires, revoked sql.NullInt64
	err = rows.Scan(&k.ID, &k.Identity, &k.Name, &k.Hint, &k.MAC, &k.StoredKey, &k.ServerKey, &created, &expires, &revoked)
	k.Created, k.Expires, k.Revoked = fromNanos(created), fromNanos(expires), fromNanos(revoked)
	return k, err
}

// RevokeKey revokes a key for good and returns it as it is then; nil if there is no such key. A key that is revoked
// already keeps its time.
func (s *Store) RevokeKey(ctx context.Context, id string, at time.Time) (*sqlgov.KeyRecord, error) {
	if id == "" {
		return nil, errors.New("revoking an API key: no id given")
	}
	err := s.update(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "update keys set revoked_at = ? where id = ? and revoked_at is null", toNanos(at), id)
		if err != nil {
			return err
		}
		return s.named(ctx, tx)
	})
	if err != nil {
		return nil, fmt.Errorf("revoking an API key: %w", err)
	}
	keys, err := s.FindKeys(ctx, sqlgov.KeyFilter{ID: id})
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	return &keys[0], nil
}
