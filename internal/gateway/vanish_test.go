package gateway_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"interlock/audit"
	"interlock/internal/gatewaytest"
)

// vanishers is how many clients vanish at once in each state.
const vanishers = 3

// vanishings are states that a client can be in: a text that brings it there, and what pg_stat_activity shows of one that is there.
// None of the statements would end by itself while the test runs.
var vanishings = []struct{ state, sql, alike string }{
	{"idle", "select 1", "state = 'idle' and query like '%select 1%'"},
	{"transaction", "begin; insert into t values (1)", "state = 'idle in transaction'"},
	{"failed", "begin; select 1/0", "state = 'idle in transaction (aborted)'"},
	{"result", "select a.x from big a, big b, big c, big d", "wait_event = 'ClientWrite'"},
	{"copyout", "copy (select a.x from big a, big b, big c, big d) to stdout", "wait_event = 'ClientWrite'"},
	{"computing", "select count(*) from big a, big b, big c, big d", "state = 'active' and wait_event is null"},
	{"sleeping", "select pg_sleep(6000)", "wait_event = 'PgSleep'"},
	{"copyin", "copy t from stdin", "state = 'active' and wait_event = 'ClientRead'"},
	{"locked", "insert into locked values (1)", "wait_event_type = 'Lock'"},
}

// In whatever state clients vanish, the server's connections go with them: what would go on for hours is cancelled, what is in the way of
// a lock that somebody holds does not wait for it, and every request is on record with its end.
func TestVanishedClients(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Start(t, gatewaytest.Options{Setup: []string{"create table t (n int)", "create table locked (n int)",
		"create table big as select repeat('x', 1000) x from generate_series(1, 2000)"}})
	holder := administrator(t, g.Upstream)
	if _, err := holder.Exec(t.Context(), "begin; lock locked in exclusive mode"); err != nil {
		t.Fatal(err)
	}
	watch := administrator(t, g.Upstream)
	for _, v := range vanishings {
		name := "vanish-" + v.state
		var clients []*pgx.Conn
		for range vanishers {
			conn, s := connect(t, g.DSN("ana", "shop", "application_name="+name))
			if s.state != "" {
				t.Fatal(s)
			}
			frame := append([]byte{'Q', 0, 0, 0, byte(4 + len(v.sql) + 1)}, v.sql...)
			if _, err := conn.PgConn().Conn().Write(append(frame, 0)); err != nil {
				t.Fatal(err)
			}
			clients = append(clients, conn)
		}
		awaitSessions(t, watch, name, v.alike, vanishers)
		for _, conn := range clients {
			if err := conn.PgConn().Conn().Close(); err != nil {
				t.Fatal(err)
			}
		}
		awaitSessions(t, watch, name, "true", 0)
	}
	var rows int
	if err := watch.QueryRow(t.Context(), "select count(*) from t").Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d rows of what was never committed, %v", rows, err)
	}
	awaitEnds(t, g)
}

// awaitSessions waits until so many of the server's sessions have an application name and meet a condition.
func awaitSessions(t *testing.T, watch *pgx.Conn, name, condition string, want int) {
	t.Helper()
	got := -1
	for deadline := time.Now().Add(time.Minute); got != want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d sessions where %s, want %d", name, got, condition, want)
		}
		err := watch.QueryRow(context.Background(), "select count(*) from pg_stat_activity where application_name = $1 and "+condition, name).Scan(&got)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// awaitEnds waits until every request on record has an end.
func awaitEnds(t *testing.T, g *gatewaytest.Gateway) {
	t.Helper()
	open := ""
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		open = ""
		for _, v := range g.Records(audit.Filter{}) {
			if v.Judgement != nil && v.Outcome == nil {
				open = v.Statement
			}
		}
		if open == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s has no end", open)
		}
	}
}
