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
	index   *os.File // of the write-ahead log, which all connections share
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
	w.index, err = openForGood(path + "-shm")
	return err
}

func (w *watch) look() (int64, error) {
	if w.closed.Load() {
		return 0, sql.ErrConnDone
	}
	var now walHeader
	if _, err := w.index.ReadAt(now[:], 0); err != nil {
		return 0, err
	}
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

// opened are the files that openForGood has opened, by what they are.
var opened struct {
	mu    sync.Mutex
	files map[fileID]*os.File
}

type fileID struct{ device, inode uint64 }

// openForGood opens a file on which SQLite holds locks. It is never closed, and opened once only: when a process closes any
// descriptor of a file, it loses all its locks on the file (fcntl(2)), those of SQLite as well.
func openForGood(path string) (*os.File, error) {
	opened.mu.Lock()
	defer opened.mu.Unlock()
	var stat syscall.Stat_t
	if err := syscall.Stat(path, &stat); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	id := fileID{uint64(stat.Dev), stat.Ino}
	if f := opened.files[id]; f != nil {
		return f, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if opened.files == nil {
		opened.files = make(map[fileID]*os.File)
	}
	opened.files[id] = f
	return f, nil
}
