package gateway_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"interlock/audit"
	"interlock/internal/config"
	"interlock/internal/gatewaytest"
	"interlock/internal/pgtest"
	"interlock/internal/redistest"
	"interlock/sqlgov"
)

// keeping is a governance document with a cache. ana and bob may do everything, cy sees a masked column, raw may run
// anything, and what ana deletes waits for bob.
const keeping = `
version: 1
sources:
  shop:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
    cache: {ttl: 1h}
    limits: {statement_timeout: 2s}
  again:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
    limits: {statement_timeout: 2s}
source_roles:
  everything:
    source: shop
    permissions:
      - {allow: [db.table.select, db.table.insert, db.table.update, db.table.delete_rows, db.table.truncate, db.function.execute], on: ["*", "pg_catalog.pg_sleep"]}
  masked:
    source: shop
    permissions: [{allow: [db.table.select], on: ["public.*"]}]
    masks: [{on: ["public.t.secret"], with: hidden}]
  writes-again:
    source: again
    permissions: [{allow: [db.table.select, db.table.insert], on: ["*"]}]
  anything: {source: shop, permissions: [{allow: [db.execute_raw], on: ["*"]}]}
identities:
  ana: {kind: human, grants: [{source: shop, roles: [everything]}, {source: again, roles: [writes-again]}]}
  bob: {kind: human, grants: [{source: shop, roles: [everything]}]}
  cy: {kind: human, grants: [{source: shop, roles: [masked]}]}
  raw: {kind: human, grants: [{source: shop, roles: [anything]}]}
groups: {owners: [bob]}
masks: {hidden: {kind: "null"}}
policies:
  deletes-wait: {when: 'statement.kind == "delete"', hold: {groups: [owners]}}
`

var keptTables = []string{
	`create table t (i int primary key, secret text, at timestamptz, day text);
	insert into t values (1, 'hidden', '2024-05-05 12:00+00', '2024-05-05');
	create table parted (i int) partition by range (i); create table parted_1 partition of parted for values from (0) to (10);
	create table guarded (i int); alter table guarded enable row level security;
	create view v as select i from t;
	create function changes() returns int language sql as 'insert into t values (500 + (select count(*) from t)) returning i';
	create function claims_stable() returns int stable language sql as 'select 1';
	create view sly as select changes() as i;
	create materialized view m as select i from t;`}

func short(c *config.Config) { c.Limits.WriteLease = time.Second }

// warm waits until results of a gateway are kept: it does not know of writes from before its start.
func warm(t *testing.T, g *gatewaytest.Gateway) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if s := call(t, g.MCP, g.Key("ana"), "select 'warm'"); s.cache == "hit" {
			return
		} else if s.state != "" || time.Now().After(deadline) {
			t.Fatalf("no result is kept: %+v", s)
		}
	}
}

