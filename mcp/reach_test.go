package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"interlock/internal/config"
	"interlock/internal/gatewaytest"
	"interlock/internal/redistest"
	"interlock/mcp"
)

// kept is a governance document with a source whose results are kept, which ana may read and write.
const kept = `
version: 1
sources:
  shop:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
    cache: {ttl: 1h}
source_roles:
  everything:
    source: shop
    permissions:
      - {allow: [db.table.select, db.table.insert, db.table.update, db.schema.create_table], on: ["*"]}
identities:
  ana: {kind: agent, grants: [{source: shop, roles: [everything]}]}
`

// TestReach: what a call reaches is the source that it names and nothing else, and no write reaches it past a cache that
// would not hear of it.
func TestReach(t *testing.T) {
	redis := redistest.Start(t)
	file := filepath.Join(t.TempDir(), "redis.url")
	if err := os.WriteFile(file, []byte(redis.URL()), 0o600); err != nil {
		t.Fatal(err)
	}
	g := gatewaytest.Start(t, gatewaytest.Options{Governance: kept, Configure: func(c *config.Config) { c.Redis.URL = "file:" + file },
		Setup: []string{"create table t (v int); insert into t values (1); create extension dblink"}})
	t.Run("control store", func(t *testing.T) { controlStoreIsNoSource(t, g) })
	t.Run("addresses", func(t *testing.T) { statementsCallNobody(t, g) })
	t.Run("cache", func(t *testing.T) { writesPastTheCache(t, g, redis) })
}

// controlStoreIsNoSource: no name of a source leads to the control store, and its table of keys does not exist in a source.
func controlStoreIsNoSource(t *testing.T, g *gatewaytest.Gateway) {
	t.Helper()
	for _, source := range []string{"control", "store", "interlock", "sqlite", "main", "control.db", "file:control.db", "../control.db"} {
		for _, version := range mcp.Versions {
			if got := as(t, g, "ana", version).query(source, "select 1"); got.reason.Status != "not_found" {
				t.Errorf("%s: source %q: %s", version, source, got.body)
			}
		}
	}
	if got := as(t, g, "ana", modernVersion).query("shop", "select * from keys"); got.reason.SQLState != "42P01" {
		t.Error(got.body)
	}
}

// statementsCallNobody: PostgreSQL can be made to connect to an address that a statement names. None of those statements
// reaches it; sent directly, the first one is heard.
func statementsCallNobody(t *testing.T, g *gatewaytest.Gateway) {
	t.Helper()
	listener, heard := listen(t)
	address := listener.Addr().(*net.TCPAddr)
	to := fmt.Sprintf("host=127.0.0.1 port=%d dbname=x user=x password=x sslmode=disable gssencmode=disable", address.Port)
	connect := "select dblink_connect('" + to + "')"
	for _, sql := range []string{
		connect,
		"select * from dblink('" + to + "', 'select 1') as d (i int)",
		"create subscription s connection '" + to + "' publication p",
		"create server s foreign data wrapper dblink_fdw options (host '127.0.0.1')",
		"copy t from program 'curl http://" + address.String() + "'",
		"copy t to program 'curl http://" + address.String() + "'",
		"alter system set primary_conninfo = '" + to + "'",
		"create table u as select dblink_connect('" + to + "')",
		"insert into t select length(dblink_connect('" + to + "'))",
	} {
		for _, version := range mcp.Versions {
			if got := as(t, g, "ana", version).query("shop", sql); got.reason.Status != "denied" && got.reason.Status != "unsupported" {
				t.Errorf("%s: %s: %s", version, sql, got.body)
			}
		}
	}
	if n := len(heard); n != 0 {
		t.Errorf("the address was called %d times", n)
	}
	conn, err := pgx.Connect(t.Context(), g.Upstream)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), connect); err == nil {
		t.Error("nobody is there, but PostgreSQL has connected")
	}
	<-heard
}

// listen takes connections, closes them and tells of each.
func listen(t *testing.T) (net.Listener, <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan struct{}, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				_ = conn.Close()
				heard <- struct{}{}
			}
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l, heard
}

// writesPastTheCache: without Redis a write that other nodes would not hear of is refused and not run, and a read is not
// refused for that.
func writesPastTheCache(t *testing.T, g *gatewaytest.Gateway, redis *redistest.Server) {
	t.Helper()
	redis.Kill()
	for _, version := range mcp.Versions {
		c := as(t, g, "ana", version)
		got := c.query("shop", "update t set v = 2")
		rpc := map[bool]int{true: -32603}[version == modernVersion]
		if got.http != 200 || got.rpc != rpc || got.isError != (rpc == 0) || got.reason.Status != "unavailable" || got.reason.Code != 503 ||
			!strings.Contains(got.body, `"identifier":"cache_consistency_unavailable"`) {
			t.Errorf("%s: a write: %s", version, got.body)
		}
		if got := c.query("shop", "select v from t"); got.text != `[{"v":1}]` {
			t.Errorf("%s: a read: %s", version, got.body)
		}
	}
	const former = `{"name":"interlock_query","arguments":{"source_id":"shop","sql":"update t set v = 2"}}`
	if status, body := formerCall(t, g, "/mcp/tools/call", former); status != 503 || !strings.Contains(body, "cache_consistency_unavailable") {
		t.Errorf("a write: %d %s", status, body)
	}
	if v := upstreamValue(t, g); v != 1 {
		t.Errorf("a refused write was run: v is %d", v)
	}
}
