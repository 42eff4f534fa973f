package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"interlock/audit"
	"interlock/internal/config"
	"interlock/internal/gatewaytest"
	"interlock/internal/pgtest"
	"interlock/internal/redistest"
	"interlock/sqlgov"
)

// limited is a governance document with limits for the source and the identity, as they stand in YAML.
func limited(source, ana string, more ...string) string {
	return `
version: 1
sources:
  shop:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
    limits: {` + source + `}
source_roles:
  everything:
    source: shop
    permissions:
      - {allow: [db.table.select, db.table.insert, db.function.execute], on: ["public.*", "pg_catalog.pg_sleep"]}
identities:
  ana: {kind: human, grants: [{source: shop, roles: [everything]}], limits: {` + ana + `}}
  bob: {kind: human, grants: [{source: shop, roles: [everything]}], limits: {` + ana + `}}
` + strings.Join(more, "\n")
}

var table = []string{"create table t (i int); insert into t values (1)"}

// said is how a gateway answered.
type said struct {
	status     int    // HTTP
	state      string // SQLSTATE; "" if it went well
	message    string
	retryAfter string
	rows       string // JSON
	cache      string
}

// call runs a statement over MCP in the modern dialect, which shows the HTTP status.
func call(t testing.TB, url, key, sql string) said {
	t.Helper()
	const version = "2026-07-28"
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{
		"name": "interlock_query", "arguments": map[string]string{"source_id": "shop", "sql": sql},
		"_meta": map[string]any{"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": map[string]any{},
			"io.modelcontextprotocol/clientInfo": map[string]string{"name": "test", "version": "1"}}}})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + key,
		"MCP-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": "interlock_query"} {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return said{state: "?"}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	type reason struct {
		SQLState, Message, Hint, Cache string
		Rows                           json.RawMessage
	}
	var a struct {
		Error *struct {
			Message string
			Data    reason
		}
		Result struct {
			IsError           bool
			StructuredContent reason
		}
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		t.Errorf("%v in %s", err, answer)
	}
	s := said{status: resp.StatusCode, retryAfter: resp.Header.Get("Retry-After"), rows: string(a.Result.StructuredContent.Rows), cache: a.Result.StructuredContent.Cache}
	switch {
	case a.Error != nil:
		s.state, s.message = a.Error.Data.SQLState, a.Error.Message
	case a.Result.IsError:
		s.state, s.message = a.Result.StructuredContent.SQLState, a.Result.StructuredContent.Message+" "+a.Result.StructuredContent.Hint
	}
	if (a.Error != nil || a.Result.IsError) && s.state == "" {
		s.state = "?"
	}
	return s
}

func connect(t testing.TB, dsn string) (*pgx.Conn, said) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err == nil {
		t.Cleanup(func() { _ = c.Close(context.Background()) })
	}
	return c, wireSaid(err)
}

func wireSaid(err error) said {
	var pe *pgconn.PgError
	switch {
	case err == nil:
		return said{}
	case errors.As(err, &pe):
		return said{state: pe.Code, message: pe.Severity + " " + pe.Message + " " + pe.Hint}
	}
	return said{state: "?", message: err.Error()}
}

// simple runs a statement by the simple protocol.
func simple(c *pgx.Conn, sql string) said {
	_, err := c.PgConn().Exec(context.Background(), sql).ReadAll()
	return wireSaid(err)
}

// extended runs a statement by the extended protocol.
func extended(c *pgx.Conn, sql string) said {
	rows, err := c.Query(context.Background(), sql)
	if err == nil {
		rows.Close()
		err = rows.Err()
	}
	return wireSaid(err)
}