func administrator(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// Results are kept of reads that give the same as long as the data is the same, for those who get the same. Every write
// through either door ends them, whichever way it is made.
func TestResultsAreKept(t *testing.T) {
	t.Parallel()
	database := pgtest.Start(t).Database(t, keptTables...)
	g := gatewaytest.Start(t, gatewaytest.Options{Database: database, Governance: keeping, Configure: short})
	warm(t, g)
	admin := administrator(t, database)
	t.Run("eligible", func(t *testing.T) { keptByStatement(t, g) })
	t.Run("callers", func(t *testing.T) { keptByCaller(t, g, admin) })
	t.Run("writes", func(t *testing.T) { endedByWrites(t, g, admin) })
	t.Run("transactions", func(t *testing.T) { endedByTransactions(t, g) })
	t.Run("steps", func(t *testing.T) { stepsBeforeTheCache(t, g) })
	if open := unended(g); open > 0 {
		t.Errorf("%d intents have no outcome", open)
	}
}

func keptByStatement(t *testing.T, g *gatewaytest.Gateway) {
	for sql, kept := range map[string]bool{
		"select i, secret from t where i > 0 order by i":                                      true,
		"select count(*), max(i) from t":                                                      true,
		"select date_trunc('day', at), to_char(at, 'YYYY') from t where at > '2020-01-01'":    true,
		"select i from t where exists (select from parted)":                                   true,
		"with x as (select i from t) select * from x join m using (i)":                        true,
		"select i from t where secret like '%x%' order by at + interval '1 day' limit 3":      true,
		"select now(), i from t":                                                              false,
		"select current_date, i from t":                                                       false,
		"select localtimestamp, i from t":                                                     false,
		"select 'now'::timestamptz, i from t":                                                 false,
		"select i from t where at < 'yesterday'":                                              false,
		`select i from t where at < E'\x6eow'`:                                                false,
		`select i from t where at < u&'\006eow'`:                                              false,
		"select ('n' || 'ow')::timestamptz, i from t":                                         false,
		"select day::date from t":                                                             false,
		"select array[day]::date[] from t":                                                    false,
		"select * from json_to_record('{\"a\": \"n\\u006fw\"}') x(a timestamptz)":             false,
		"select * from jsonb_populate_record(null::t, jsonb_build_object('at', 'n' || 'ow'))": false,
		"select age(at), i from t":                                                            false,
		"select '12:00'::time with time zone, i from t":                                       false,
		"select random(), i from t":                                                           false,
		"select current_user, i from t":                                                       false,
		"select version(), i from t":                                                          false,
		"select i from t for update":                                                          false,
		"select i from v":                                                                     false,
		"select i from guarded":                                                               false,
		"select claims_stable()":                                                              false,
		"select relname from pg_class":                                                        false,
		"select i from t tablesample bernoulli (50)":                                          false,
		"explain select i from t":                                                             false,
		"show statement_timeout":                                                              false,
		"insert into parted values (1) returning i":                                           false,
	} {
		first, second := call(t, g.MCP, g.Key("ana"), sql), call(t, g.MCP, g.Key("ana"), sql)
		switch {
		case first.state != "" || second.state != "":
			t.Errorf("%s: %+v, %+v", sql, first, second)
		case first.cache != "":
			t.Errorf("%s: was kept before", sql)
		case (second.cache == "hit") != kept:
			t.Errorf("%s: the second time: %q", sql, second.cache)
		}
	}
}

// The attack: what one caller may see is served to another, or with another bound.
func keptByCaller(t *testing.T, g *gatewaytest.Gateway, admin *pgx.Conn) {
	const sql = "select secret from t"
	shown := func(who string) said { return call(t, g.MCP, g.Key(who), sql) }
	for i, step := range []struct{ who, cache, rows string }{
		{"ana", "", `[{"secret":"hidden"}]`}, {"ana", "hit", `[{"secret":"hidden"}]`}, {"bob", "hit", `[{"secret":"hidden"}]`},
		{"cy", "", `[{"secret":null}]`}, {"cy", "hit", `[{"secret":null}]`}, {"ana", "hit", `[{"secret":"hidden"}]`},
	} {
		if s := shown(step.who); s.cache != step.cache || s.rows != step.rows {
			t.Errorf("step %d: %+v, want %+v", i, s, step)
		}
	}
	// What is served is really kept: a change behind the gateway does not show. That is why caches are off by default.
	if _, err := admin.Exec(t.Context(), "update t set secret = 'other'"); err != nil {
		t.Fatal(err)
	}
	if s := shown("ana"); s.cache != "hit" || s.rows != `[{"secret":"hidden"}]` {
		t.Errorf("after a change behind the gateway: %+v", s)
	}
	hits, masked := 0, 0
	for _, r := range g.Records(audit.Filter{Identity: "cy"}) {
		if r.Outcome.Cache == "hit" {
			hits++
			masked += len(r.Outcome.Masks)
			if r.Outcome.Rows != 1 || r.Outcome.Bytes == 0 {
				t.Errorf("outcome of a hit: %+v", r.Outcome)
			}
		}
	}
	if hits != 1 || masked != 1 {
		t.Errorf("%d hits are on record, %d with masks", hits, masked)
	}
}

func endedByWrites(t *testing.T, g *gatewaytest.Gateway, admin *pgx.Conn) {
	conn, s := connect(t, g.DSN("ana", "shop"))
	if s.state != "" {
		t.Fatal(s)
	}
	again, s := connect(t, g.DSN("ana", "again"))
	if s.state != "" {
		t.Fatal(s)
	}
	raw, s := connect(t, g.DSN("raw", "shop"))
	if s.state != "" {
		t.Fatal(s)
	}
	overMCP := func(sql string) func() said { return func() said { return call(t, g.MCP, g.Key("ana"), sql) } }
	for _, write := range []struct {
		name string
		run  func() said
	}{
		{"insert over MCP", overMCP("insert into t values (100)")},
		{"function over MCP", overMCP("select changes()")},
		{"write in a CTE", overMCP("with x as (insert into t values (101) returning i) select i from x")},
		{"simple", func() said { return simple(conn, "update t set secret = 'b' where i = 1") }},
		{"extended", func() said { return extended(conn, "update t set secret = 'c' where i = 1") }},
		{"several", func() said { return simple(conn, "select 1; update t set secret = 'd' where i = 1; select 2") }},
		{"prepared", func() said { return simple(conn, "prepare p as update t set secret = 'e' where i = 1; execute p") }},
		{"function", func() said { return simple(conn, "select claims_stable()") }},
		{"function in a view", func() said { return simple(conn, "select i from sly") }},
		{"truncate", func() said { return simple(conn, "truncate t") }},
		{"copy", func() said {
			_, err := conn.PgConn().CopyFrom(t.Context(), strings.NewReader("1\n2\n"), "copy t (i) from stdin")
			return wireSaid(err)
		}},
		{"raw", func() said { return simple(raw, "do $$ begin insert into t values (200); end $$") }},
		{"another source on the same data", func() said { return simple(again, "insert into t (i) values (300)") }},
		{"approved", func() said { return approve(t, g, "delete from t where i = 300") }},
	} {
		const sql = "select i, secret from t order by i"
		call(t, g.MCP, g.Key("ana"), sql)
		if s := call(t, g.MCP, g.Key("ana"), sql); s.cache != "hit" {
			t.Fatalf("before %s: %+v", write.name, s)
		}
		if s := write.run(); s.state != "" {
			t.Fatalf("%s: %+v", write.name, s)
		}
		var want string
		if err := admin.QueryRow(t.Context(), "select coalesce(json_agg(x order by i), '[]')::jsonb::text from (select i, secret from t) x").Scan(&want); err != nil {
			t.Fatal(err)
		}
		if s := call(t, g.MCP, g.Key("ana"), sql); s.cache != "" || s.rows != strings.ReplaceAll(want, " ", "") {
			t.Errorf("after %s: %+v, want %s", write.name, s, want)
		}
	}
}

// approve has a statement of ana held, approved by bob, and waits until it has been run.
func approve(t *testing.T, g *gatewaytest.Gateway, sql string) said {
	t.Helper()
	if s := call(t, g.MCP, g.Key("ana"), sql); s.state != "" {
		return s
	}
	held, err := g.Core.Approvals.Store.FindApprovals(t.Context(), sqlgov.ApprovalFilter{States: []sqlgov.ApprovalState{sqlgov.ApprovalPending}, Limit: 1})
	if err != nil || len(held) != 1 {
		t.Fatalf("%d held, %v", len(held), err)
	}
	bob := sqlgov.Caller{Identity: "bob", KeyID: keyID(t, g, "bob"), Door: sqlgov.Admin}
	if _, err := g.Core.VoteApproval(t.Context(), bob, held[0].ID, sqlgov.ApprovalVote{Reason: "fine"}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		done, err := g.Core.Approvals.Store.FindApprovals(t.Context(), sqlgov.ApprovalFilter{States: []sqlgov.ApprovalState{sqlgov.ApprovalDone}, Limit: 1})
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("it is not run: %v", err)
		}
		if len(done) == 1 {
			return said{}
		}
	}
}

