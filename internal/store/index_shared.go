package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"path"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"interlock/audit"
)

// sharedVersion is written into an index that nodes share. One of another version is refused.
const sharedVersion = 2

// Why a node cannot go on with its part of an index that nodes share. Each says what to do.
var (
	ErrSharedVersion = errors.New("it has another version than this program knows: let all nodes run the same program, or drop schema interlock_audit, which every node then fills again from its log")
	ErrSharedTaken   = errors.New("another process writes the part of this log: one node has one log, and two nodes must not have copies of the same data directory")
	ErrSharedOther   = errors.New(`it was written from another log with the same signing key: if that one is gone, stop the gateway and run "interlock audit reindex --shared"`)
	ErrNoShared      = errors.New("the database has no shared audit index yet: start a gateway with audit.shared_index")
)

// SharedReason is what is to be done about an error of a shared index; "" if the database is to be looked at.
func SharedReason(err error) string {
	for _, e := range []error{ErrSharedVersion, ErrSharedTaken, ErrSharedOther} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	return ""
}

const (
	sharedConnect = 10 * time.Second // for a connection
	sharedTimeout = 2 * time.Minute  // for a part of the log
	sharedBytes   = 4 << 20          // of the log in one transaction
	sharedLock    = 0x494c4158       // the first of the two keys of advisory locks; the second is the part, 0 the schema
)

// session is how a connection is set up. A server that is not told when a connection was lost finds out within a minute, so that
// the lock on a part does not outlive its holder.
const session = `set search_path = interlock_audit; set application_name = 'interlock audit index'; set statement_timeout = '60s';
	set lock_timeout = '30s'; set idle_in_transaction_session_timeout = '120s'; set default_transaction_isolation = 'read committed';
	set tcp_keepalives_idle = 20; set tcp_keepalives_interval = 10; set tcp_keepalives_count = 3`

// sharedDB makes the way to the database of a connection string, without connecting. The string does not appear in errors.
func sharedDB(dsn string) (*sql.DB, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, errors.New("the connection string of the shared audit index cannot be read: it is to be a URL postgres://... or have the form of libpq")
	}
	if err := checkTransport(cfg); err != nil {
		return nil, err
	}
	if cfg.ConnectTimeout == 0 || cfg.ConnectTimeout > sharedConnect {
		cfg.ConnectTimeout = sharedConnect
	}
	db := stdlib.OpenDB(*cfg, stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.PgConn().Exec(ctx, session).ReadAll()
		return err
	}))
	db.SetMaxOpenConns(2)
	db.SetMaxIdleConns(0)
	return db, nil
}

// checkTransport refuses servers on other machines that do not prove who they are.
func checkTransport(cfg *pgx.ConnConfig) error {
	ways := append([]*pgconn.FallbackConfig{{Host: cfg.Host, TLSConfig: cfg.TLSConfig}}, cfg.Fallbacks...)
	for _, w := range ways {
		ip := net.ParseIP(w.Host)
		if path.IsAbs(w.Host) || w.Host == "localhost" || ip != nil && ip.IsLoopback() {
			continue
		}
		if t := w.TLSConfig; t == nil || t.InsecureSkipVerify && t.VerifyPeerCertificate == nil && t.VerifyConnection == nil {
			return errors.New("the server of the shared audit index is on another machine: its connection string needs sslmode=verify-full or sslmode=verify-ca")
		}
	}
	return nil
}

// SharedPart writes the requests of one log into the index that nodes share. It is safe for concurrent use.
type SharedPart struct {
	follower
	db        *sql.DB
	log, node string
	blockRows int
}

// OpenSharedPart makes the part of a log, which is known by log and shown as node. It does not wait for the database.
func OpenSharedPart(dsn, log, node string) (*SharedPart, error) {
	db, err := sharedDB(dsn)
	if err != nil {
		return nil, err
	}
	p := &SharedPart{db: db, log: log, node: node, blockRows: maxBlockRows}
	p.timeout = sharedTimeout
	p.claim = func(ctx context.Context, logDir string) (*indexWriter, error) { return p.begin(ctx, logDir, false) }
	return p, nil
}

// Close gives the part up.
func (p *SharedPart) Close() error { return errors.Join(p.end(), p.db.Close()) }

// Reset throws the part away. It is made again from the beginning of the log.
func (p *SharedPart) Reset(ctx context.Context, logDir string) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	err := p.leave()
	if err == nil {
		p.w, err = p.begin(ctx, logDir, true)
	}
	if err != nil {
		return fmt.Errorf("making the part of the shared audit index anew: %w", err)
	}
	return nil
}

