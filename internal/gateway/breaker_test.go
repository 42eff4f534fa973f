package gateway_test

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"interlock/audit"
	"interlock/internal/cluster"
	"interlock/internal/config"
	"interlock/internal/gatewaytest"
	"interlock/internal/pgtest"
)

// upstreamServer is a PostgreSQL server of its own, which can be stopped and comes back on the same port.
func upstreamServer(t *testing.T, port int) *cluster.Cluster {
	t.Helper()
	c, err := cluster.Start(context.Background(), cluster.Config{Port: port})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	conn, err := pgx.Connect(t.Context(), c.DSN(pgtest.Superuser, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), table[0]); err != nil {
		t.Fatal(err)
	}
	return c
}

// A server that is lost: every operation through either door is refused as the contract says, first for the connection
// and then for the open circuit; nothing that was begun is without an outcome; and when the server is back, it is found.
func TestUpstreamLost(t *testing.T) {
	server := upstreamServer(t, 0)
	g := gatewaytest.Start(t, gatewaytest.Options{Database: server.DSN(pgtest.Superuser, "postgres"), Governance: limited("connections: 50", ""),
		Configure: func(c *config.Config) { c.Breaker = config.Breaker{Failures: 3, Pause: 1500 * time.Millisecond} }})
	key := g.Key("ana")
	conn, s := connect(t, g.DSN("ana", "shop"))
	if s.state != "" {
		t.Fatal(s)
	}
	for range 20 { // the caller's own errors are not the server's failures
		if s := call(t, g.MCP, key, "select 1/(i-i) from t"); s.state != "22012" {
			t.Fatalf("a caller's own error: %+v", s)
		}
		if s := simple(conn, "select 1/(i-i) from t"); s.state != "22012" {
			t.Fatalf("a caller's own error: %+v", s)
		}
	}
	if s := call(t, g.MCP, key, "select i from t"); s.state != "" {
		t.Fatalf("after them: %+v", s)
	}
	port := server.Port()
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if s := simple(conn, "select i from t"); s.state != "57P01" && s.state != "08006" && s.state != "?" {
		t.Errorf("an open session: %+v", s)
	}
	operations := map[string]func() said{
		"read over MCP":  func() said { return call(t, g.MCP, key, "select i from t") },
		"write over MCP": func() said { return call(t, g.MCP, key, "insert into t values (2)") },
		"new session":    func() said { _, s := connect(t, g.DSN("ana", "shop")); return s },
	}
	for n := 0; ; n++ {
		if s := operations["read over MCP"](); s.state == "08004" {
			break
		} else if s.state != "08006" || n > 10 {
			t.Fatalf("failure %d: %+v", n, s)
		}
	}
	for name, run := range operations {
		if s := run(); s.state != "08004" || !strings.Contains(s.message, "circuit is open") {
			t.Errorf("%s while the circuit is open: %+v", name, s)
		}
	}
	if s := call(t, g.MCP, key, "select i from t"); s.retryAfter == "" {
		t.Errorf("no word when it is tried again: %+v", s)
	}
	if s := call(t, g.MCP, key, "select nothing from t"); s.state == "" {
		t.Error("a statement got through an open circuit")
	}
	if text := get(t, g.AdminURL()+"/v1/status"); !strings.Contains(text, "the circuit of source shop is open") {
		t.Errorf("status: %s", text)
	}
	upstreamServer(t, port)
	begun := time.Now()
	for ; ; time.Sleep(50 * time.Millisecond) {
		s := call(t, g.MCP, key, "select i from t")
		if s.state == "" {
			break
		}
		if time.Since(begun) > 20*time.Second {
			t.Fatalf("the server is not found again: %+v", s)
		}
	}
	for name, run := range operations {
		if s := run(); s.state != "" {
			t.Errorf("%s afterwards: %+v", name, s)
		}
	}
	if err := g.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if open := unended(g); open > 0 {
		t.Errorf("%d intents have no outcome", open)
	}
	lost, found := 0, 0
	for _, r := range g.Records(audit.Filter{Events: true}) {
		if r.Event != nil && r.Event.Attributes["reason"] == "circuit_open" {
			lost++
		}
		if r.Event != nil && r.Event.Attributes["reason"] == "circuit_closed" {
			found++
		}
	}
	if lost != 1 || found != 1 {
		t.Errorf("recorded: lost %d times, found %d times", lost, found)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A gateway whose callers wait, are refused, go away and come back leaves no goroutine behind when it stops.
func TestNothingIsLeftRunning(t *testing.T) {
	database := pgtest.Start(t).Database(t, table...)
	before := runtime.NumGoroutine()
	g := gatewaytest.Start(t, gatewaytest.Options{Database: database, Governance: limited("concurrency: 2, queue: 5, queue_wait: 200ms, rate: 50/h", "")})
	key := g.Key("ana")
	done := make(chan struct{})
	for i := range 40 {
		go func() {
			defer func() { done <- struct{}{} }()
			if i%2 == 0 {
				call(t, g.MCP, key, "select pg_sleep(0.05)")
				return
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(20+i*5)*time.Millisecond)
			defer cancel()
			if c, err := pgx.Connect(ctx, g.DSN("ana", "shop")); err == nil {
				_, _ = c.Exec(ctx, "select pg_sleep(0.1)")
				_ = c.Close(ctx)
			}
		}()
	}
	for range 40 {
		<-done
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := g.Stop(ctx); err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		after := runtime.NumGoroutine()
		if after <= before {
			break
		}
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines before, %d after:\n%s", before, after, stacks[:runtime.Stack(stacks, true)])
		}
	}
	if open := unended(g); open > 0 {
		t.Errorf("%d intents have no outcome", open)
	}
}
