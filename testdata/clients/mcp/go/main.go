// Command clients takes the MCP clients of two Go libraries, the official SDK and mcp-go, through what an agent meets, in
// every protocol version that they speak. Each step prints what the client's user sees; one that goes otherwise than it
// must fails. With the argument "limited" it does the last step alone, which is for when a rate limit is in force.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// session is a client that is connected.
type session interface {
	server() (name, instructions string)
	tools(ctx context.Context) (int, error)
	call(ctx context.Context, sql string) (reply, error)
	close()
}

// reply is what a library makes of the result of a call.
type reply struct {
	text    string
	isError bool
	status  string // of the structured content
}

// connection is how a session is opened.
type connection struct {
	version string
	key     string
	heard   chan struct{} // gets a value when the client hears that a call still runs, if there is room
}

func (c connection) hear() {
	select {
	case c.heard <- struct{}{}:
	default:
	}
}

// library opens sessions.
type library struct {
	name string
	open func(context.Context, connection) (session, error)
}

var (
	libraries = []library{{"go-sdk 1.8.0", openSDK}, {"mcp-go 1.2.1", openMCPGo}}
	versions  = []string{"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}
	endpoint  = os.Getenv("INTERLOCK_MCP_URL")
	agent     = os.Getenv("INTERLOCK_KEY_AGENT")
)

const slow = "with recursive t(n) as (select 1 union all select n + 1 from t where n < 2000000000) select count(*) from t"

// walk is one library in one version.
type walk struct {
	library
	connection
	session
}

// step returns what the user of the client sees.
type step struct {
	name string
	take func(*walk, context.Context) (string, error)
}

var steps = []step{
	{"connect", (*walk).connect}, {"list", (*walk).list}, {"query", (*walk).query}, {"refused", (*walk).refused},
	{"held", (*walk).held}, {"cancel", (*walk).cancel}, {"key", (*walk).wrongKey},
}

func main() {
	todo := steps
	if len(os.Args) > 1 && os.Args[1] == "limited" {
		todo = []step{{"connect", (*walk).connect}, {"limited", (*walk).limited}}
	}
	failed := false
	for _, lib := range libraries {
		for _, version := range versions {
			w := &walk{library: lib, connection: connection{version: version, key: agent, heard: make(chan struct{}, 1)}}
			failed = w.through(todo) || failed
		}
	}
	if failed {
		os.Exit(1)
	}
}

func (w *walk) through(todo []step) (failed bool) {
	for _, s := range todo {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		shown, err := s.take(w, ctx)
		cancel()
		if err != nil {
			failed = true
			fmt.Printf("FAIL %s %s: %s: %v\n", w.name, w.version, s.name, err)
			continue
		}
		fmt.Printf("ok   %s %s: %s: %s\n", w.name, w.version, s.name, shown)
	}
	if w.session != nil {
		w.close()
	}
	return failed
}

// outcome is what the user of a client sees of a call: the first line of a result, or the error.
func (w *walk) outcome(ctx context.Context, sql string) (shown string, r reply) {
	if w.session == nil {
		return "not connected", r
	}
	r, err := w.call(ctx, sql)
	switch {
	case err != nil:
		return "error: " + line(err.Error()), r
	case r.isError:
		return "result isError: " + line(r.text), r
	}
	return "result: " + line(r.text), r
}

func line(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return first
}

// must is an error unless what is shown is as it must be.
func must(holds bool, shown string) (string, error) {
	if !holds {
		return "", errors.New("unexpected: " + shown)
	}
	return shown, nil
}

func (w *walk) connect(ctx context.Context) (shown string, err error) {
	if w.session, err = w.open(ctx, w.connection); err != nil {
		w.session = nil
		return "", err
	}
	name, instructions := w.server()
	return must(name == "interlock" && instructions != "", name+" "+instructions[:min(40, len(instructions))]+"...")
}

func (w *walk) list(ctx context.Context) (string, error) {
	if w.session == nil {
		return "", errors.New("not connected")
	}
	n, err := w.tools(ctx)
	if err != nil {
		return "", err
	}
	return must(n >= 6, fmt.Sprintf("%d tools", n))
}

func (w *walk) query(ctx context.Context) (string, error) {
	shown, _ := w.outcome(ctx, "select count(*) as n, 9007199254740993 as big from sales.orders")
	return must(strings.HasPrefix(shown, `result: [{"n":`) && strings.HasSuffix(shown, `,"big":9007199254740993}]`), shown)
}

func (w *walk) refused(ctx context.Context) (string, error) {
	shown, _ := w.outcome(ctx, "select name from crm.customers")
	return must(strings.Contains(shown, `permission denied for table "crm.customers`), shown)
}

func (w *walk) held(ctx context.Context) (string, error) {
	shown, r := w.outcome(ctx, "update support.tickets set note = 'solved' where id = 7")
	return must(!r.isError && r.status == "queued" && strings.Contains(r.text, "not executed"), shown)
}

func (w *walk) cancel(ctx context.Context) (string, error) {
	stopped, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-w.heard:
		case <-ctx.Done():
		}
		stop()
	}()
	shown, _ := w.outcome(stopped, slow)
	for running(ctx) {
		if ctx.Err() != nil {
			return "", errors.New("the statement does not end")
		}
		time.Sleep(50 * time.Millisecond)
	}
	if ctx.Err() != nil {
		return "", errors.New("no progress was heard: " + shown)
	}
	return shown + "; heard before that the call runs", nil
}

func running(ctx context.Context) bool {
	out, err := exec.CommandContext(ctx, "psql", os.Getenv("INTERLOCK_UPSTREAM_DSN"), "-tAc",
		"select count(*) from pg_stat_activity where state = 'active' and query like 'with recursive t%'").Output()
	return err != nil || strings.TrimSpace(string(out)) != "0"
}

func (w *walk) wrongKey(ctx context.Context) (string, error) {
	other := &walk{library: w.library, connection: w.connection}
	other.key = "wrong"
	var err error
	if other.session, err = w.open(ctx, other.connection); err != nil {
		return "", err
	}
	defer other.close()
	shown, _ := other.outcome(ctx, "select 1")
	text := strings.ToLower(shown)
	return must(strings.Contains(text, "not valid") || strings.Contains(text, "unauthorized") || strings.Contains(text, "authorization"), shown)
}

func (w *walk) limited(ctx context.Context) (string, error) {
	for {
		shown, _ := w.outcome(ctx, "select 1")
		if strings.Contains(shown, "rate limit") || strings.Contains(shown, "Too Many Requests") {
			return shown, nil
		}
		if !strings.HasPrefix(shown, "result: ") {
			return "", errors.New("unexpected: " + shown)
		}
		if ctx.Err() != nil {
			return "", errors.New("no limit is in force")
		}
	}
}