// A rate limit means the same through both doors and both protocols, says when to come back, and counts what runs.
func TestRateLimit(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Setup: table, Governance: limited("rate: 6/h", "rate: 1000/h", `
policies:
  writes-are-rare:
    when: statement.write
    limit: {requests: 1, window: 2h, per: rule}
    message: one write in two hours
`)})
	ana, s := connect(t, g.DSN("ana", "shop"))
	if s.state != "" {
		t.Fatal(s)
	}
	bob, _ := connect(t, g.DSN("bob", "shop"))
	for i, step := range []struct {
		run   func() said
		state string
		says  string
	}{
		{func() said { return simple(ana, "select i from t") }, "", ""},
		{func() said { return extended(ana, "select i from t") }, "", ""}, // Parse, Describe, Bind and Execute are one
		{func() said { return call(t, g.MCP, g.Key("ana"), "select i from t") }, "", ""},
		{func() said { return simple(ana, "select 1; select 2; select 3; select 4") }, "53400", "on source \"shop\" is reached: 6 statements in 1h Try again in 10m"},
		{func() said {
			return simple(ana, "select 1; select 2; select 3; select 4; select 5; select 6; select 7")
		}, "53400", "smaller parts"},
		{func() said { return simple(ana, "begin; select 1; commit; ; rollback") }, "", ""},
		{func() said { return simple(ana, "select i from t") }, "", ""},
		{func() said { return simple(ana, "select i from t") }, "53400", "Try again in"},
		{func() said { return extended(ana, "select i from t") }, "53400", "Try again in"},
		{func() said { return call(t, g.MCP, g.Key("ana"), "select i from t") }, "53400", "is reached"},
		{func() said { return simple(bob, "insert into t values (2)") }, "", ""},
		{func() said { return simple(bob, "insert into t values (3)") }, "53400", "one write in two hours Try again in 2h"},
		{func() said { return simple(bob, "select i from t") }, "", ""},
	} {
		if got := step.run(); got.state != step.state || !strings.Contains(got.message, step.says) {
			t.Errorf("step %d: %+v, want %q %q", i, got, step.state, step.says)
		}
	}
	s = call(t, g.MCP, g.Key("ana"), "select i from t")
	if after, err := strconv.Atoi(s.retryAfter); err != nil || s.status != 429 || after < 500 || after > 600 {
		t.Errorf("over MCP: %+v", s)
	}
	refused := 0
	for _, r := range g.Records(audit.Filter{Events: true}) {
		if r.Outcome != nil && r.Outcome.Refusal != nil && r.Outcome.Refusal.Kind == "rate_limited" {
			refused++
		}
	}
	if refused != 7 {
		t.Errorf("%d refusals are on record", refused)
	}
}

