package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"interlock/internal/gatewaytest"
	"interlock/internal/pgtest"
)

// A source of two servers: when the primary is lost and its standby is promoted, both doors go on with that one, and what the roles
// do not allow stays refused there.
func TestFailover(t *testing.T) {
	primary, standby := pgtest.Pair(t, table[0])
	document := strings.Replace(limited("connections: 50", ""), "host: HOST, port: PORT",
		fmt.Sprintf("host: '%s:%d,%s:%d', target_session_attrs: primary", standby.Host(), standby.Port(), primary.Host(), primary.Port()), 1)
	g := gatewaytest.Start(t, gatewaytest.Options{Database: primary.DSN(pgtest.Superuser, "postgres"), Governance: document})
	key := g.Key("ana")
	conn, s := connect(t, g.DSN("ana", "shop"))
	if s.state != "" {
		t.Fatal(s)
	}
	const where = "select i from t"
	if s := simple(conn, where); s.state != "" {
		t.Fatalf("before: %+v", s)
	}
	if s := call(t, g.MCP, key, where); s.state != "" {
		t.Fatalf("before, over MCP: %+v", s)
	}

	if err := primary.Stop(); err != nil {
		t.Fatal(err)
	}
	if s := simple(conn, where); s.state == "" {
		t.Error("a session outlives its server")
	}
	pgtest.Start(t).Exec(t, standby.DSN(pgtest.Superuser, "postgres"), "select pg_promote()")
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if s = call(t, g.MCP, key, where); s.state == "" {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("the new primary is not found: %+v", s)
		}
	}
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if conn, s = connect(t, g.DSN("ana", "shop")); s.state == "" {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("the new primary is not found by the PostgreSQL door: %+v", s)
		}
	}
	if s := simple(conn, where); s.state != "" {
		t.Errorf("afterwards: %+v", s)
	}
	if s := simple(conn, "update t set i = 2"); s.state != "42501" {
		t.Errorf("what nobody may do: %+v", s)
	}
}
