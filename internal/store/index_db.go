package store

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

//go:embed index/sqlite.sql
var sqliteIndex string

//go:embed index/postgres.sql
var postgresIndex string

// dialect is how a database wants to be asked. Whoever reads or writes an index uses one set of statements, with ? for their
// arguments and instr as the only function that is not the same everywhere; this is all that differs.
type dialect struct {
	statement func(string) string
	argument  func(any) any
	snapshot  *sql.TxOptions // of a transaction that reads one state
	// lockDictionaries waits until no other process writes to the dictionaries; "" where there can be none.
	lockDictionaries string
}

var sqlite = &dialect{statement: func(s string) string { return s }, argument: func(v any) any { return v }}

var postgres = &dialect{numbered, withoutNull, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},
	"lock table shape in share row exclusive mode"}

// numbered writes a statement with $1, $2 and so on for its arguments.
func numbered(s string) string {
	var b strings.Builder
	n := 0
	for part := range strings.SplitSeq(strings.ReplaceAll(s, "instr(", "strpos("), "?") {
		if n > 0 {
			b.WriteString("$" + strconv.Itoa(n))
		}
		b.WriteString(part)
		n++
	}
	return b.String()
}

// withoutNull replaces U+0000, which PostgreSQL does not keep in a text.
func withoutNull(v any) any {
	if s, ok := v.(string); ok {
		return strings.ReplaceAll(s, "\x00", "\uFFFD")
	}
	return v
}

// blob takes a field over into the memory of the one before. What reads many blocks would make much garbage without it.
type blob []byte

func (b *blob) Scan(v any) error {
	text, ok := v.([]byte)
	if !ok && v != nil {
		return fmt.Errorf("%w: %T where bytes belong", errDamaged, v)
	}
	*b = append((*b)[:0], text...)
	return nil
}

// queryer is a database, a connection or a transaction.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// speaker is a queryer that is asked in its dialect.
type speaker struct {
	queryer
	dialect *dialect
}

func (s speaker) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return s.queryer.QueryContext(ctx, s.dialect.statement(query), s.dialect.arguments(args)...)
}

func (s speaker) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return s.queryer.QueryRowContext(ctx, s.dialect.statement(query), s.dialect.arguments(args)...)
}

func (s speaker) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return s.queryer.ExecContext(ctx, s.dialect.statement(query), s.dialect.arguments(args)...)
}

func (s speaker) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	return s.queryer.PrepareContext(ctx, s.dialect.statement(query))
}

func (d *dialect) arguments(args []any) []any {
	taken := make([]any, len(args))
	for i, v := range args {
		taken[i] = d.argument(v)
	}
	return taken
}

// beginner is a database or a connection.
type beginner interface {
	queryer
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

// viewed runs f with a transaction that reads one state of an index.
func viewed(ctx context.Context, db *sql.DB, d *dialect, f func(queryer) error) error {
	tx, err := db.BeginTx(ctx, d.snapshot)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // only read
	return f(speaker{tx, d})
}