// sharing starts a node of a gateway that shares a database and a Redis with others.
func sharing(t *testing.T, database, redis, document string, more ...func(*config.Config)) *gatewaytest.Gateway {
	t.Helper()
	file := filepath.Join(t.TempDir(), "redis.url")
	if err := os.WriteFile(file, []byte(redis+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return gatewaytest.Start(t, gatewaytest.Options{Database: database, Governance: document, Configure: func(c *config.Config) {
		c.Redis.URL = "file:" + file
		c.Redis.Timeout = 10 * time.Second // a slow machine is no lost Redis
		for _, configure := range more {
			configure(c)
		}
	}})
}

// passed counts the statements that get through when n come over both doors of every node at the same time. Every other
// answer must be that of a rate limit.
func passed(t *testing.T, who string, n int, nodes ...*gatewaytest.Gateway) int {
	t.Helper()
	var through atomic.Int32
	var all sync.WaitGroup
	for _, g := range nodes {
		for w := range 4 {
			conn, s := connect(t, g.DSN(who, "shop"))
			if s.state != "" {
				t.Fatal(s)
			}
			key := g.Key(who)
			all.Go(func() {
				for i := range n / len(nodes) / 4 {
					s := said{}
					switch (i + w) % 3 {
					case 0:
						s = simple(conn, "select i from t")
					case 1:
						s = extended(conn, "select i from t")
					case 2:
						s = call(t, g.MCP, key, "select i from t")
					}
					switch s.state {
					case "":
						through.Add(1)
					case "53400":
					default:
						t.Errorf("%+v", s)
					}
				}
			})
		}
	}
	all.Wait()
	return int(through.Load())
}

// Two nodes under load let 100 of a limit of 100 a minute through in all, beside what flows in meanwhile. When Redis is
// lost, each node keeps to its share; when it is back, they share again.
func TestTwoNodesShareALimit(t *testing.T) {
	redis := redistest.Start(t)
	database := pgtest.Start(t).Database(t, table...)
	document := limited("connections: 50", "rate: 100/min")
	one, two := sharing(t, database, redis.URL(), document), sharing(t, database, redis.URL(), document)
	within := func(what string, n, share int, begun time.Time) {
		t.Helper()
		flow := int(time.Since(begun)/(600*time.Millisecond)) + 1
		t.Logf("%s: %d got through in %s", what, n, time.Since(begun).Round(time.Millisecond))
		if n < share || n > share+flow {
			t.Errorf("%s: %d got through, want %d and up to %d that flowed in", what, n, share, flow)
		}
	}
	begun := time.Now()
	within("both", passed(t, "ana", 400, one, two), 100, begun)
	redis.Kill()
	begun = time.Now()
	within("without Redis", passed(t, "bob", 400, one, two), 50, begun)
	redis.Restart() // empty
	time.Sleep(1100 * time.Millisecond)
	for _, g := range []*gatewaytest.Gateway{one, two} {
		call(t, g.MCP, g.Key("ana"), "select i from t") // finds it
	}
	begun = time.Now()
	within("with Redis again", passed(t, "bob", 400, one, two), 100, begun)
	if open := unended(one) + unended(two); open > 0 {
		t.Errorf("%d intents have no outcome", open)
	}
}

// unended counts the requests of which the log has an intent and no outcome.
func unended(g *gatewaytest.Gateway) int {
	n := 0
	for _, r := range g.Records(audit.Filter{Events: true}) {
		if r.Event == nil && r.Outcome == nil {
			n++
		}
	}
	return n
}

// 100 callers on a source that runs 4 statements at a time, over both doors: all are served in the end, never more than
// 4 at once, and what does not fit in the queue is refused at once.
func TestConcurrency(t *testing.T) {
	database := pgtest.Start(t).Database(t, table...)
	g := gatewaytest.Start(t, gatewaytest.Options{Database: database, Governance: limited("concurrency: 4, queue: 100, queue_wait: 1m, connections: 120", "")})
	admin, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background())
	var all sync.WaitGroup
	var failures atomic.Int32
	g.Key("ana")
	g.Key("bob")
	for i := range 100 {
		who := []string{"ana", "bob"}[i%2]
		all.Go(func() {
			s := said{}
			if i%4 < 2 {
				s = call(t, g.MCP, g.Key(who), "select pg_sleep(0.05)")
			} else if conn, opened := connect(t, g.DSN(who, "shop")); opened.state != "" {
				s = opened
			} else {
				s = extended(conn, "select pg_sleep(0.05)")
			}
			if s.state != "" {
				failures.Add(1)
				t.Errorf("caller %d: %+v", i, s)
			}
		})
	}
	finished := make(chan struct{})
	go func() { all.Wait(); close(finished) }()
	most := 0
	for ended := false; !ended; {
		select {
		case <-finished:
			ended = true
		case <-time.After(5 * time.Millisecond):
		}
		n := 0
		if err := admin.QueryRow(t.Context(), `select count(*) from pg_stat_activity where wait_event = 'PgSleep' and query = 'select pg_sleep(0.05)' and datname = current_database()`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		most = max(most, n)
	}
	if most > 4 || most < 2 {
		t.Errorf("%d statements ran at the same time", most)
	}
	g.Apply(limited("concurrency: 1", ""))
	conn, _ := connect(t, g.DSN("ana", "shop"))
	batch := &pgx.Batch{} // a pipeline is one session, which has one turn
	for range 50 {
		batch.Queue("select i from t")
	}
	if err := conn.SendBatch(t.Context(), batch).Close(); err != nil {
		t.Errorf("a pipeline: %v", err)
	}
	busy := make(chan said)
	go func() { busy <- simple(conn, "select pg_sleep(1)") }()
	time.Sleep(300 * time.Millisecond)
	if s := call(t, g.MCP, g.Key("bob"), "select i from t"); s.state != "53300" || s.status != 429 || s.retryAfter != "1" {
		t.Errorf("over MCP: %+v", s)
	}
	other, _ := connect(t, g.DSN("bob", "shop"))
	if s := simple(other, "select i from t"); s.state != "53300" || !strings.Contains(s.message, "no more may run at the same time") {
		t.Errorf("over the wire: %+v", s)
	}
	if s := <-busy; s.state != "" {
		t.Errorf("the one that ran: %+v", s)
	}
	if s := simple(other, "select i from t"); s.state != "" {
		t.Errorf("afterwards: %+v", s)
	}
}

// Disabling a source ends its open sessions at their next message, whichever it is.
func TestDisabledSourceEndsSessions(t *testing.T) {
	document := limited("connections: 50", "")
	g := gatewaytest.Start(t, gatewaytest.Options{Setup: table, Governance: document})
	for i, next := range []struct {
		name string
		run  func(*pgx.Conn) said
	}{
		{"query", func(c *pgx.Conn) said { return simple(c, "select 1") }},
		{"commit", func(c *pgx.Conn) said { return simple(c, "commit") }},
		{"prepared", func(c *pgx.Conn) said {
			return wireSaid(c.PgConn().ExecPrepared(context.Background(), "p", nil, nil, nil).Read().Err)
		}},
		{"parse", func(c *pgx.Conn) said {
			_, err := c.Prepare(context.Background(), "q", "select 2")
			return wireSaid(err)
		}},
	} {
		if i > 0 {
			g.Apply(document)
		}
		conn, s := connect(t, g.DSN("ana", "shop"))
		if s.state != "" {
			t.Fatal(s)
		}
		if _, err := conn.Prepare(t.Context(), "p", "select i from t"); err != nil {
			t.Fatal(err)
		}
		if s := simple(conn, "begin"); s.state != "" {
			t.Fatal(s)
		}
		g.Apply(strings.Replace(document, "kind: postgres", "kind: postgres\n    disabled: true", 1))
		if s := next.run(conn); s.state != "08004" || !strings.HasPrefix(s.message, "FATAL") || !strings.Contains(s.message, `source "shop" is disabled`) {
			t.Errorf("%s: %+v", next.name, s)
		}
		if s := simple(conn, "select 1"); s.state != "?" {
			t.Errorf("%s: the session goes on: %+v", next.name, s)
		}
		if _, s := connect(t, g.DSN("ana", "shop")); s.state != "08004" {
			t.Errorf("a new session: %+v", s)
		}
	}
	if open := unended(g); open > 0 {
		t.Errorf("%d intents have no outcome", open)
	}
}

// Who shows no valid key cannot flood the audit log; who does is served from the same address.
func TestStrangersCannotFloodTheLog(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Setup: table, Governance: limited("connections: 50", ""), Configure: func(c *config.Config) { c.Limits.StrangerFailures = 10 }})
	counts := map[string]int{}
	for i := range 20 {
		s := call(t, g.MCP, "ilk_"+strings.Repeat("x", 43), "select 1")
		counts[fmt.Sprint(s.status)]++
		if s.status == 429 && s.retryAfter == "" {
			t.Errorf("no Retry-After: %+v", s)
		}
		_, s = connect(t, strings.Replace(g.DSN("ana", "shop"), g.Key("ana"), fmt.Sprint("wrong", i), 1))
		counts[s.state]++
	}
	// a token or two may flow in meanwhile
	if recorded := counts["401"] + counts["28P01"]; recorded < 10 || recorded > 12 || counts["429"]+counts["53400"] != 40-recorded {
		t.Errorf("answers: %v", counts)
	}
	if s := call(t, g.MCP, g.Key("ana"), "select i from t"); s.state != "" {
		t.Errorf("with a key: %+v", s)
	}
	if err := g.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	recorded, omitted := 0, 0
	for _, r := range g.Records(audit.Filter{Events: true}) {
		switch {
		case r.Outcome != nil && r.Outcome.Refusal != nil && r.Outcome.Refusal.Kind == "unauthenticated":
			recorded++
		case r.Event != nil && r.Event.Name == audit.FailuresOmitted:
			n, _ := strconv.Atoi(r.Event.Attributes["count"])
			omitted += n
		}
	}
	if recorded < 10 || recorded > 12 || recorded+omitted != 40 {
		t.Errorf("%d failures are recorded one by one, %d as a number", recorded, omitted)
	}
}

