package mcp_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"interlock/mcp"
)

// opened is a call whose reply is a stream.
type opened struct {
	*http.Response
	conn  net.Conn
	lines *bufio.Scanner
}

// open sends a call of interlock_query on a connection of its own and returns when the reply begins.
func open(t *testing.T, addr, version, sql string, change ...string) opened {
	t.Helper()
	conn := dial(t, addr)
	raw := strings.NewReplacer(change...).Replace(rawCall(version, sql))
	head, body, _ := strings.Cut(raw, "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	for i := range lines {
		if strings.HasPrefix(lines[i], "Content-Length:") {
			lines[i] = fmt.Sprintf("Content-Length: %d", len(body))
		}
	}
	if _, err := io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n\r\n"+body); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return opened{resp, conn, bufio.NewScanner(resp.Body)}
}

// event returns the data of the next event, or the text of a comment; "" at the end.
func (o opened) event() (data string) {
	for o.lines.Scan() {
		line := o.lines.Text()
		if line == "" {
			return data
		}
		data += strings.TrimPrefix(line, "data: ")
		data = strings.TrimPrefix(data, "event: message")
	}
	return data
}

// withToken puts a progress token into the _meta of a call.
func withToken(version, token string) []string {
	if version == modernVersion {
		return []string{`"_meta":{`, `"_meta":{"progressToken":` + token + `,`}
	}
	return []string{`"params":{`, `"params":{"_meta":{"progressToken":` + token + `},`}
}

const preferred = "text/event-stream, application/json;q=0.9"

// TestProgress: a client that gave a token hears of a slow call, by a progress that grows, and then gets its result on
// the same stream; one that is answered at once gets a plain reply.
func TestProgress(t *testing.T) {
	for _, version := range mcp.Versions {
		server, core := newScripted()
		server.ProgressInterval = time.Millisecond
		addr := start(t, server)
		for _, token := range []string{`"p\u00e4"`, `9007199254740993`} {
			o := open(t, addr, version, "wait", withToken(version, token)...)
			<-core.running
			if o.StatusCode != 200 || o.Header.Get("Content-Type") != "text/event-stream" || o.Header.Get("X-Accel-Buffering") != "no" ||
				o.Header.Get("Cache-Control") != "no-store" || !ulids.MatchString(o.Header.Get("X-Correlation-Id")) {
				t.Errorf("%s: %d %v", version, o.StatusCode, o.Header)
			}
			for n := 1; n <= 3; n++ {
				want := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,`, token, n)
				if got := o.event(); !strings.HasPrefix(got, want) {
					t.Errorf("%s: got %s, want %s", version, got, want)
				}
			}
			core.release <- struct{}{}
			last := ""
			for event := o.event(); event != ""; event = o.event() {
				last = event
			}
			if !strings.HasPrefix(last, `{"jsonrpc":"2.0","id":1,"result":`) || !strings.Contains(last, `[{\"?column?\":1}]`) {
				t.Errorf("%s: the stream ends with %s", version, last)
			}
		}
		server.ProgressInterval = time.Hour
		if o := open(t, addr, version, "select 1", withToken(version, "1")...); o.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: an answer at once is %v", version, o.Header)
		}
		for _, wrong := range []string{"1.5", "null", "[]", "{}"} {
			if o := open(t, addr, version, "select 1", withToken(version, wrong)...); o.StatusCode != 400 {
				t.Errorf("%s: token %s: %d", version, wrong, o.StatusCode)
			}
		}
	}
}

// TestPreferredStream: weights decide between the two forms, and what is refused at once keeps its HTTP status.
func TestPreferredStream(t *testing.T) {
	for _, version := range mcp.Versions {
		server, core := newScripted()
		server.ProgressInterval = time.Millisecond
		addr := start(t, server)
		for accept, streams := range map[string]bool{
			preferred: true, "application/json;q=0.5, text/event-stream;q=0.6": true,
			"application/json, text/event-stream": false, "text/event-stream, application/json": false, "text/event-stream;q=0.1, application/json": false,
		} {
			o := open(t, addr, version, "select 1", "application/json, text/event-stream", accept)
			if got := o.Header.Get("Content-Type") == "text/event-stream"; o.StatusCode != 200 || got != streams {
				t.Errorf("%s: Accept %q: %d %v", version, accept, o.StatusCode, o.Header)
			}
		}
		o := open(t, addr, version, "wait", "application/json, text/event-stream", preferred)
		<-core.running
		if got := o.event(); got != ": still running" {
			t.Errorf("%s: got %q", version, got)
		}
		core.release <- struct{}{}
		server.ProgressInterval = time.Hour
		o = open(t, addr, version, "select 1", "application/json, text/event-stream", preferred, "ana-key", "wrong")
		if want := map[bool]int{true: 401, false: 200}[version == modernVersion]; o.StatusCode != want {
			t.Errorf("%s: without a key: %d, want %d", version, o.StatusCode, want)
		}
	}
}

// TestStuckStream: a client that does not read is given up, and its call with it.
func TestStuckStream(t *testing.T) {
	server, core := newScripted()
	server.ProgressInterval, server.WriteTimeout = time.Microsecond, 50*time.Millisecond
	conn := dial(t, start(t, server))
	if err := conn.(*net.TCPConn).SetReadBuffer(1); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, strings.Replace(rawCall("2025-11-25", "block"), "application/json, text/event-stream", preferred, 1)); err != nil {
		t.Fatal(err)
	}
	<-core.running
	server.Idle()
}
