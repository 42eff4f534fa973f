package sqlgov_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"interlock/audit"
	"interlock/internal/gatewaytest"

	"github.com/jackc/pgx/v5/pgconn"
)

// What runs by db.execute_raw is on record, statement by statement, with no literal in sight. bob, who may do everything
// else, runs none of it. Over MCP ana is bob.
func TestRawStatementsAreOnRecord(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Governance: strings.ReplaceAll(gatewaytest.Raw, "shop", "gov"), Setup: []string{"create table t (id int, ssn text)"}})
	conn := connectTo(t, g.DSN("ana", "gov"))
	for _, tc := range []struct {
		sql, shown string
		status     audit.Status
		state      string
		rows       int64
	}{
		{"insert into t values (1, 'hush'), (2, 'hush'); select * from t", "insert into t values ($1, $2), ($3, $4); select * from t", audit.OK, "", 4},
		{"set search_path = 'nowhere'", "set search_path = $1", audit.OK, "", 0},
		{"select 1 from t where ssn = 'hush'", "select $1 from t where ssn = $2", audit.Failed, "42P01", 0},
		{"set standard_conforming_strings = off", "set standard_conforming_strings = off", audit.OK, "", 0},
		{`select 'it\'s hush', ' x', 'y'`, "-- 30 bytes, not shown: a backslash stands before a quote", audit.OK, "", 1},
		{"do $$begin perform pg_sleep(0); end$$", "do $1", audit.OK, "", 0},
		{"selekt 'hush'", "selekt $1", audit.Failed, "42601", 0},
	} {
		_, err := conn.Exec(t.Context(), tc.sql).ReadAll()
		if stateOf(err) != tc.state {
			t.Errorf("%s: %v", tc.sql, err)
		}
		v := lastStatement(g)
		if v.Statement != tc.shown || v.Outcome.Status != tc.status || v.Outcome.SQLState != tc.state || v.Outcome.Rows != tc.rows || !v.Write || !slices.Contains(v.Kinds, "raw") {
			t.Errorf("%s: on record as %q, kinds %v, %+v", tc.sql, v.Statement, v.Kinds, v.Outcome)
		}
	}
	if r := conn.ExecParams(t.Context(), "select $1::text", [][]byte{[]byte("hush")}, nil, nil, nil).Read(); r.Err != nil {
		t.Error(r.Err)
	}
	if v := lastStatement(g); v.Statement != "select $1::text" || v.Outcome.Rows != 1 {
		t.Errorf("%q %+v", v.Statement, v.Outcome)
	}
	bob := connectTo(t, g.DSN("bob", "gov"))
	for _, sql := range []string{"do $$begin end$$", "set search_path = nowhere", `select 'it\'s'`} {
		if _, err := bob.Exec(t.Context(), sql).ReadAll(); err == nil {
			t.Errorf("bob runs %s", sql)
		}
	}
	if r := (&tool{url: g.MCP, key: g.Key("ana")}).call(t.Context(), "do $$begin end$$"); r.state == "" || r.rows != nil {
		t.Errorf("over MCP: %+v", r)
	}
}

// Attack: an identity that lost db.execute_raw goes on in the session in which it has made names mean something else.
func TestRawSessionEndsWithItsPermission(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Governance: strings.ReplaceAll(gatewaytest.Raw, "shop", "gov"), Setup: []string{"create table t (id int); create schema other; create table other.t (id int)"}})
	conn := connectTo(t, g.DSN("ana", "gov"))
	if _, err := conn.Exec(t.Context(), "set search_path = other; select * from t").ReadAll(); err != nil {
		t.Fatal(err)
	}
	g.Apply(strings.ReplaceAll(gatewaytest.AllowAll, "shop", "gov"))
	_, err := conn.Exec(t.Context(), "select * from t").ReadAll()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "42501" || pg.Severity != "FATAL" || pg.Message != "permission denied to run statements as they are" {
		t.Fatalf("%v", err)
	}
	if _, err := conn.Exec(t.Context(), "select 1").ReadAll(); err == nil {
		t.Error("the session lives on")
	}
	again := connectTo(t, g.DSN("ana", "gov"))
	if _, err := again.Exec(t.Context(), "set search_path = other").ReadAll(); stateOf(err) != "0A000" {
		t.Errorf("a new session is not governed: %v", err)
	}
}