func keyID(t *testing.T, g *gatewaytest.Gateway, who string) string {
	t.Helper()
	g.Key(who)
	keys, err := g.Keys.List(t.Context(), who)
	if err != nil || len(keys) == 0 {
		t.Fatal(keys, err)
	}
	return keys[0].ID
}

// While a transaction has written and not ended, nothing is kept: not what was before it, nor what is read beside it.
func endedByTransactions(t *testing.T, g *gatewaytest.Gateway) {
	const sql = "select count(*) from parted"
	read := func() said { return call(t, g.MCP, g.Key("ana"), sql) }
	conn, s := connect(t, g.DSN("ana", "shop"))
	if s.state != "" {
		t.Fatal(s)
	}
	expect := func(what, cache string, same string) string {
		t.Helper()
		s := read()
		if s.state != "" || s.cache != cache || same != "" && s.rows != same {
			t.Errorf("%s: %+v, want %q %s", what, s, cache, same)
		}
		return s.rows
	}
	for _, end := range []string{"commit", "rollback", "close"} {
		before := expect("first", "", "")
		expect("second", "hit", before)
		simple(conn, "begin")
		simple(conn, "select i from t")
		expect("beside a transaction that reads", "hit", before)
		simple(conn, "insert into parted values (5)")
		expect("while it writes", "", before)
		expect("while it writes, again", "", before)
		if end == "close" {
			_ = conn.Close(t.Context())
		} else if s := simple(conn, end); s.state != "" {
			t.Fatal(s)
		}
		for deadline := time.Now().Add(time.Minute); end == "close" && read().cache == ""; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("a session that is gone keeps the cache empty")
			}
		}
		if after := read(); (after.rows != before) != (end == "commit") {
			t.Errorf("after %s: %+v, before: %s", end, after, before)
		}
		simple(conn, "update t set i = i") // for the next round
	}
	conn, _ = connect(t, g.DSN("ana", "shop"))
	pipeline := &pgx.Batch{}
	for range 3 {
		pipeline.Queue("insert into parted values (6)")
	}
	before := expect("before a pipeline", "hit", "")
	if err := conn.SendBatch(t.Context(), pipeline).Close(); err != nil {
		t.Fatal(err)
	}
	if after := expect("after a pipeline", "", ""); after == before {
		t.Errorf("after a pipeline: %s", after)
	}
}

