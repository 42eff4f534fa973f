package mcp_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"interlock/audit"
	"interlock/internal/gatewaytest"
	"interlock/mcp"
)

// TestAbandoned: a thousand requests that clients give up half-sent, with a body that does not come, or when their reply
// has begun, leave no statement and no goroutine, and one record each.
func TestAbandoned(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{})
	patient := start(t, &mcp.Server{Core: g.Core, Authenticator: g.Keys, ProgressInterval: time.Millisecond})
	hurried := start(t, &mcp.Server{Core: g.Core, Authenticator: g.Keys, BodyTimeout: 50 * time.Millisecond})
	admin, err := pgx.Connect(t.Context(), g.Upstream)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.WithoutCancel(t.Context()))
	before := runtime.NumGoroutine()

	const halves, slow, streams = 650, 300, 50
	heads := abandonHalfSent(t, g, patient, halves)
	abandonSlowBodies(t, g, hurried, slow)
	abandonStreams(t, g, admin, patient, streams)

	want := map[audit.Status]int{audit.Refused: heads + slow, audit.Canceled: streams}
	var got map[audit.Status]int
	await(t, time.Minute, "the records", func() bool {
		got = map[audit.Status]int{}
		for _, r := range g.Records(audit.Filter{Identity: "ana"}) {
			got[r.Status]++
		}
		return got[audit.Refused] >= want[audit.Refused] && got[audit.Canceled] >= want[audit.Canceled]
	})
	if !maps.Equal(got, want) {
		t.Errorf("the records end with %v, want %v", got, want)
	}
	await(t, time.Minute, "every goroutine to end", func() bool { return runtime.NumGoroutine() <= before })
	await(t, time.Minute, "every session to be idle", func() bool { return busy(t, admin, "state <> 'idle'") == 0 })
}

// ask is a call of ana's as bytes on the wire: its head, up to the empty line, and its body.
func ask(t *testing.T, g *gatewaytest.Gateway, version, sql string) (head, body string) {
	t.Helper()
	head, body, _ = strings.Cut(strings.ReplaceAll(rawCall(version, sql), "ana-key", g.Key("ana")), "\r\n\r\n")
	return head + "\r\n\r\n", body
}

// abandonHalfSent sends requests up to every point of them, and goes away. It returns how many have sent their head: the
// others have not said who they are.
func abandonHalfSent(t *testing.T, g *gatewaytest.Gateway, addr string, n int) (heads int) {
	t.Helper()
	for i := range n {
		head, body := ask(t, g, mcp.Versions[i%len(mcp.Versions)], "select 1")
		whole := head + body
		cut := len(whole) * i / n
		if cut >= len(head) {
			heads++
		}
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, whole[:cut]); err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
	return heads
}

// abandonSlowBodies sends half of each body and nothing more, on a hundred connections at a time.
func abandonSlowBodies(t *testing.T, g *gatewaytest.Gateway, addr string, n int) {
	t.Helper()
	conns := make([]net.Conn, 100)
	for range n / len(conns) {
		for i := range conns {
			head, body := ask(t, g, mcp.Versions[i%len(mcp.Versions)], "select 1")
			conns[i] = dial(t, addr)
			if _, err := io.WriteString(conns[i], head+body[:len(body)/2]); err != nil {
				t.Fatal(err)
			}
		}
		for _, conn := range conns {
			if status, body := exchangeRaw(t, conn, ""); status != 408 {
				t.Errorf("a slow body is answered %d %s", status, body)
			}
			_ = conn.Close()
		}
	}
}

// abandonStreams closes streams after their first event, 25 at a time, while all of their statements run.
func abandonStreams(t *testing.T, g *gatewaytest.Gateway, admin *pgx.Conn, addr string, n int) {
	t.Helper()
	const sleeping = "wait_event = 'PgSleep'"
	streams := make([]opened, 25)
	for range n / len(streams) {
		for i := range streams {
			streams[i] = open(t, addr, mcp.Versions[i%len(mcp.Versions)], "select pg_sleep(600)", "ana-key", g.Key("ana"), "application/json, text/event-stream", preferred)
			if event := streams[i].event(); event != ": still running" {
				t.Fatalf("a stream begins with %q", event)
			}
		}
		await(t, time.Minute, "the statements to run", func() bool { return busy(t, admin, sleeping) == len(streams) })
		for _, s := range streams {
			_ = s.conn.Close()
		}
		await(t, time.Minute, "the statements to end", func() bool { return busy(t, admin, sleeping) == 0 })
	}
}

// busy is how many other sessions of the database there are for which a condition holds.
func busy(t *testing.T, admin *pgx.Conn, condition string) (n int) {
	t.Helper()
	err := admin.QueryRow(t.Context(), fmt.Sprintf(`select count(*) from pg_stat_activity
		where datname = current_database() and pid <> pg_backend_pid() and %s`, condition)).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
