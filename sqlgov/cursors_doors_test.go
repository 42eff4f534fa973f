package sqlgov_test

import (
	"fmt"
	"strings"
	"testing"

	"interlock/internal/gatewaytest"

	"github.com/jackc/pgx/v5/pgconn"
)

// A cursor gives what its query may give, and is judged again at each FETCH; it ends with its transaction, and no cursor that
// the gateway has not seen declared can be read.
func TestCursors(t *testing.T) {
	g := copyGateway(t)
	for _, where := range []string{"simple", "extended"} {
		at := servedDoors(g)[where]()
		for _, tc := range []struct{ sql, state, says string }{
			{"begin", "", "[BEGIN]"},
			{"declare c cursor for select i from n order by i", "", "[DECLARE CURSOR]"},
			{"fetch 2 from c", "", "[[1] [2]]"},
			{"move 1 in c", "", "[MOVE 1]"},
			{"fetch c", "", "[[4]]"},
			{"fetch 3 from c", "54000", "more than 5 rows"}, // five in all, whatever the pieces
			{"rollback", "", "[ROLLBACK]"},
			{"fetch c", "34000", "does not exist"},
			{"begin", "", "[BEGIN]"},
			{"declare c scroll cursor for select id from people", "", ""},
			{"close c", "", "[CLOSE CURSOR]"},
			{"fetch c", "34000", "does not exist"},
			{"rollback", "", ""},
			{"declare c cursor for select ssn from people", "42501", "ssn"},
			{"begin", "", ""},
			{"declare c cursor for select id, name from people", "", ""},
			{"close all", "", "[CLOSE CURSOR ALL]"},
			{"fetch c", "34000", "does not exist"},
			{"rollback", "", ""},
		} {
			got := at.run(t.Context(), step{Q: tc.sql})
			if got.state != tc.state || !strings.Contains(got.message+fmt.Sprint(got.rows, got.tags), tc.says) {
				t.Errorf("%s: %s: %q %s %v %v", where, tc.sql, got.state, got.message, got.rows, got.tags)
			}
		}
		at.close()
	}
}

// Drivers declare cursors with parameters and fetch from them without: the gateway judges FETCH by the types that the parameters
// had, and the rows are those of the values. The right rows are those of a connection without the gateway.
func TestCursorsWithParameters(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Setup: []string{"create table t (id int, name text); insert into t select i, 'n' || i from generate_series(1, 9) i"}})
	for _, tc := range []struct {
		sql    string
		params []string
	}{
		{"select id, name from t where id > $1 order by id", []string{"3"}},
		{"select $1, name from t where name = $2", []string{"x", "n4"}},
		{"select id + $1::int8 from t where id = any ($2) order by id", []string{"10", "{1,2}"}},
		{"select $1 from t", []string{"1"}},
	} {
		if got, want := fetched(t, g.DSN("ana", "shop"), tc.sql, tc.params), fetched(t, g.Upstream, tc.sql, tc.params); got != want {
			t.Errorf("%s: %s, without the gateway %s", tc.sql, got, want)
		}
	}
}

func fetched(t *testing.T, dsn, query string, params []string) string {
	t.Helper()
	conn := connectTo(t, dsn)
	values := make([][]byte, len(params))
	for i, p := range params {
		values[i] = []byte(p)
	}
	var heard strings.Builder
	note := func(r *pgconn.Result) { fmt.Fprintf(&heard, "%s %q %s; ", r.CommandTag, r.Rows, stateOf(r.Err)) }
	note(conn.ExecParams(t.Context(), "begin", nil, nil, nil, nil).Read())
	note(conn.ExecParams(t.Context(), "declare c scroll cursor for "+query, values, nil, nil, nil).Read())
	for _, sql := range []string{"fetch 2 from c", "move 1 in c", "fetch all from c", "fetch first from c", "close c"} {
		note(conn.ExecParams(t.Context(), sql, nil, nil, nil, nil).Read())
	}
	return heard.String()
}
