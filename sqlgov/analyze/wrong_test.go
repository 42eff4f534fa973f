package analyze_test

import (
	"context"
	"errors"
	"testing"

	"interlock/sqlgov/analyze"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// TestServerErrors compares what is said of wrong statements with what the server says.
func TestServerErrors(t *testing.T) {
	s := newServer(t)
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "set search_path = app, public"); err != nil {
		t.Fatal(err)
	}
	for _, sql := range statements(t, "wrong.sql") {
		var theirs *pgconn.PgError
		if _, err := conn.Exec(ctx, "begin"); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); !errors.As(err, &theirs) {
			t.Fatalf("%s\n\tthe server does not mind", sql)
		}
		if _, err := conn.Exec(ctx, "rollback"); err != nil {
			t.Fatal(err)
		}
		var ours *analyze.Error
		if _, err := s.analyze(sql); !errors.As(err, &ours) {
			t.Errorf("%s\n\tanalysed, but the server says %s %s", sql, theirs.Code, theirs.Message)
			continue
		}
		if ours.SQLState != theirs.Code || ours.Message != theirs.Message {
			t.Errorf("%s\n\twe say    %s %s\n\tit says   %s %s", sql, ours.SQLState, ours.Message, theirs.Code, theirs.Message)
		}
		if ours.Position > 0 && theirs.Position > 0 && ours.Position != int(theirs.Position) {
			t.Errorf("%s\n\tposition %d, want %d", sql, ours.Position, theirs.Position)
		}
	}
}

// TestErrorNames holds what an error tells about the name it is about.
func TestErrorNames(t *testing.T) {
	s := newServer(t)
	for _, tc := range []struct {
		sql, name, relation string
		touched             string
	}{
		{"select id, nosuch from customers", "nosuch", "", "customers"},
		{"select c.nosuch from customers c", "c nosuch", "customers", "customers"},
		{"select 1 from app.nosuch", "app nosuch", "", ""},
		{"select x.id from customers", "x", "", "customers"},
		{"insert into notes(nosuch) values (1)", "nosuch", "notes", "notes"},
		{"select nosuch(id) from orders", "nosuch", "", "orders"},
	} {
		var e *analyze.Error
		if _, err := s.analyze(tc.sql); !errors.As(err, &e) {
			t.Errorf("%s: %v", tc.sql, err)
			continue
		}
		name, relation, touched := "", "", ""
		for i, part := range e.Name {
			if i > 0 {
				name += " "
			}
			name += part
		}
		if r := s.index.Relation(e.Relation); r != nil {
			relation = r.Name
		}
		if len(e.Touched) > 0 {
			touched = e.Touched[len(e.Touched)-1].Table
		}
		if name != tc.name || relation != tc.relation || touched != tc.touched || !e.Unknown {
			t.Errorf("%s: name %q, relation %q, touched %q, unknown %v", tc.sql, name, relation, touched, e.Unknown)
		}
	}
}