// Redis lost by every operation: none is refused for it, and none gets through more often than this node's share.
func TestRedisLostByOperation(t *testing.T) {
	redis := redistest.Start(t)
	database := pgtest.Start(t).Database(t, table...)
	g := sharing(t, database, redis.URL(), limited("connections: 50, rate: 1000/h", "rate: 8/h")) // a quarter is 2
	redis.Kill()
	describe := func(who string) said {
		g.Key(who)
		keys, err := g.Keys.List(t.Context(), who)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = g.Core.DescribeSource(t.Context(), sqlgov.Caller{Identity: who, KeyID: keys[0].ID, Door: sqlgov.MCP}, "shop")
		var r *sqlgov.Refusal
		if errors.As(err, &r) {
			return said{state: r.SQLState}
		}
		return said{}
	}
	sessions := map[string]*pgx.Conn{}
	for _, who := range []string{"ana", "bob"} {
		conn, s := connect(t, g.DSN(who, "shop"))
		if s.state != "" {
			t.Fatalf("a new session: %+v", s)
		}
		sessions[who] = conn
	}
	for _, tc := range []struct {
		name string
		who  string
		run  func(who string) said
	}{
		{"read over MCP", "ana", func(who string) said { return call(t, g.MCP, g.Key(who), "select i from t") }},
		{"write over MCP", "ana", func(who string) said { return call(t, g.MCP, g.Key(who), "insert into t values (2)") }},
		{"read over the wire", "ana", func(who string) said { return simple(sessions[who], "select i from t") }},
		{"write over the wire", "ana", func(who string) said { return extended(sessions[who], "insert into t values (2)") }},
		{"describe", "ana", describe},
		{"describe", "bob", describe},
		{"write over MCP", "bob", func(who string) said { return call(t, g.MCP, g.Key(who), "insert into t values (2)") }},
		{"read over the wire", "bob", func(who string) said { return simple(sessions[who], "select i from t") }},
	} {
		s := tc.run(tc.who)
		t.Logf("%s by %s: %q", tc.name, tc.who, s.state)
		if s.state != "" && s.state != "53400" {
			t.Errorf("%s by %s: %+v", tc.name, tc.who, s)
		}
	}
	rows := 0
	admin, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background())
	if err := admin.QueryRow(t.Context(), "select count(*) from t").Scan(&rows); err != nil {
		t.Fatal(err)
	}
	ok := map[string]int{}
	for _, r := range g.Records(audit.Filter{}) {
		if r.Status == audit.OK {
			ok[r.Identity]++
		}
	}
	if ok["ana"] != 2 || ok["bob"] != 2 || rows != 3 {
		t.Errorf("got through: %v, rows: %d", ok, rows)
	}
	if text := get(t, g.AdminURL()+"/v1/status"); !strings.Contains(text, "Redis is lost") {
		t.Errorf("status: %s", text)
	}
}
