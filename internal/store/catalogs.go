package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"interlock/catalog"
)

// keptCatalogs is how many snapshots of a source are kept.
const keptCatalogs = 20

// SaveCatalog keeps a snapshot, and lets go of the oldest of its source when there are too many. A snapshot with the
// same content as the source's newest takes its place.
func (s *Store) SaveCatalog(ctx context.Context, snap *catalog.Snapshot) error {
	content, err := snap.Encode()
	if err != nil {
		return err
	}
	err = s.update(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `delete from catalogs where version = ? and id = (
			select id from catalogs where source = ? order by scanned_at desc, id desc limit 1)`, snap.Version, snap.Source)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "insert into catalogs (source, version, scanned_at, content) values (?, ?, ?, ?)",
			snap.Source, snap.Version, snap.ScannedAt.UnixNano(), content)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `delete from catalogs where source = ? and id not in (
			select id from catalogs where source = ? order by scanned_at desc, id desc limit ?)`, snap.Source, snap.Source, keptCatalogs)
		return err
	})
	if err != nil {
		return fmt.Errorf("keeping the catalog of source %s: %w", snap.Source, err)
	}
	return nil
}

// LatestCatalog returns the newest snapshot of a source, or nil if there is none.
func (s *Store) LatestCatalog(ctx context.Context, source string) (*catalog.Snapshot, error) {
	return s.snapshot(ctx, "select content from catalogs where source = ? order by scanned_at desc, id desc limit 1", source)
}

// NewerCatalog returns the newest snapshot of a source if it was scanned after the time given, else nil.
func (s *Store) NewerCatalog(ctx context.Context, source string, after time.Time) (*catalog.Snapshot, error) {
	if after.IsZero() {
		return s.LatestCatalog(ctx, source)
	}
	return s.snapshot(ctx, "select content from catalogs where source = ? and scanned_at > ? order by scanned_at desc, id desc limit 1",
		source, after.UnixNano())
}

// Catalog returns the snapshot of a version, or nil if it is not kept anymore.
func (s *Store) Catalog(ctx context.Context, version string) (*catalog.Snapshot, error) {
	return s.snapshot(ctx, "select content from catalogs where version = ? order by id desc limit 1", version)
}

func (s *Store) snapshot(ctx context.Context, query string, args ...any) (*catalog.Snapshot, error) {
	var content []byte
	err := s.db.QueryRowContext(ctx, query, args...).Scan(&content)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading a catalog: %w", err)
	}
	return catalog.Decode(content)
}
