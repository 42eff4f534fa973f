package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"interlock/audit"
)

// IndexName is the name of the audit index in the data directory. It is a database of its own: it changes all the time,
// and every change of the control store makes the gateway read its keys again.
const IndexName = "audit-index.db"

// indexVersion is written into the database. One of another version is made anew.
const indexVersion = 8

// Index finds requests in an audit log. It is safe for concurrent use; one process at a time writes it.
type Index struct {
	follower
	db        *sql.DB
	blockRows int // of a block that is full: maxBlockRows, or fewer in tests
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
	return openIndex(ctx, path, mappedFile)
}

// mappedFile reads a file by way of memory, which costs half as much. An error of the disk then ends the program, so it is for
// commands, and not for the gateway.
const mappedFile = "mmap_size(2000000000)"

func openIndex(ctx context.Context, path string, pragmas ...string) (*Index, error) {
	if err := createPrivate(path); err != nil {
		return nil, fmt.Errorf("opening the audit index: %w", err)
	}
	q := url.Values{"_pragma": append(pragmas, "busy_timeout(10000)", "page_size(16384)", "journal_mode(WAL)", "synchronous(NORMAL)",
		"cache_size(-8192)", "trusted_schema(0)", "temp_store(memory)")}
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode(), OmitHost: true}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, fmt.Errorf("opening the audit index: %w", err)
	}
	db.SetMaxOpenConns(4)
	x := &Index{db: db, blockRows: maxBlockRows}
	x.claim = func(ctx context.Context, _ string) (*indexWriter, error) {
		w := &indexWriter{conn: db, dialect: sqlite, bytes: indexBytes}
		return w, w.resume(ctx, x.blockRows)
	}
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
	if _, err := tx.ExecContext(ctx, sqliteIndex+fmt.Sprintf("; pragma user_version = %d", indexVersion)); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// Close closes the index.
func (x *Index) Close() error { return errors.Join(x.end(), x.db.Close()) }

// Position returns how far the index has come.
func (x *Index) Position(ctx context.Context) (audit.Cursor, error) {
	m, err := markOf(ctx, speaker{x.db, sqlite}, 0, "cursor")
	if err != nil {
		return m.Cursor, fmt.Errorf("reading the audit index: %w", err)
	}
	return m.Cursor, nil
}

// mark is a place in a log, with the hash of the entry before.
type mark struct {
	audit.Cursor
	Hash string `json:"hash,omitempty"`
}

// markOf reads a mark of a part; it is the beginning of the log if there is none.
func markOf(ctx context.Context, db queryer, part int64, key string) (m mark, err error) {
	var text string
	err = db.QueryRowContext(ctx, "select value from meta where part = ? and key = ?", part, key).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return m, nil
	}
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal([]byte(text), &m)
}

// hash64 is how names that are looked up one at a time are indexed; what is found is compared in full. It is never 0.
func hash64(s string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s))
	return int64(h.Sum64() | 1)
}

// Forget removes what was pruned from the log: the full blocks up to an entry. What statistics need of them stays.
func (x *Index) Forget(ctx context.Context, to uint64) error {
	err := forget(ctx, speaker{x.db, sqlite}, 0, to)
	if err != nil {
		return fmt.Errorf("pruning the audit index: %w", err)
	}
	return nil
}

func forget(ctx context.Context, db queryer, part int64, to uint64) error {
	sealed, err := markOf(ctx, db, part, "sealed")
	if err == nil {
		_, err = db.ExecContext(ctx, "update block set traces = ?, keys = ?, details = ?, places = ? where part = ? and last <= ? and length(keys) > 0",
			[]byte{}, []byte{}, []byte{}, []byte{}, part, min(to, sealed.Seq))
	}
	if err == nil {
		_, err = db.ExecContext(ctx, "update loose set segment = 0 where part = ? and seq <= ?", part, to)
	}
	return err
}