// Position returns the last entry that is in the index; 0 if there is none.
func (p *SharedPart) Position(ctx context.Context) (uint64, error) {
	var m mark
	err := sharedExists(ctx, p.db)
	if errors.Is(err, ErrNoShared) {
		return 0, nil
	}
	var part int64
	if err == nil {
		err = p.db.QueryRowContext(ctx, "select id from part where log = $1", p.log).Scan(&part)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err == nil {
		m, err = markOf(ctx, speaker{p.db, postgres}, part, "cursor")
	}
	if err != nil {
		return 0, fmt.Errorf("reading the shared audit index: %w", err)
	}
	return m.Seq, nil
}

// begin begins to write the part, on a connection of its own that holds the lock on it as long as it lasts.
func (p *SharedPart) begin(ctx context.Context, logDir string, anew bool) (w *indexWriter, err error) {
	conn, err := p.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	w = &indexWriter{conn: conn, dialect: postgres, bytes: sharedBytes, texts: &textWriter{}, release: func() error { return discard(conn) }}
	if err = makeShared(ctx, conn); err == nil {
		w.part, err = p.lock(ctx, conn)
	}
	if err == nil && anew {
		err = w.clear(ctx)
	}
	if err == nil {
		err = w.continues(ctx, logDir)
	}
	if err == nil {
		err = w.resume(ctx, p.blockRows)
	}
	if err != nil {
		return nil, errors.Join(err, discard(conn))
	}
	return w, nil
}

// discard ends a connection, and with it the locks that it holds.
func discard(conn *sql.Conn) error {
	ctx, done := context.WithTimeout(context.Background(), 5*time.Second)
	defer done()
	_, _ = conn.ExecContext(ctx, "select pg_advisory_unlock_all()") // sooner than the server sees that it is closed
	err := conn.Raw(func(any) error { return driver.ErrBadConn })
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
		return nil
	}
	return err
}

// lock finds the part or makes it, and keeps others from writing it.
func (p *SharedPart) lock(ctx context.Context, conn *sql.Conn) (part int64, err error) {
	if _, err = conn.ExecContext(ctx, "insert into part (log, node) values ($1, $2) on conflict do nothing", p.log, p.node); err != nil {
		return 0, err
	}
	var mine bool
	err = conn.QueryRowContext(ctx, "select id, pg_try_advisory_lock($2::int, id::int) from part where log = $1", p.log, int64(sharedLock)).Scan(&part, &mine)
	if err != nil {
		return 0, err
	}
	if !mine {
		return 0, ErrSharedTaken
	}
	_, err = conn.ExecContext(ctx, "update part set node = $2 where id = $1 and node <> $2", part, p.node)
	return part, err
}

// clear removes everything of the part.
func (w *indexWriter) clear(ctx context.Context) error {
	tx, err := w.conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for _, table := range []string{"meta", "block", "counts", "loose", "session", "chunk", "loose_text"} {
		if _, err := tx.ExecContext(ctx, "delete from "+table+" where part = $1", w.part); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

// continues refuses a log that does not go on from where the part has come.
func (w *indexWriter) continues(ctx context.Context, logDir string) error {
	m, err := markOf(ctx, speaker{w.conn, w.dialect}, w.part, "cursor")
	if err != nil {
		return err
	}
	same, err := audit.Continues(logDir, m.Cursor, m.Hash)
	if err == nil && !same {
		err = ErrSharedOther
	}
	return err
}

// forgetPruned removes what was pruned from the log since, if the part is apart from the log.
func (w *indexWriter) forgetPruned(ctx context.Context, logDir string) error {
	if w.texts == nil {
		return nil
	}
	first, err := audit.First(logDir)
	if err != nil || first <= w.pruned+1 {
		return err
	}
	tx, err := w.conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := w.forget(ctx, tx, first-1); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	w.pruned = first - 1
	return nil
}

func (w *indexWriter) forget(ctx context.Context, tx *sql.Tx, to uint64) error {
	if err := forget(ctx, speaker{tx, w.dialect}, w.part, to); err != nil {
		return err
	}
	for _, do := range []string{
		"delete from chunk where part = $1 and first in (select first from block where part = $1 and last <= $2 and length(keys) = 0)",
		"delete from loose_text where part = $1 and seq <= $2",
		`insert into meta values ($1, 'pruned', json_build_object('seq', $2::bigint)::text) on conflict (part, key) do update set value = excluded.value`,
	} {
		if _, err := tx.ExecContext(ctx, do, w.part, to); err != nil {
			return err
		}
	}
	return nil
}

// sharedExists checks that a database has an index of this version.
func sharedExists(ctx context.Context, db queryer) error {
	var there bool
	if err := db.QueryRowContext(ctx, "select to_regclass('interlock_audit.version') is not null").Scan(&there); err != nil {
		return err
	}
	if !there {
		return ErrNoShared
	}
	var version int
	if err := db.QueryRowContext(ctx, "select number from interlock_audit.version").Scan(&version); err != nil {
		return err
	}
	if version != sharedVersion {
		return ErrSharedVersion
	}
	return nil
}

// makeShared makes the index in a database that has none.
func makeShared(ctx context.Context, conn *sql.Conn) error {
	if err := sharedExists(ctx, conn); !errors.Is(err, ErrNoShared) {
		return err
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err = makeSchema(ctx, tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func makeSchema(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, "select pg_advisory_xact_lock($1::int, 0)", int64(sharedLock)); err != nil {
		return err
	}
	if err := sharedExists(ctx, tx); !errors.Is(err, ErrNoShared) {
		return err // another node was quicker
	}
	var schema bool // it may be there already, made by somebody who may make one
	if err := tx.QueryRowContext(ctx, "select to_regnamespace('interlock_audit') is not null").Scan(&schema); err != nil {
		return err
	}
	if !schema {
		if _, err := tx.ExecContext(ctx, "create schema interlock_audit"); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, postgresIndex+fmt.Sprintf("create table version (number integer not null); insert into version values (%d)", sharedVersion))
	return err
}