// The attack: an answer from the cache to somebody who would be refused.
func stepsBeforeTheCache(t *testing.T, g *gatewaytest.Gateway) {
	const sql = "select i from m"
	call(t, g.MCP, g.Key("bob"), sql)
	old := g.Key("bob")
	g.Revoke("bob")
	if s := call(t, g.MCP, old, sql); s.status != 401 {
		t.Errorf("with a revoked key: %+v", s)
	}
	refused := map[string]string{
		strings.Replace(keeping, "kind: postgres", "kind: postgres\n    disabled: true", 1):          "08004",
		strings.Replace(keeping, "{statement_timeout: 2s}", "{statement_timeout: 2s, rate: 1/h}", 1): "53400",
	}
	for document, state := range refused {
		g.Apply(document)
		call(t, g.MCP, g.Key("ana"), sql)
		if s := call(t, g.MCP, g.Key("ana"), sql); s.state != state || s.cache != "" {
			t.Errorf("%s: %+v", state, s)
		}
	}
}

// A write on one node is never followed by a read on the other that does not show it. INTERLOCK_CACHE_ROUNDS sets how
// often that is tried. Where writes are not announced, the second round fails.
func TestTwoNodesServeNothingStale(t *testing.T) {
	t.Parallel()
	rounds := 100
	if n, err := strconv.Atoi(os.Getenv("INTERLOCK_CACHE_ROUNDS")); err == nil {
		rounds = n
	}
	redis := redistest.Start(t)
	database := pgtest.Start(t).Database(t, "create table t (i int, n int); insert into t values (1, 0)")
	nodes := []*gatewaytest.Gateway{sharing(t, database, redis.URL(), keeping, short), sharing(t, database, redis.URL(), keeping, short)}
	var sessions [2]*pgx.Conn
	for i, g := range nodes {
		warm(t, g)
		sessions[i], _ = connect(t, g.DSN("ana", "shop"))
	}
	const sql = "select n from t where i = 1"
	hits, stale := 0, 0
	for n := 1; n <= rounds; n++ {
		writer, reader := n%2, (n+1)%2
		g := nodes[reader]
		update := fmt.Sprintf("update t set n = %d where i = 1", n)
		done := make(chan said, 1)
		go func() { // one that reads all the time, also while it is written
			done <- call(t, g.MCP, g.Key("ana"), sql)
		}()
		var s said
		switch n % 4 {
		case 0, 1:
			s = call(t, nodes[writer].MCP, nodes[writer].Key("ana"), update)
		case 2:
			s = simple(sessions[writer], update)
		case 3:
			s = simple(sessions[writer], "begin; "+update)
			call(t, g.MCP, g.Key("ana"), sql)
			if s.state == "" {
				s = simple(sessions[writer], "commit")
			}
		}
		if s.state != "" {
			t.Fatalf("round %d: %+v", n, s)
		}
		want := fmt.Sprintf(`[{"n":%d}]`, n)
		for range 2 {
			s = call(t, g.MCP, g.Key("ana"), sql)
			if s.rows != want {
				stale++
				t.Errorf("round %d: %+v, want %s", n, s, want)
			}
			if s.cache == "hit" {
				hits++
			}
		}
		<-done
		if stale > 5 {
			t.FailNow()
		}
	}
	t.Logf("%d rounds, %d of %d reads from the cache, %d stale", rounds, hits, 2*rounds, stale)
	if hits < rounds/2 {
		t.Errorf("only %d of %d reads were served from the cache", hits, 2*rounds)
	}
}

