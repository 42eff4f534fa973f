package store

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"interlock/sqlgov"
)

//go:embed assets/schema.sql
var assetsSchema string

// AssetsName is the name of the search index in the data directory. It is a database of its own, as the audit index is.
const AssetsName = "asset-index.db"

// assetsVersion is written into the database. One of another version is made anew.
const assetsVersion = 1

// Assets is a full-text index of what sources contain: one table of SQLite's FTS5 for each source, made of one version of
// its catalog. It is safe for concurrent use, also by several processes.
type Assets struct {
	db     *sql.DB
	making sync.Mutex // one at a time makes an index
}

// OpenAssets opens the search index in a data directory, and makes it if there is none.
func OpenAssets(ctx context.Context, dir string) (*Assets, error) {
	path := filepath.Join(dir, AssetsName)
	unlock, err := lock(ctx, path+".lock")
	if err != nil {
		return nil, fmt.Errorf("opening the search index: %w", err)
	}
	defer unlock()
	x, err := openAssets(ctx, path)
	if err == nil || ctx.Err() != nil {
		return x, err
	}
	for _, suffix := range []string{"", "-wal", "-shm"} { // it is damaged, or of another version; catalogs fill it again
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("making the search index anew: %w", err)
		}
	}
	return openAssets(ctx, path)
}

func openAssets(ctx context.Context, path string) (*Assets, error) {
	if err := createPrivate(path); err != nil {
		return nil, fmt.Errorf("opening the search index: %w", err)
	}
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(NORMAL)", "trusted_schema(0)", "temp_store(memory)"}}
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode(), OmitHost: true}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, fmt.Errorf("opening the search index: %w", err)
	}
	db.SetMaxOpenConns(4)
	x := &Assets{db: db}
	if err := x.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the search index: %w", err), db.Close())
	}
	return x, nil
}

func (x *Assets) prepare(ctx context.Context) error {
	return update(ctx, x.db, func(tx *sql.Tx) error {
		var version int
		if err := tx.QueryRowContext(ctx, "pragma user_version").Scan(&version); err != nil || version == assetsVersion {
			return err
		}
		if version != 0 {
			return fmt.Errorf("it has version %d, not %d", version, assetsVersion)
		}
		_, err := tx.ExecContext(ctx, assetsSchema+fmt.Sprintf("; pragma user_version = %d", assetsVersion))
		return err
	})
}

// Close closes the index.
func (x *Assets) Close() error { return x.db.Close() }

// maxMakes bounds how often one search makes the index, in case that another process makes it of another version.
const maxMakes = 3

// errOtherVersion says that the index of a source is of another version of its catalog.
var errOtherVersion = errors.New("the search index is being made of another version of the catalog")

// Find implements sqlgov.AssetIndex.
func (x *Assets) Find(ctx context.Context, source, version string, words []string, texts func() []sqlgov.AssetText) ([]sqlgov.AssetHit, error) {
	for made := 0; ; made++ {
		hits, err := x.find(ctx, source, version, words)
		if errors.Is(err, errOtherVersion) && made < maxMakes {
			err = x.make(ctx, source, version, texts)
			if err == nil {
				continue
			}
		}
		if err != nil {
			return nil, fmt.Errorf("searching the assets of source %s: %w", source, err)
		}
		return hits, nil
	}
}

func (x *Assets) find(ctx context.Context, source, version string, words []string) ([]sqlgov.AssetHit, error) {
	tx, err := x.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // it changes nothing
	table, err := assetTable(ctx, tx, source, version)
	if err != nil {
		return nil, err
	}
	hits := []sqlgov.AssetHit{}
	at := map[string]int{}
	take := func(query string, args []any, mark func(*sqlgov.AssetHit)) error {
		return eachAsset(ctx, tx, query, args, func(key string, since time.Time) {
			i, found := at[key]
			if !found {
				i, at[key] = len(hits), len(hits)
				hits = append(hits, sqlgov.AssetHit{Key: key, Since: since})
			}
			mark(&hits[i])
		})
	}
	if len(words) == 0 {
		return hits, take("select key, since from "+table, nil, func(*sqlgov.AssetHit) {})
	}
	matching := "select key, since from " + table + " where " + table + " match ?"
	for i, word := range words {
		err := errors.Join(
			take(matching, []any{"name : " + beginning(word)}, func(h *sqlgov.AssetHit) { h.InName |= 1 << i }),
			take(matching, []any{"comment : " + beginning(word)}, func(h *sqlgov.AssetHit) { h.InComment |= 1 << i }))
		if err != nil {
			return nil, err
		}
	}
	return hits, nil
}

