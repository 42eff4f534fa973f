package mcp_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"interlock/mcp"
)

// cancelled sends notifications/cancelled for the calls of rawCall, whose id is 1.
func cancelled(t *testing.T, addr, version, key, id string) {
	t.Helper()
	c := conversation{t: t, url: "http://" + addr, version: version, key: key}
	body := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
	if got := c.send(http.MethodPost, mcp.Path, c.header(body), body); got.status != 202 || len(got.raw) != 0 {
		t.Errorf("%s: a notification is answered %d %s", version, got.status, got.raw)
	}
}

// TestCancelledNotification: a handshake client cancels its call by its id and leaves the connection open, and is told so
// as well. The notification of another key, of no key and for another id cancels nothing.
func TestCancelledNotification(t *testing.T) {
	for _, version := range mcp.Versions[1:] {
		server, core := newScripted()
		addr := start(t, server)
		conn := dial(t, addr)
		fmt.Fprint(conn, rawCall(version, "block"))
		<-core.running
		cancelled(t, addr, version, "wrong", "1")
		cancelled(t, addr, version, "", "1")
		cancelled(t, addr, version, "ana-key", `"1"`)
		cancelled(t, addr, version, "ana-key", "2")
		cancelled(t, addr, version, "ana-key", "null")
		if server.Running("ana") != 1 {
			t.Fatalf("%s: the call has ended", version)
		}
		cancelled(t, addr, version, "ana-key", "1")
		if _, body := exchangeRaw(t, conn, ""); !strings.Contains(body, `"status":"canceled"`) {
			t.Errorf("%s: got %s", version, body)
		}
		server.Idle()
		if n := server.Cancellable(); n != 0 {
			t.Errorf("%s: %d calls are kept", version, n)
		}
	}
}

// TestCancelledIsNotGuessed: of two calls with the same key and id, none is cancelled; nor is a modern one, whose client
// closes the connection.
func TestCancelledIsNotGuessed(t *testing.T) {
	server, core := newScripted()
	addr := start(t, server)
	for _, version := range []string{"2025-06-18", "2025-11-25", modernVersion} {
		fmt.Fprint(dial(t, addr), rawCall(version, "block"))
		<-core.running
	}
	cancelled(t, addr, "2025-11-25", "ana-key", "1")
	cancelled(t, addr, modernVersion, "ana-key", "1")
	if n := server.Running("ana"); n != 3 {
		t.Errorf("%d calls run, want 3", n)
	}
}
