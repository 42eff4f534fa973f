// Package store persists control data (rulesets, API keys, catalog snapshots) in an embedded SQLite database.
//
// Several processes may have the same store open, the server and the command line among them. Each sees what another
// has committed at its next call, and DataVersion tells at little cost whether there is anything new.
package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // the driver
)

//go:embed migrations/*.sql
var migrations embed.FS

// FileName is the name of the database in the data directory. SQLite keeps two more files beside it.
const FileName = "control.db"

// Store is an open control store. It is safe for concurrent use.
type Store struct {
	// Actor is who uses this store, for the acts that changes leave. It is set before use.
	Actor string

	db *sql.DB

	watch watch
}

// Open opens the store in a data directory, which must exist, and makes or upgrades it as needed. Only the owner can
// read the files.
func Open(ctx context.Context, dir string) (*Store, error) {
	path := filepath.Join(dir, FileName)
	if err := createPrivate(path); err != nil {
		return nil, fmt.Errorf("opening the control store: %w", err)
	}
	// SQLite is not prepared for several processes that make the same database at once.
	unlock, err := lock(ctx, path+".lock")
	if err != nil {
		return nil, fmt.Errorf("opening the control store: %w", err)
	}
	defer unlock()
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		return nil, fmt.Errorf("opening the control store: %w", err)
	}
	db.SetMaxOpenConns(8)
	s := &Store{db: db}
	if err := errors.Join(s.migrate(ctx), s.watch.start(ctx, db, path)); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the control store %s: %w", path, err), s.Close())
	}
	return s, nil
}

// createPrivate makes the file if it does not exist, and refuses one that others can access. A database that exists is
// not opened here: closing it would take away the locks that SQLite holds on it in this process.
func createPrivate(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		return f.Close()
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("%s can be accessed by others (mode %04o); make it 0600", path, mode)
	}
	return nil
}

// lock waits for an exclusive lock on a file of its own, which ends with the process at the latest.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// dsn asks for a lock at the start of each transaction, so that one never fails half-way because another writes, and
// for a durable commit.
func dsn(path string) string {
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "trusted_schema(0)"}}
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode(), OmitHost: true}
	return u.String()
}

// Close closes the store.
func (s *Store) Close() error {
	return errors.Join(s.watch.close(), s.db.Close())
}

// migrate brings the database to the newest schema, each step in a transaction of its own. A database that a newer
// program has made is refused.
func (s *Store) migrate(ctx context.Context) error {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	for {
		done, err := s.migrateStep(ctx, files)
		if done || err != nil {
			return err
		}
	}
}

func (s *Store) migrateStep(ctx context.Context, files []string) (done bool, err error) {
	err = s.update(ctx, func(tx *sql.Tx) error {
		var version int
		if err := tx.QueryRowContext(ctx, "pragma user_version").Scan(&version); err != nil {
			return err
		}
		if version > len(files) {
			return fmt.Errorf("its schema version is %d, but this program knows versions up to %d: use a newer one", version, len(files))
		}
		if done = version == len(files); done {
			return nil
		}
		text, err := migrations.ReadFile(files[version])
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, string(text)); err != nil {
			return fmt.Errorf("%s: %w", files[version], err)
		}
		_, err = tx.ExecContext(ctx, fmt.Sprintf("pragma user_version = %d", version+1))
		return err
	})
	return done, err
}

// update runs f in a transaction, which is committed if f returns nil.
func (s *Store) update(ctx context.Context, f func(*sql.Tx) error) error { return update(ctx, s.db, f) }

func update(ctx context.Context, db *sql.DB, f func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// view runs f in a transaction that sees one state of the store.
func (s *Store) view(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	return errors.Join(f(tx), tx.Rollback())
}

func toNanos(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixNano(), Valid: !t.IsZero()}
}

func fromNanos(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return time.Unix(0, n.Int64).UTC()
}