// Without Redis nothing is served from the cache, and what writes is refused and not run, a commit included. When it is
// back, and empty, nothing is served before every write that it has forgotten must have ended.
func TestRedisLostBesideACache(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	database := pgtest.Start(t).Database(t, keptTables...)
	g := sharing(t, database, redis.URL(), keeping, short)
	warm(t, g)
	const sql = "select i from t"
	conn, _ := connect(t, g.DSN("ana", "shop"))
	call(t, g.MCP, g.Key("ana"), sql)
	if s := simple(conn, "begin; insert into t values (2)"); s.state != "" {
		t.Fatal(s)
	}
	redis.Kill()
	if s := simple(conn, "commit"); s.state != "58030" {
		t.Errorf("commit: %+v", s)
	}
	simple(conn, "rollback")
	for name, run := range map[string]func() said{
		"over MCP": func() said { return call(t, g.MCP, g.Key("ana"), "insert into t values (3)") },
		"simple":   func() said { return simple(conn, "insert into t values (4)") },
		"extended": func() said { return extended(conn, "insert into t values (5)") },
		"function": func() said { return simple(conn, "select changes()") },
	} {
		if s := run(); s.state != "58030" {
			t.Errorf("%s: %+v", name, s)
		}
	}
	for range 2 {
		if s := call(t, g.MCP, g.Key("ana"), sql); s.state != "" || s.cache != "" || s.rows != `[{"i":1}]` {
			t.Errorf("a read: %+v", s)
		}
	}
	redis.Restart()
	begun := time.Now()
	warm(t, g)
	if waited := time.Since(begun); waited < 2*time.Second {
		t.Errorf("results are kept %s after Redis had forgotten who writes", waited)
	}
	if s := simple(conn, "insert into t values (6)"); s.state != "" {
		t.Errorf("afterwards: %+v", s)
	}
	if s := call(t, g.MCP, g.Key("ana"), sql); s.rows != `[{"i":1},{"i":6}]` {
		t.Errorf("afterwards: %+v", s)
	}
}
