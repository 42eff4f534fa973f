package store

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"interlock/audit"
)

//go:embed index/schema.sql
var indexSchema string

// IndexName is the name of the audit index in the data directory. It is a database of its own: it changes all the time,
// and every change of the control store makes the gateway read its keys again.
const IndexName = "audit-index.db"

// indexVersion is written into the database. One of another version is made anew.
const indexVersion = 6

// Index finds requests in an audit log. It is safe for concurrent use; one process at a time writes it.
type Index struct {
	db        *sql.DB
	path      string
	blockRows int // of a block that is full: maxBlockRows, or fewer in tests

	writing sync.Mutex // protects the following
	w       *indexWriter
}

// OpenIndex opens the index in a data directory to write it, and makes it if there is none.
func OpenIndex(ctx context.Context, dir string) (*Index, error) {
	path := filepath.Join(dir, IndexName)
	unlock, err := lock(ctx, path+".lock")
	if err != nil {
		return nil, fmt.Errorf("opening the audit index: %w", err)
	}
	defer unlock()
	x, err := openIndex(ctx, path)
	if err == nil {
		return x, nil
	}
	if ctx.Err() != nil {
		return nil, err
	}
	// It is damaged, or of another version: everything in it is in the log.
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("making the audit index anew: %w", err)
		}
	}
	return openIndex(ctx, path)
}

// ReadIndex opens an index that exists to read it; the error wraps fs.ErrNotExist if there is none.
func ReadIndex(ctx context.Context, dir string) (*Index, error) {
	path := filepath.Join(dir, IndexName)
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("opening the audit index: %w", err)
	}
	return openIndex(ctx, path)
}

func openIndex(ctx context.Context, path string) (*Index, error) {
	if err := createPrivate(path); err != nil {
		return nil, fmt.Errorf("opening the audit index: %w", err)
	}
	q := url.Values{"_pragma": {"busy_timeout(10000)", "page_size(16384)", "journal_mode(WAL)", "synchronous(NORMAL)", "cache_size(-8192)",
		"trusted_schema(0)", "temp_store(memory)"}}
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode(), OmitHost: true}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, fmt.Errorf("opening the audit index: %w", err)
	}
	db.SetMaxOpenConns(4)
	x := &Index{db: db, path: path, blockRows: maxBlockRows}
	if err := x.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the audit index: %w", err), db.Close())
	}
	return x, nil
}

func (x *Index) prepare(ctx context.Context) error {
	var version int
	if err := x.db.QueryRowContext(ctx, "pragma user_version").Scan(&version); err != nil {
		return err
	}
	if version == indexVersion {
		return nil
	}
	if version != 0 {
		return fmt.Errorf("it has version %d, not %d", version, indexVersion)
	}
	tx, err := x.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, indexSchema+fmt.Sprintf("; pragma user_version = %d", indexVersion)); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// Close closes the index.
func (x *Index) Close() error { return x.db.Close() }

// Position returns how far the index has come.
func (x *Index) Position(ctx context.Context) (audit.Cursor, error) {
	c, err := cursorOf(ctx, x.db, "cursor")
	if err != nil {
		return c, fmt.Errorf("reading the audit index: %w", err)
	}
	return c, nil
}

// queryer is a database or a transaction.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// cursorOf reads a cursor; it is the beginning of the log if there is none.
func cursorOf(ctx context.Context, db queryer, key string) (c audit.Cursor, err error) {
	var text string
	err = db.QueryRowContext(ctx, "select value from meta where key = ?", key).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal([]byte(text), &c)
}

// hash64 is how names that are looked up one at a time are indexed; what is found is compared in full. It is never 0.
func hash64(s string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s))
	return int64(h.Sum64() | 1)
}

// Follow keeps the index up with a log until ctx ends. limit returns the last entry to take.
func (x *Index) Follow(ctx context.Context, logDir string, limit func() uint64, failed func(error)) {
	tick := time.NewTicker(indexInterval)
	defer tick.Stop()
	for {
		more, err := x.CatchUp(ctx, logDir, limit())
		if err != nil && ctx.Err() == nil {
			failed(err)
		}
		if more && err == nil && ctx.Err() == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

const (
	indexInterval = time.Second
	indexBytes    = 16 << 20 // of the log in one transaction
)

// CatchUp takes the next part of a log, up to entry last (0: to the end), and reports if there may be more.
func (x *Index) CatchUp(ctx context.Context, logDir string, last uint64) (more bool, err error) {
	x.writing.Lock()
	defer x.writing.Unlock()
	if x.w == nil {
		if x.w, err = newIndexWriter(ctx, x); err != nil {
			return false, fmt.Errorf("writing the audit index: %w", err)
		}
	}
	if last > 0 && x.w.next.Seq >= last {
		return false, nil
	}
	if more, err = x.w.take(ctx, logDir, last); err != nil {
		x.w = nil // what it remembers may not be in the database
		return false, fmt.Errorf("writing the audit index: %w", err)
	}
	return more, nil
}

// Forget removes what was pruned from the log: the full blocks up to an entry. What statistics need of them stays.
func (x *Index) Forget(ctx context.Context, to uint64) error {
	sealed, err := cursorOf(ctx, x.db, "sealed")
	if err == nil {
		_, err = x.db.ExecContext(ctx, "update block set traces = x'', keys = x'', places = x'' where last <= ?", min(to, sealed.Seq))
	}
	if err == nil {
		_, err = x.db.ExecContext(ctx, "update loose set segment = 0 where seq <= ?", to)
	}
	if err != nil {
		return fmt.Errorf("pruning the audit index: %w", err)
	}
	return nil
}
