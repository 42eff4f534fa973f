package sqlgov_test

import (
	"fmt"
	"strings"
	"testing"

	"interlock/internal/gatewaytest"

	"github.com/jackc/pgx/v5/pgconn"
)

const empties = "select pg_catalog.set_config('search_path', '', false)"

// Whatever a client does to its search path, an unqualified name means to the gateway what it means to the server: each
// sequence goes the same way through the gateway as without it. Sequences end with a look at what a name means.
func TestSearchPathAsOnTheServer(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Setup: []string{"create table t (x text); insert into t values ('public'); create function pg_temp.none() returns int language sql as 'select 1'"}})
	for _, sequence := range [][]string{
		{empties},
		{"set search_path = ''"},
		{"set search_path to ''", "reset search_path"},
		{empties, "set search_path to default"},
		{"begin", empties, "rollback"},
		{"begin", empties, "commit"},
		{"begin", empties, "end"},
		{empties, "begin", "reset search_path", "rollback"},
		{empties, "begin", "reset search_path", "commit"},
		{empties, "begin", "reset search_path", empties, "reset search_path", "rollback"},
		{empties, "begin", "reset search_path", "select 1/0", "commit"},
		{"begin", empties, "select 1/0", "rollback"},
		{"begin", "select 1/0", empties, "rollback"},
		{"begin", empties, "commit and chain", "rollback"},
		{empties, "select 1/0"},
		{empties, "begin", "select * from public.t", "reset search_path", "select * from t", "rollback"},
	} {
		sequence = append(sequence, "select * from t", "show search_path", "select 't'::pg_catalog.regclass::pg_catalog.text")
		got, want := heardOf(t, g.DSN("ana", "shop"), sequence), heardOf(t, g.Upstream, sequence)
		if got != want {
			t.Errorf("%s:\n%s\nwithout the gateway:\n%s", strings.Join(sequence, "; "), got, want)
		}
	}
}

// heardOf sends statements and returns the values and SQLSTATEs that come back. A name that is not found is one that may not be
// used: the gateway answers both alike.
func heardOf(t *testing.T, dsn string, sequence []string) string {
	t.Helper()
	conn := connectTo(t, dsn)
	var b strings.Builder
	for _, sql := range sequence {
		results, err := conn.Exec(t.Context(), sql).ReadAll()
		for _, r := range results {
			fmt.Fprintf(&b, "%s %q\n", r.CommandTag, r.Rows)
		}
		if state := stateOf(err); state != "" {
			fmt.Fprintln(&b, strings.NewReplacer("42P01", "unknown", "42501", "unknown").Replace(state))
		}
	}
	return strings.ReplaceAll(b.String(), `"\"$user\", public"`, `"\"public\""`) // the pinned path has only what exists
}

// Attack: the search path is changed where it cannot be followed: among other statements, in a pipeline, inside of another
// statement, for a transaction; or brought back behind the gateway's back. All of it is refused.
func TestSearchPathIsNotChangedUnseen(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Setup: []string{"create table t (x text)"}})
	for _, sequence := range [][]string{
		{empties + "; select * from t"},
		{"begin; " + empties},
		{"set local search_path = ''"},
		{"set search_path = 'public'"},
		{"select pg_catalog.set_config('search_path', '', true)"},
		{"select pg_catalog.set_config('search_path', 'public', false)"},
		{"select pg_catalog.set_config('search_path', '', false) from t"},
		{"select pg_catalog.set_config('search_path', '', false), 1"},
		{"select set_config('search_path', '', false)"},
		{"prepare p as " + empties},
		{"explain analyze " + empties},
		{"copy (" + empties + ") to stdout"},
		{"begin", "declare c cursor for " + empties},
		{empties, "reset all"},
		{empties, "discard all"},
		{"begin", empties, "rollback; select * from t"},
		{"begin", "savepoint a", empties, "rollback to a"},
		{"begin", empties, "commit; select 1"},
	} {
		conn := connectTo(t, g.DSN("bob", "shop"))
		var err error
		for i, sql := range sequence {
			if _, err = conn.Exec(t.Context(), sql).ReadAll(); err != nil && i < len(sequence)-1 {
				t.Errorf("%s: %v", sql, err)
			}
		}
		if state := stateOf(err); state != "0A000" && state != "42501" && state != "42P01" {
			t.Errorf("%s: %v", strings.Join(sequence, "; "), err)
		}
	}
	conn := connectTo(t, g.DSN("bob", "shop"))
	if r := conn.ExecParams(t.Context(), empties, nil, nil, nil, nil).Read(); stateOf(r.Err) != "0A000" {
		t.Errorf("in a pipeline: %v", r.Err)
	}
	if _, err := conn.Prepare(t.Context(), "roll", "rollback", nil); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"begin", empties} {
		if _, err := conn.Exec(t.Context(), sql).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	if r := conn.ExecPrepared(t.Context(), "roll", nil, nil, nil).Read(); stateOf(r.Err) != "0A000" {
		t.Errorf("a prepared ROLLBACK: %v", r.Err)
	}
}

// Who may read a column of a table may lock it as reading does. What goes with updating wants the right to update.
func TestLockTable(t *testing.T) {
	document := strings.Replace(servedDocument, "public.hidden.id", "public.hidden.id, public.seen", 1)
	g := gatewaytest.Start(t, gatewaytest.Options{Governance: document, Setup: []string{servedData + "create view seen as select * from stock; create table other (id int)"}})
	for _, tc := range []struct{ sql, state string }{
		{"lock table stock, news, hidden, part in access share mode", ""},
		{"lock stock in row share mode nowait", ""},
		{"lock stock in row exclusive mode", ""},
		{"lock stock", "0A000"},
		{"lock stock in share mode", "0A000"},
		{"lock news in row share mode", "42501"},
		{"lock hidden in row exclusive mode", "42501"},
		{"lock stock, other in access share mode", "42501"},
		{"lock nosuch in access share mode", "42501"},
		{"lock pg_catalog.pg_class in row exclusive mode", "42501"},
		{"lock seen in access share mode", "0A000"},
	} {
		for _, extended := range []bool{false, true} {
			conn := connectTo(t, g.DSN("ana", "gov"))
			err := begun(t, conn, tc.sql, extended)
			if stateOf(err) != tc.state {
				t.Errorf("%s: %v, want %q", tc.sql, err, tc.state)
			}
			if err := conn.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

func begun(t *testing.T, conn *pgconn.PgConn, sql string, extended bool) error {
	t.Helper()
	if _, err := conn.Exec(t.Context(), "begin").ReadAll(); err != nil {
		t.Fatal(err)
	}
	if extended {
		return conn.ExecParams(t.Context(), sql, nil, nil, nil, nil).Read().Err
	}
	_, err := conn.Exec(t.Context(), sql).ReadAll()
	return err
}
