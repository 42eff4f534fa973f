package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// DataVersion returns a number that differs from the one before if anything was committed to the store in between, by
// this or by another process. It is meant for the path of every statement: while nothing is committed it costs the
// reading of a few bytes that are in memory.
func (s *Store) DataVersion(context.Context) (int64, error) {
	version, err := s.watch.look()
	if err != nil {
		return 0, fmt.Errorf("looking for changes in the control store: %w", err)
	}
	return version, nil
}

// watch tells if anything was committed to the database.
type watch struct {
	mu      sync.Mutex
	conn    *sql.Conn // used for this alone: SQLite counts the commits of other connections
	version *sql.Stmt
	index   []byte // the index of the write-ahead log, which all connections share
	seen    atomic.Pointer[seenVersion]
	closed  atomic.Bool
}

// seenVersion is a data version with what the index of the write-ahead log began with just before it was asked for.
type seenVersion struct {
	header  walHeader
	version int64
}

// walHeader is the beginning of the index of the write-ahead log: two copies of a header that every commit changes, and by
// which other connections learn of the commit (sqlite.org, "WAL-mode File Format", section 2).
type walHeader [96]byte

func (w *watch) start(ctx context.Context, db *sql.DB, path string) (err error) {
	if w.conn, err = db.Conn(ctx); err != nil {
		return err
	}
	if w.version, err = w.conn.PrepareContext(ctx, "pragma data_version"); err != nil {
		return err
	}
	w.index, err = mapForGood(path + "-shm")
	return err
}

func (w *watch) look() (int64, error) {
	if w.closed.Load() {
		return 0, sql.ErrConnDone
	}
	now := walHeader(w.index) // half of it may be of a commit under way: then it is unlike any that is remembered for long
	if seen := w.seen.Load(); seen != nil && seen.header == now {
		return seen.version, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var version int64
	// A context that can end would cost a goroutine. Nothing here waits: readers are not blocked by writers.
	if err := w.version.QueryRowContext(context.Background()).Scan(&version); err != nil {
		return 0, err
	}
	w.seen.Store(&seenVersion{now, version})
	return version, nil
}

func (w *watch) close() (err error) {
	w.closed.Store(true)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.version != nil {
		err = w.version.Close()
	}
	if w.conn != nil {
		err = errors.Join(err, w.conn.Close())
	}
	return err
}

// mapped are the files that mapForGood has mapped, by what they are.
var mapped struct {
	mu    sync.Mutex
	files map[fileID][]byte
}

type fileID struct{ device, inode uint64 }

// mapForGood maps the beginning of a file on which SQLite holds locks. It is never closed, and opened once only: when a
// process closes any descriptor of a file, it loses all its locks on the file (fcntl(2)), those of SQLite as well. SQLite does
// not shorten the file while anybody has the database open.
func mapForGood(path string) ([]byte, error) {
	mapped.mu.Lock()
	defer mapped.mu.Unlock()
	var stat syscall.Stat_t
	if err := syscall.Stat(path, &stat); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	id := fileID{uint64(stat.Dev), stat.Ino}
	if m := mapped.files[id]; m != nil {
		return m, nil
	}
	if stat.Size < int64(len(walHeader{})) {
		return nil, fmt.Errorf("%s is too short", path)
	}
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	m, err := syscall.Mmap(fd, 0, len(walHeader{}), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, &os.PathError{Op: "mmap", Path: path, Err: err}
	}
	if mapped.files == nil {
		mapped.files = make(map[fileID][]byte)
	}
	mapped.files[id] = m
	return m, nil
}