// beginning is a word as FTS5 looks for it, at the beginning of another one unless it is very short.
func beginning(word string) string {
	quoted := `"` + strings.ReplaceAll(word, `"`, `""`) + `"`
	if utf8.RuneCountInString(word) < 3 {
		return quoted
	}
	return quoted + "*"
}

func eachAsset(ctx context.Context, tx *sql.Tx, query string, args []any, yield func(key string, since time.Time)) error {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		var since sql.NullInt64
		if err := rows.Scan(&key, &since); err != nil {
			return err
		}
		yield(key, fromNanos(since))
	}
	return rows.Err()
}

// assetTable returns the name of the table of a source, if it is of a version of its catalog.
func assetTable(ctx context.Context, tx *sql.Tx, source, version string) (string, error) {
	var id int64
	err := tx.QueryRowContext(ctx, "select id from sources where source = ? and version = ?", source, version).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return "", errOtherVersion
	}
	return fmt.Sprintf("assets_%d", id), err
}

// make fills a new table, which takes the place of the source's old one. What has the same text as there keeps its time.
func (x *Assets) make(ctx context.Context, source, version string, texts func() []sqlgov.AssetText) error {
	x.making.Lock()
	defer x.making.Unlock()
	return update(ctx, x.db, func(tx *sql.Tx) error {
		if _, err := assetTable(ctx, tx, source, version); !errors.Is(err, errOtherVersion) {
			return err // made while this one waited
		}
		since, err := dropAssets(ctx, tx, source)
		if err != nil {
			return err
		}
		made, err := tx.ExecContext(ctx, "insert into sources (source, version) values (?, ?)", source, version)
		if err != nil {
			return err
		}
		id, err := made.LastInsertId()
		if err != nil {
			return err
		}
		return fillAssets(ctx, tx, fmt.Sprintf("assets_%d", id), texts(), since)
	})
}

// dropAssets removes the table of a source, and returns since when it had each text.
func dropAssets(ctx context.Context, tx *sql.Tx, source string) (map[sqlgov.AssetText]sql.NullInt64, error) {
	since := map[sqlgov.AssetText]sql.NullInt64{}
	var id int64
	err := tx.QueryRowContext(ctx, "select id from sources where source = ?", source).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return since, nil
	}
	if err != nil {
		return nil, err
	}
	table := fmt.Sprintf("assets_%d", id)
	rows, err := tx.QueryContext(ctx, "select key, name, comment, since from "+table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var t sqlgov.AssetText
		var at sql.NullInt64
		if err := rows.Scan(&t.Key, &t.Name, &t.Comment, &at); err != nil {
			return nil, err
		}
		since[t] = at
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, "delete from sources where id = ?", id); err != nil {
		return nil, err
	}
	_, err = tx.ExecContext(ctx, "drop table "+table)
	return since, err
}

func fillAssets(ctx context.Context, tx *sql.Tx, table string, texts []sqlgov.AssetText, since map[sqlgov.AssetText]sql.NullInt64) error {
	_, err := tx.ExecContext(ctx, "create virtual table "+table+
		" using fts5 (name, comment, key unindexed, since unindexed, tokenize = 'porter unicode61 remove_diacritics 2', prefix = '3')")
	if err != nil {
		return err
	}
	insert, err := tx.PrepareContext(ctx, "insert into "+table+" (key, name, comment, since) values (?, ?, ?, ?)")
	if err != nil {
		return err
	}
	defer insert.Close()
	now := toNanos(time.Now())
	for _, t := range texts {
		at, known := since[t]
		if !known {
			at = now
		}
		if _, err := insert.ExecContext(ctx, t.Key, t.Name, t.Comment, at); err != nil {
			return err
		}
	}
	return nil
}
