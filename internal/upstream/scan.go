package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"interlock/catalog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// oldestServer is the first version with subscript handlers and multiranges in its catalog.
const oldestServer = 140000

// scanAttempts is how often a scan starts again when DDL that committed meanwhile broke it.
const scanAttempts = 10

// Scan reads what the database of conn contains, in one read-only REPEATABLE READ transaction. The login needs no
// privilege beyond CONNECT. Definitions are printed under fixed settings, so that equal content gives equal text; the
// SearchPath is the one that the session had. Temporary schemas are left out, and so is what pg_toast holds.
//
// Printing a view's definition locks the tables that it reads in ACCESS SHARE mode until the scan ends, so a scan waits,
// up to five seconds, for DDL that holds them. conn must be idle, outside a transaction, and used by nobody else meanwhile.
func Scan(ctx context.Context, conn *pgx.Conn, source string) (*catalog.Snapshot, error) {
	for attempt := 1; ; attempt++ {
		s, err := scanOnce(ctx, conn)
		if err == nil {
			s.Source = source
			s.ScannedAt = time.Now().UTC()
			s.Version, err = s.ContentVersion()
		}
		if err == nil {
			return s, nil
		}
		if attempt == scanAttempts || !brokenByDDL(err) {
			return nil, fmt.Errorf("scanning the catalog of source %q: %w", source, err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("scanning the catalog of source %q: %w", source, ctx.Err())
		case <-time.After(time.Duration(attempt) * 20 * time.Millisecond):
		}
	}
}

// brokenByDDL reports if a function that prints definitions met an object that was dropped after the transaction's snapshot was
// taken: those functions look at the present, not at the snapshot.
func brokenByDDL(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	return pg.Code == "XX000" || pg.Code == "42P01" || pg.Code == "42704" || pg.Code == "42883"
}

func scanOnce(ctx context.Context, conn *pgx.Conn) (*catalog.Snapshot, error) {
	// With another transaction open, BEGIN would only warn, and the scan would see what that one sees.
	if status := conn.PgConn().TxStatus(); status != 'I' {
		return nil, fmt.Errorf("the connection is inside a transaction (status %q)", status)
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, fmt.Errorf("beginning: %w", err)
	}
	// After Commit there is nothing to roll back; otherwise an error is on its way already.
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()

	s := &catalog.Snapshot{}
	if err := readSession(ctx, conn, s); err != nil {
		return nil, err
	}
	if s.ServerNum < oldestServer {
		return nil, fmt.Errorf("the server is PostgreSQL %s; 14 is the oldest supported", s.ServerVersion)
	}
	if err := readObjects(ctx, conn, s); err != nil {
		return nil, err
	}
	if err := tx.Commit(ctx); err != nil {
		return nil, fmt.Errorf("committing: %w", err)
	}
	return s, nil
}

// readSession reads what depends on the session's own settings, then replaces those by fixed ones until the end of
// the transaction.
func readSession(ctx context.Context, conn *pgx.Conn, s *catalog.Snapshot) error {
	type session struct {
		Database      string   `json:"database"`
		ServerVersion string   `json:"server_version"`
		ServerNum     int      `json:"server_num"`
		SearchPath    []string `json:"search_path"`
	}
	found, err := readRows[session](ctx, conn, "session", sessionSQL)
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return fmt.Errorf("reading session: %d rows", len(found))
	}
	s.Database, s.ServerVersion, s.ServerNum = found[0].Database, found[0].ServerVersion, found[0].ServerNum
	s.SearchPath = found[0].SearchPath
	if _, err := conn.PgConn().Exec(ctx, settingsSQL).ReadAll(); err != nil {
		return fmt.Errorf("fixing settings: %w", err)
	}
	return nil
}

