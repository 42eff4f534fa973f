package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"interlock/internal/cluster"
	"interlock/internal/config"
	"interlock/internal/gateway"
	"interlock/internal/gatewaytest"
	"interlock/internal/pgtest"
	"interlock/internal/redistest"
	"interlock/sqlgov"
)

// faultDocument governs a source with a cache, by a login that is no superuser. What is inserted into held waits for dora.
const faultDocument = `
version: 1
sources:
  shop:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: gate, tls: disable}
    cache: {ttl: 1h}
    limits: {statement_timeout: 2s}
source_roles:
  everything:
    source: shop
    permissions: [{allow: [db.table.select, db.table.insert, db.table.describe], on: [public.t.n, public.held.n]}]
identities:
  ana: {kind: human, grants: [{source: shop, roles: [everything]}]}
  dora: {kind: human}
groups: {dba: [dora]}
policies:
  ask: {when: '"public.held" in statement.writes', hold: {groups: [dba]}}
`

// faultyPolicy cannot be evaluated.
const faultyPolicy = `  faulty: {when: 'identity.attributes.missing == "x"', read_only: true}
`

const faultTables = `create role gate login;
	create table t (n int, secret text); insert into t values (1, 'x');
	create table held (n int, secret text);
	grant all on t, held to gate`

// answers are what is expected of an operation, by what is lost.
type answers map[string]string

// operations are what is tried while something is lost, in this order. They answer "ok", or by what they are refused:
// the SQLSTATE; over HTTP the status, the code of JSON-RPC and the SQLSTATE.
var operations = []struct {
	name string
	try  func(*faulty) string
	want answers
}{
	{"simple read", func(f *faulty) string { return f.wire(simple, "select n from t where n = 1") },
		answers{"nothing": "ok", "Redis": "ok", "audit disk": "58030", "catalog": "42501", "policy": "42501", "upstream": "FATAL 08006", "store": "58000"}},
	{"extended read", func(f *faulty) string { return f.wire(extended, "select n from t where n = 1") },
		answers{"nothing": "ok", "Redis": "ok", "audit disk": "58030", "catalog": "42501", "policy": "42501", "upstream": "FATAL 08006", "store": "58000"}},
	{"read over MCP", func(f *faulty) string { return f.mcp(fmt.Sprintf("select n from t where n = 1 and 0 < %d", f.next())) },
		answers{"nothing": "ok", "Redis": "ok", "audit disk": "200 -32603 58030", "catalog": "200 -32602 42501", "policy": "403 -32602 42501", "upstream": "200 -32603 08006", "store": "200 -32603"}},
	{"read from the cache", func(f *faulty) string { return f.mcp(cachedRead) },
		answers{"nothing": "hit", "Redis": "ok", "audit disk": "200 -32603 58030", "catalog": "hit", "policy": "403 -32602 42501", "upstream": "hit", "store": "200 -32603"}},
	{"simple write", func(f *faulty) string { return f.wire(simple, f.insert("t")) },
		answers{"nothing": "ok", "Redis": "58030", "audit disk": "58030", "catalog": "42501", "policy": "42501", "upstream": "FATAL 08006", "store": "58000"}},
	{"extended write", func(f *faulty) string { return f.wire(extended, f.insert("t")) },
		answers{"nothing": "ok", "Redis": "58030", "audit disk": "58030", "catalog": "42501", "policy": "42501", "upstream": "FATAL 08006", "store": "58000"}},
	{"write over MCP", func(f *faulty) string { return f.mcp(f.insert("t")) },
		answers{"nothing": "ok", "Redis": "200 -32603 58030", "audit disk": "200 -32603 58030", "catalog": "200 -32602 42501", "policy": "403 -32602 42501", "upstream": "200 -32603 08006", "store": "200 -32603"}},
	{"held write", func(f *faulty) string { return f.wire(simple, f.insert("held")) },
		answers{"nothing": "queued", "Redis": "queued", "audit disk": "58030", "catalog": "queued", "policy": "42501", "upstream": "FATAL 08006", "store": "58000"}},
	{"held write over MCP", func(f *faulty) string { return f.mcp(f.insert("held")) },
		answers{"nothing": "queued", "Redis": "queued", "audit disk": "200 -32603 58030", "catalog": "queued", "policy": "403 -32602 42501", "upstream": "queued", "store": "200 -32603"}},
	{"approval and run", func(f *faulty) string { return f.vote(f.waiting) },
		answers{"nothing": "200 done", "Redis": "200 failed", "audit disk": "200 failed", "catalog": "200 failed", "policy": "200 void", "upstream": "200 failed", "store": "500 internal"}},
	{"introspection", func(f *faulty) string { return f.wire(simple, "select relname from pg_class where relname = 't'") },
		answers{"nothing": "ok", "Redis": "ok", "audit disk": "58030", "catalog": "42501", "policy": "42501", "upstream": "FATAL 08006", "store": "58000"}},
	{"describing tool", func(f *faulty) string { return f.answer(f.post("interlock_describe_source", `{"source_id":"shop"}`)) },
		answers{"nothing": "ok", "Redis": "ok", "audit disk": "200 -32603 58030", "catalog": "ok", "policy": "ok", "upstream": "ok", "store": "200 -32603"}},
	{"login", func(f *faulty) string { _, s := connect(f.t, f.g.DSN("ana", "shop")); return f.said(s) },
		answers{"nothing": "ok", "Redis": "ok", "audit disk": "FATAL 58030", "catalog": "ok", "policy": "ok", "upstream": "FATAL 08006", "store": "FATAL 58000"}},
}

