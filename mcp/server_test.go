package mcp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"interlock/mcp"
	"interlock/sqlgov"
)

// start runs the server on a real listener, as cmd does.
func start(t *testing.T, server *mcp.Server) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		if err := server.Shutdown(t.Context()); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("shutting down: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	return listener.Addr().String()
}

// rawCall is a tools/call of interlock_query as bytes on the wire, in a version.
func rawCall(version, sql string) string {
	c := conversation{version: version, key: "ana-key"}
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"interlock_query","arguments":{"source_id":"shop","sql":"` + sql + `"}}}`
	header := c.header(body)
	if version == modernVersion {
		body = withMeta(body)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n", len(body))
	if err := header.Write(&b); err != nil {
		panic(err)
	}
	return b.String() + "\r\n" + body
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestClosingCancels: in every version, closing the connection ends the statement.
func TestClosingCancels(t *testing.T) {
	for _, version := range mcp.Versions {
		server, core := newScripted()
		conn := dial(t, start(t, server))
		fmt.Fprint(conn, rawCall(version, "block"))
		<-core.running
		_ = conn.Close()
		done := make(chan struct{})
		go func() { server.Idle(); close(done) }()
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: the call still runs", version)
		}
	}
}

// TestSlowStatement: neither the deadline for a body nor the one for a reply ends a statement that takes longer.
func TestSlowStatement(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		server, core := newScripted()
		server.BodyTimeout, server.WriteTimeout = 50*time.Millisecond, 50*time.Millisecond
		endpoint := httptest.NewUnstartedServer(server)
		endpoint.EnableHTTP2 = protocol == "HTTP/2.0"
		endpoint.StartTLS()
		t.Cleanup(endpoint.Close)
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(rawCall("2025-11-25", "block"))))
		if err != nil {
			t.Fatal(err)
		}
		req.RequestURI, req.Host = "", ""
		if req.URL, err = url.Parse(endpoint.URL + mcp.Path); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := endpoint.Client().Do(req.WithContext(ctx))
			ended <- err
		}()
		<-core.running
		time.Sleep(200 * time.Millisecond)
		if server.Running("ana") != 1 {
			t.Errorf("%s: the call has ended", protocol)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", protocol, err)
		}
		server.Idle() // the call has ended with its client
	}
}

func TestConcurrencyPerIdentity(t *testing.T) {
	server, core := newScripted()
	server.MaxConcurrent = 1
	addr := start(t, server)
	blocked := dial(t, addr)
	fmt.Fprint(blocked, rawCall("2025-11-25", "block"))
	<-core.running
	for _, version := range mcp.Versions {
		c := caller{conversation{t: t, url: "http://" + addr, version: version, key: "ana-key"}}
		got := c.query("shop", "select 1")
		if got.reason.Status != "rate_limited" || core.lastRecord(t).refusal.Kind != sqlgov.RateLimited {
			t.Errorf("%s: %+v", version, got)
		}
		if want := map[bool]int{true: 429, false: 200}[version == modernVersion]; got.http != want {
			t.Errorf("%s: HTTP status %d, want %d", version, got.http, want)
		}
	}
	_ = blocked.Close()
	c := caller{conversation{t: t, url: "http://" + addr, version: "2025-11-25", key: "ana-key"}}
	for wait := time.Now().Add(30 * time.Second); c.query("shop", "select 1").isError; {
		if time.Now().After(wait) {
			t.Fatal("the place of a call that ended is not given back")
		}
	}
}

// exchangeRaw sends bytes and returns the status and body of the reply.
func exchangeRaw(t *testing.T, conn net.Conn, raw string) (int, string) {
	t.Helper()
	if _, err := io.WriteString(conn, raw); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

const head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"

func TestBodyLimits(t *testing.T) {
	server, _ := newScripted()
	server.MaxBodyBytes, server.BodyTimeout = 1000, 100*time.Millisecond
	addr := start(t, server)
	for name, test := range map[string]struct {
		raw        string
		status     int
		identifier string
	}{
		"announced too large": {head + "Content-Length: 1001\r\n\r\n", 413, "request_too_large"},
		"chunked too large":   {head + "Transfer-Encoding: chunked\r\n\r\n3e9\r\n" + strings.Repeat(" ", 1001) + "\r\n0\r\n\r\n", 413, "request_too_large"},
		"too slow":            {head + "Content-Length: 1000\r\n\r\n{", 408, ""},
		"too slow for 404":    {strings.Replace(head, "/mcp", "/x", 1) + "Content-Length: 1000\r\n\r\n{", 404, ""},
		"too slow for 415":    {strings.Replace(head, "json", "xml", 1) + "Content-Length: 1000\r\n\r\n{", 415, ""},
		"empty":               {head + "Content-Length: 0\r\n\r\n", 400, "invalid_json"},
		"two lengths":         {head + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400, ""},
		"two hosts":           {head + "Host: evil.example\r\nContent-Length: 2\r\n\r\n{}", 400, ""},
	} {
		status, body := exchangeRaw(t, dial(t, addr), test.raw)
		if status != test.status || !strings.Contains(body, test.identifier) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}

// TestShutdownCancels: a call that outlives the grace is cancelled, and Shutdown returns only after it has ended.
func TestShutdownCancels(t *testing.T) {
	server, core := newScripted()
	conn := dial(t, start(t, server))
	fmt.Fprint(conn, rawCall("2025-11-25", "block"))
	<-core.running
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if server.Running("ana") != 0 {
		t.Error("the call still runs")
	}
}

// TestRecordsNameTheCaller: what the door refuses is recorded with all that is known of who asked.
func TestRecordsNameTheCaller(t *testing.T) {
	for _, version := range mcp.Versions {
		server, core := newScripted()
		c := newCaller(t, server, version)
		c.key = "wrong"
		c.query("shop", "select 1")
		got := core.lastRecord(t)
		if got.refusal.Kind != sqlgov.Unauthenticated || got.source != "shop" || got.caller.Identity != "" || got.caller.Door != sqlgov.MCP {
			t.Errorf("%s: wrong key: %+v", version, got)
		}
		if got.caller.ClientAddr == "" || got.caller.Session == "" || !strings.HasPrefix(got.caller.Application, "conversation") {
			t.Errorf("%s: caller %+v", version, got.caller)
		}
		c.key = "ana-key"
		c.call("interlock_query", `{"source_id":"shop"}`)
		got = core.lastRecord(t)
		if got.refusal.Kind != sqlgov.InvalidInput || got.caller.Identity != "ana" || got.caller.KeyID != "key1" {
			t.Errorf("%s: bad argument: %+v", version, got)
		}
		if len(core.requests) != 0 {
			t.Errorf("%s: a refused call reached the core", version)
		}
	}
}

// TestAuthorizedInEveryVersion: the tools that the catalogue lists need a key at each call, in each version, under
// each name. Authorization that is skipped under an old protocol version is a defect that others had.
func TestAuthorizedInEveryVersion(t *testing.T) {
	for _, version := range mcp.Versions {
		server, core := newScripted()
		c := newCaller(t, server, version)
		c.key = "wrong"
		names := mcp.ToolNames()
		for _, name := range names {
			if got := c.call(name, `{"source_id":"shop","sql":"select 1"}`); got.reason.Status != "unauthenticated" {
				t.Errorf("%s %s: %+v", version, name, got)
			}
		}
		if len(core.recorded) != len(names) {
			t.Errorf("%s: %d records for %d calls", version, len(core.recorded), len(names))
		}
	}
}