// readObjects fills everything else of the snapshot, each kind in a fixed order.
func readObjects(ctx context.Context, conn *pgx.Conn, s *catalog.Snapshot) error {
	logins, err := readRows[catalog.Login](ctx, conn, "login", loginSQL)
	if err != nil {
		return err
	}
	if len(logins) != 1 {
		return fmt.Errorf("reading login: %d rows", len(logins))
	}
	s.Login = logins[0]
	read := reader{conn: conn}
	// First, because it prints definitions: the sooner, the less DDL there is to break it.
	s.Relations = rowsOf[catalog.Relation](ctx, &read, "relations", relationsSQL)
	s.Keywords = rowsOf[catalog.Keyword](ctx, &read, "keywords", keywordsSQL)
	s.Schemas = rowsOf[catalog.Schema](ctx, &read, "schemas", schemasSQL)
	s.Types = rowsOf[catalog.Type](ctx, &read, "types", typesSQL)
	s.Functions = rowsOf[catalog.Function](ctx, &read, "functions", functionsSQL)
	s.Operators = rowsOf[catalog.Operator](ctx, &read, "operators", operatorsSQL)
	s.Casts = rowsOf[catalog.Cast](ctx, &read, "casts", castsSQL)
	s.Extensions = rowsOf[catalog.Extension](ctx, &read, "extensions", extensionsSQL)
	s.Collations = rowsOf[catalog.Collation](ctx, &read, "collations", collationsSQL)
	columns := rowsOf[relationColumn](ctx, &read, "columns", columnsSQL)
	constraints := rowsOf[relationConstraint](ctx, &read, "constraints", constraintsSQL)
	indexes := rowsOf[relationIndex](ctx, &read, "unique indexes", uniqueIndexesSQL)
	parts := rowsOf[relationPart](ctx, &read, "parts", partsSQL)
	if read.err != nil {
		return read.err
	}
	if err := attach(s.Relations, columns, constraints, indexes); err != nil {
		return err
	}
	return attachParts(s.Relations, parts)
}

type relationColumn struct {
	Of catalog.OID `json:"of"`
	catalog.Column
}

type relationConstraint struct {
	Of catalog.OID `json:"of"`
	catalog.Constraint
}

type relationIndex struct {
	Of catalog.OID `json:"of"`
	catalog.UniqueIndex
}

// attach puts parts into the relations that they belong to, keeping their order.
func attach(relations []catalog.Relation, columns []relationColumn, constraints []relationConstraint, indexes []relationIndex) error {
	byOID := make(map[catalog.OID]*catalog.Relation, len(relations))
	for i := range relations {
		byOID[relations[i].OID] = &relations[i]
	}
	for _, c := range columns {
		r := byOID[c.Of]
		if r == nil {
			return fmt.Errorf("column %q belongs to the unknown relation %d", c.Name, c.Of)
		}
		r.Columns = append(r.Columns, c.Column)
	}
	for _, c := range constraints {
		r := byOID[c.Of]
		if r == nil {
			return fmt.Errorf("constraint %q belongs to the unknown relation %d", c.Name, c.Of)
		}
		r.Constraints = append(r.Constraints, c.Constraint)
	}
	for _, x := range indexes {
		r := byOID[x.Of]
		if r == nil {
			return fmt.Errorf("index %q belongs to the unknown relation %d", x.Name, x.Of)
		}
		r.UniqueIndexes = append(r.UniqueIndexes, x.UniqueIndex)
	}
	return nil
}

type relationPart struct {
	Of catalog.OID `json:"of"`
	catalog.Part
}

// attachParts says of indexes and sequences what they belong to. Both lists are in the order of OIDs.
func attachParts(relations []catalog.Relation, parts []relationPart) error {
	for i := range relations {
		if r := &relations[i]; len(parts) > 0 && parts[0].Of == r.OID {
			r.PartOf, parts = parts[0].Part, parts[1:]
		}
	}
	if len(parts) > 0 {
		return fmt.Errorf("what relation %d belongs to is known, but not the relation", parts[0].Of)
	}
	return nil
}

// reader runs queries until one fails, and keeps that error.
type reader struct {
	conn *pgx.Conn
	err  error
}

func rowsOf[T any](ctx context.Context, r *reader, what, sql string) []T {
	if r.err != nil {
		return nil
	}
	rows, err := readRows[T](ctx, r.conn, what, sql)
	r.err = err
	return rows
}

// readRows runs a query in the simple protocol and decodes each row of its result. The query says which columns are
// keys of the catalog's JSON; each row comes as one JSON object. A key that T does not have is an error, so that a query cannot
// silently fill nothing.
func readRows[T any](ctx context.Context, conn *pgx.Conn, what, sql string) ([]T, error) {
	result := conn.PgConn().Exec(ctx, "SELECT pg_catalog.row_to_json(x)::text FROM ("+sql+") AS x")
	rows := []T{}
	for result.NextResult() {
		reader := result.ResultReader()
		for reader.NextRow() {
			value, err := decodeRow[T](reader.Values()[0])
			if err != nil {
				return nil, errors.Join(fmt.Errorf("reading %s: %w", what, err), result.Close())
			}
			rows = append(rows, value)
		}
	}
	if err := result.Close(); err != nil {
		return nil, fmt.Errorf("reading %s: %w", what, err)
	}
	return rows, nil
}

func decodeRow[T any](text []byte) (T, error) {
	var value T
	// Two names that differ in bytes that are not UTF-8 would decode to the same.
	if !utf8.Valid(text) {
		return value, fmt.Errorf("not UTF-8: %.200q", text)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&value); err != nil {
		return value, fmt.Errorf("decoding %.200q: %w", text, err)
	}
	return value, nil
}