const cachedRead = "select n from t where n = 1"

// faulty is a gateway whose dependencies are taken away one after the other.
type faulty struct {
	t      *testing.T
	g      *gatewaytest.Gateway
	server *cluster.Cluster
	redis  *redistest.Server
	audit  string // directory of the audit log
	small  bool   // which is a file system of its own

	sessions []*pgx.Conn // one for each operation of the PostgreSQL door, opened before the fault
	waiting  string      // id of a held statement
	marks    int
	tried    []int // what writes of the operations under way would insert
}

func (f *faulty) next() int { f.marks++; return f.marks + 100 }

func (f *faulty) insert(table string) string {
	n := f.next()
	f.tried = append(f.tried, n)
	return fmt.Sprintf("insert into %s (n) values (%d)", table, n)
}

func (f *faulty) wire(run func(*pgx.Conn, string) said, sql string) string {
	conn := f.sessions[0]
	f.sessions = f.sessions[1:]
	return f.said(run(conn, sql))
}

func (f *faulty) said(s said) string {
	switch {
	case s.state == "":
		return "ok"
	case strings.Contains(s.message, "needs an approval"):
		return "queued"
	case strings.HasPrefix(s.message, "FATAL"):
		return "FATAL " + s.state
	case s.state == "?":
		return "closed"
	}
	return s.state
}

func (f *faulty) mcp(sql string) string {
	arguments, err := json.Marshal(map[string]string{"source_id": "shop", "sql": sql})
	if err != nil {
		f.t.Fatal(err)
	}
	return f.answer(f.post("interlock_query", string(arguments)))
}

// post calls a tool in the modern dialect.
func (f *faulty) post(tool, arguments string) (status int, body []byte) {
	f.t.Helper()
	const version = "2026-07-28"
	text := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"io.modelcontextprotocol/protocolVersion":%q,
		"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"}}}}`, tool, arguments, version)
	return f.do(f.g.MCP, "ana", text, map[string]string{"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": version,
		"Mcp-Method": "tools/call", "Mcp-Name": tool})
}

func (f *faulty) do(url, who, text string, headers map[string]string) (status int, body []byte) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, url, strings.NewReader(text))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+f.g.Key(who))
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return resp.StatusCode, body
}

func (f *faulty) answer(status int, body []byte) string {
	var a struct {
		Error *struct {
			Code int
			Data struct{ SQLState string }
		}
		Result struct {
			StructuredContent struct {
				Status, Cache string
				Approval      string `json:"approval_id"`
			}
		}
	}
	if err := json.Unmarshal(body, &a); err != nil {
		f.t.Fatalf("%v in %s", err, body)
	}
	switch done := a.Result.StructuredContent; {
	case a.Error != nil:
		return strings.TrimSpace(fmt.Sprintf("%d %d %s", status, a.Error.Code, a.Error.Data.SQLState))
	case done.Status == "queued":
		f.waiting = done.Approval
		return "queued"
	case done.Cache != "":
		return done.Cache
	}
	return "ok"
}

// vote approves what waits, and says how that ended.
func (f *faulty) vote(id string) string {
	status, body := f.do(f.g.AdminURL()+"/v1/approvals/"+id+"/approve", "dora", "", nil)
	var a struct {
		sqlgov.ApprovalView
		Error string
	}
	if err := json.Unmarshal(body, &a); err != nil {
		f.t.Fatalf("%v in %s", err, body)
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s%s", status, a.State, a.Error))
}

// prepare opens the sessions, and has something held and something in the cache.
func (f *faulty) prepare() {
	f.t.Helper()
	f.tried, f.sessions = nil, nil
	f.until("a session opens", func() bool {
		conn, s := connect(f.t, f.g.DSN("ana", "shop"))
		return s.state == "" && simple(conn, "select n from t where n = 1").state == ""
	})
	for range 6 {
		conn, s := connect(f.t, f.g.DSN("ana", "shop"))
		if s.state != "" {
			f.t.Fatal(s)
		}
		f.sessions = append(f.sessions, conn)
	}
	f.until("a result is kept", func() bool { return f.mcp(cachedRead) == "hit" })
	if got := f.mcp(f.insert("held")); got != "queued" {
		f.t.Fatal(got)
	}
}

// until waits for what must happen.
func (f *faulty) until(what string, happened func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); !happened(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("it does not happen that %s", what)
		}
	}
}

// inserted is which of the rows that were tried are in the database.
func (f *faulty) inserted() (n int) {
	f.t.Helper()
	conn, err := pgx.Connect(f.t.Context(), f.server.DSN(pgtest.Superuser, "postgres"))
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(f.t.Context(), "select count(*) from (select n from t union all select n from held) x where n = any($1)", f.tried).Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n
}

func (f *faulty) exec(sql string) {
	f.t.Helper()
	conn, err := pgx.Connect(f.t.Context(), f.server.DSN(pgtest.Superuser, "postgres"))
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(f.t.Context(), sql); err != nil {
		f.t.Fatal(err)
	}
}

func startFaulty(t *testing.T) *faulty {
	f := &faulty{t: t, redis: redistest.Start(t)}
	f.startServer(0)
	f.exec(faultTables)
	url := filepath.Join(t.TempDir(), "redis.url")
	if err := os.WriteFile(url, []byte(f.redis.URL()), 0o600); err != nil {
		t.Fatal(err)
	}
	f.g = gatewaytest.Start(t, gatewaytest.Options{Database: f.server.DSN(pgtest.Superuser, "postgres"), Governance: faultDocument, Configure: func(c *config.Config) {
		c.Redis.URL, c.Redis.Timeout = "file:"+url, 10*time.Second
		c.Limits.WriteLease = time.Second
		c.Breaker.Failures = 1000 // what an open circuit says has a test of its own
		f.audit = gateway.AuditConfig(c).Dir
		if f.small = smallFileSystem(t, f.audit); !f.small {
			c.Audit.SegmentBytes = 1 // every record begins a file
		}
	}})
	return f
}

func (f *faulty) startServer(port int) {
	f.t.Helper()
	server, err := cluster.Start(context.Background(), cluster.Config{Port: port})
	if err != nil {
		f.t.Fatal(err)
	}
	f.server = server
	f.t.Cleanup(func() { _ = server.Stop() })
}

// smallFileSystem mounts one that can be filled, where that is allowed.
func smallFileSystem(t *testing.T, dir string) bool {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16m,mode=0700"); err != nil {
		t.Logf("no small file system can be mounted (%v): a directory that is gone has to do", err)
		return false
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return true
}

// loseAudit leaves no room on the file system of the audit log, or takes its directory away.
func (f *faulty) loseAudit() {
	f.t.Helper()
	if f.small {
		f.fill()
	} else if err := os.Rename(f.audit, f.audit+"-gone"); err != nil {
		f.t.Fatal(err)
	}
	f.until("the log cannot be written", func() bool { return strings.HasSuffix(f.mcp("select n from t"), "58030") })
}

func (f *faulty) findAudit() {
	f.t.Helper()
	err := os.Remove(filepath.Join(f.audit, "ballast"))
	if !f.small {
		err = os.Rename(f.audit+"-gone", f.audit)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *faulty) fill() {
	f.t.Helper()
	ballast, err := os.Create(filepath.Join(f.audit, "ballast"))
	if err != nil {
		f.t.Fatal(err)
	}
	defer ballast.Close()
	for block := 64 << 10; block > 0; {
		if _, err := ballast.Write(make([]byte, block)); err != nil {
			block /= 2
		}
	}
}

// Whatever is lost, by whatever operation: the refusal of the contract, nothing executed, nothing stale; and all of it
// works again when what was lost is back.
func TestFaultsByOperation(t *testing.T) {
	t.Parallel()
	f := startFaulty(t)
	port := f.server.Port()
	for _, fault := range []struct {
		name       string
		lose, back func()
	}{
		{"nothing", func() {}, func() {}},
		{"Redis", f.redis.Kill, f.redis.Restart},
		{"audit disk", f.loseAudit, f.findAudit},
		{"catalog", func() { f.exec("revoke select on pg_class, pg_attribute from public") }, func() { f.exec("grant select on pg_class, pg_attribute to public") }},
		{"policy", func() { f.g.Apply(faultDocument + faultyPolicy) }, func() { f.g.Apply(faultDocument) }},
		{"upstream", func() { _ = f.server.Stop() }, func() { f.startServer(port); f.exec(faultTables) }},
		{"store", func() { _ = f.g.Store.Close() }, func() {}},
	} {
		f.prepare()
		fault.lose()
		ran := 0
		for _, op := range operations {
			got, want := op.try(f), op.want[fault.name]
			if got != want {
				t.Errorf("%s lost: %s: %s, want %s", fault.name, op.name, got, want)
			}
			if writes := strings.Contains(op.name, "write"); writes && want == "ok" || want == "200 done" {
				ran++
			}
		}
		fault.back()
		if n := f.inserted(); n != ran {
			t.Errorf("%s lost: %d writes took effect, want %d", fault.name, n, ran)
		}
	}
	_ = f.g.Stop(t.Context()) // whose store is gone
}
