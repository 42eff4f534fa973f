package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"interlock/audit"
	"interlock/internal/gatewaytest"
	"interlock/internal/pgtest"
	"interlock/internal/redistest"
	"interlock/sqlgov"
	"interlock/sqlgov/policy"
)

// budgeted is a governance document with a budget of 50 rows of personal data for each of so many identities u0, u1, ...
func budgeted(identities int) string {
	document := `
version: 1
sources:
  shop:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
    cache: {ttl: 1h}
    limits: {statement_timeout: 2s}
source_roles:
  everything:
    source: shop
    permissions:
      - {allow: [db.table.select, db.table.insert, db.function.execute], on: ["public.*", "pg_catalog.*"]}
labels: {pii: ["public.c.ssn"]}
policies:
  people:
    when: '"pii" in statement.labels'
    budget: {rows: 50, window: 24h}
  wide:
    when: '"public.wide" in statement.tables'
    budget: {bytes: 10KiB, window: 24h, per: rule}
  would-be:
    state: dry-run
    when: '"pii" in statement.labels'
    budget: {rows: 1, window: 24h}
identities:
  ana: {kind: human, grants: [{source: shop, roles: [everything]}]}
`
	for i := range identities {
		document += fmt.Sprintf("  u%d: {kind: human, grants: [{source: shop, roles: [everything]}]}\n", i)
	}
	return document
}

var budgetedTables = []string{`create table c (id int, ssn text); insert into c select i, 'ssn-' || i from generate_series(1, 200) i;
	create table wide (t text); insert into wide select repeat('x', 3000) from generate_series(1, 10);
	create table made (ssn text)`}

// spender is somebody with a budget, at both doors.
type spender struct {
	t    *testing.T
	g    *gatewaytest.Gateway
	who  string
	conn *pgx.Conn
}

func spenderOf(t *testing.T, g *gatewaytest.Gateway, who string) *spender {
	t.Helper()
	conn, s := connect(t, g.DSN(who, "shop"))
	if s.state != "" {
		t.Fatal(s)
	}
	return &spender{t, g, who, conn}
}

// simple returns how many rows were released before the answer ended, and how it ended.
func (p *spender) simple(sql string) (rows int, s said) {
	results, err := p.conn.PgConn().Exec(context.Background(), sql).ReadAll()
	for _, r := range results {
		rows += len(r.Rows)
	}
	return rows, wireSaid(err)
}

func (p *spender) extended(sql string) (rows int, s said) {
	r := p.conn.PgConn().ExecParams(context.Background(), sql, nil, nil, nil, nil).Read()
	return len(r.Rows), wireSaid(r.Err)
}

func (p *spender) copied(sql string) (rows int, s said) {
	var out bytes.Buffer
	_, err := p.conn.PgConn().CopyTo(context.Background(), &out, sql)
	return strings.Count(out.String(), "\n"), wireSaid(err)
}

func (p *spender) mcp(sql string) (rows int, s said) {
	s = call(p.t, p.g.MCP, p.g.Key(p.who), sql)
	var all []json.RawMessage
	if s.rows != "" {
		if err := json.Unmarshal([]byte(s.rows), &all); err != nil {
			p.t.Error(err)
		}
	}
	return len(all), s
}

// A budget counts the rows that are really released, over both doors, however they are fetched, and ends a result at the
// row that is one too many.
func TestBudget(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Start(t, gatewaytest.Options{Setup: budgetedTables, Governance: budgeted(8), Configure: short})
	warm(t, g)
	const all = "select ssn from c order by id"
	for i, tc := range []struct {
		name string
		run  func(*spender) []any // rows and SQLSTATE, again and again
		want string
	}{
		{"simple", func(p *spender) []any {
			a, s := p.simple(all)
			b, again := p.simple(all)
			c, other := p.simple("select id from c")
			return []any{a, s.state, b, again.state, c, other.state}
		}, "50 53400 0 53400 200 "},
		{"extended", func(p *spender) []any {
			a, s := p.extended(all)
			b, again := p.extended(all)
			c, other := p.extended("select id from c")
			return []any{a, s.state, b, again.state, c, other.state}
		}, "50 53400 0 53400 200 "},
		{"copy", func(p *spender) []any {
			a, s := p.copied("copy (" + all + " limit 20) to stdout (header, format csv)")
			b, more := p.copied("copy c (ssn) to stdout")
			c, other := p.copied("copy c (id) to stdout")
			return []any{a, s.state, b, more.state, c, other.state}
		}, "21  30 53400 200 "},
		{"cursor", func(p *spender) []any {
			_, s := p.simple("begin; declare x cursor for " + all)
			a, first := p.simple("fetch 30 from x")
			b, second := p.simple("fetch 30 from x")
			_, end := p.simple("rollback")
			return []any{s.state, a, first.state, b, second.state, end.state}
		}, " 30  20 53400 "},
		{"MCP, which releases all or nothing", func(p *spender) []any {
			a, s := p.mcp(all)
			b, fits := p.mcp(all + " limit 50")
			c, spent := p.mcp(all + " limit 1")
			d, wire := p.simple(all)
			if s.status != 429 || spent.status != 429 || spent.retryAfter == "" || !strings.Contains(spent.message, `the budget of policy "people" is spent: 50 rows in 24h`) {
				p.t.Errorf("%+v %+v", s, spent)
			}
			return []any{a, s.state, b, fits.state, c, spent.state, d, wire.state}
		}, "0 53400 50  0 53400 0 53400"},
		{"cached", func(p *spender) []any {
			const some = "select ssn from c where id <= 20"
			a, first := p.mcp(some)
			b, hit := p.mcp(some)
			c, spent := p.mcp(some)
			d, wire := p.simple(some + " limit 10")
			return []any{a, first.cache, b, hit.cache, c, spent.state, d, wire.state}
		}, "20  20 hit 0 53400 10 "},
		{"several statements", func(p *spender) []any {
			a, s := p.simple("select ssn from c limit 30; select id from c limit 30")
			return []any{a, s.state}
		}, "50 53400"},
		{"a write that returns too much", func(p *spender) []any {
			a, s := p.mcp("insert into made (ssn) select ssn from c returning ssn")
			b, rest := p.simple("select count(*) from made")
			return []any{a, s.state, b, rest.state}
		}, "0 53400 1 "},
	} {
		p := spenderOf(t, g, fmt.Sprintf("u%d", i))
		if got := fmt.Sprintln(tc.run(p)...); got != tc.want+"\n" {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	direct, err := pgx.Connect(t.Context(), g.Upstream)
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close(context.Background())
	if n := 0; direct.QueryRow(t.Context(), "select count(*) from made").Scan(&n) != nil || n != 0 {
		t.Errorf("a write whose rows are over the budget has left %d rows", n)
	}
	inBytes(t, g)
	budgetsOnRecord(t, g)
	e := sqlgov.Explain(g.Rules.Current(), g.Catalogs.Index("shop"), sqlgov.Hypothesis{SQL: all, Source: "shop", Caller: sqlgov.Caller{Identity: "u0", Door: sqlgov.PGWire}})
	if len(e.Obligations.Budgets) != 1 || e.Obligations.Budgets[0].Rule != "people" || e.Obligations.Budgets[0].Rows != 50 {
		t.Errorf("explained: %+v", e.Obligations)
	}
}

// inBytes counts bytes, those of everybody together.
func inBytes(t *testing.T, g *gatewaytest.Gateway) {
	ana, bob := spenderOf(t, g, "ana"), spenderOf(t, g, "u0")
	a, s := ana.simple("select t from wide limit 2")
	b, spent := bob.simple("select t from wide")
	c, rest := bob.mcp("select substr(t, 1, 100) from wide limit 1")
	d, large := ana.mcp("select string_agg(t, '') from wide")
	if got := fmt.Sprintln(a, s.state, b, spent.state, c, rest.state, d, large.state); got != "2  1 53400 1  0 53400\n" {
		t.Errorf("in bytes: %q", got)
	}
	if large.retryAfter != "" || !strings.Contains(large.message, "than may ever be released") {
		t.Errorf("%+v", large)
	}
}

func budgetsOnRecord(t *testing.T, g *gatewaytest.Gateway) {
	refused, dry := 0, 0
	for _, v := range g.Records(audit.Filter{}) {
		if v.Outcome != nil && v.Outcome.Refusal != nil && v.Outcome.Refusal.Kind == "rate_limited" {
			refused++
		}
		var reasons []policy.Reason
		if v.Judgement != nil && len(v.Reasons) > 0 {
			if err := json.Unmarshal(v.Reasons, &reasons); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range reasons {
			if r.Policy != nil && r.Policy.Policy == "would-be" && r.Policy.State == policy.DryRun && r.Policy.Has("budget") {
				dry++
			}
		}
	}
	if refused != 14 || dry == 0 {
		t.Errorf("%d refusals and %d dry runs are on record", refused, dry)
	}
}

// What is asked for at the same time, over both doors of two nodes, gets no more than the budget in all, and all of it.
// When Redis is lost, no node releases more than its share.
func TestTwoNodesShareABudget(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	database := pgtest.Start(t).Database(t, budgetedTables...)
	one, two := sharing(t, database, redis.URL(), budgeted(2)), sharing(t, database, redis.URL(), budgeted(2))
	rows := func(who string) int {
		var released atomic.Int64
		var all sync.WaitGroup
		var people []*spender
		for _, g := range []*gatewaytest.Gateway{one, two} {
			for range 3 {
				people = append(people, spenderOf(t, g, who))
			}
		}
		for i, p := range people {
			all.Go(func() {
				for _, run := range []func(string) (int, said){p.mcp, p.simple, p.extended, p.mcp, p.simple} {
					n, s := run(fmt.Sprintf("select ssn from c limit %d", 3+2*i))
					released.Add(int64(n))
					if s.state != "" && s.state != "53400" {
						t.Errorf("%+v", s)
					}
				}
			})
		}
		all.Wait()
		for _, p := range people { // what others had reserved meanwhile
			n, _ := p.simple("select ssn from c")
			released.Add(int64(n))
		}
		return int(released.Load())
	}
	if n := rows("u0"); n != 50 {
		t.Errorf("%d rows were released", n)
	}
	redis.Kill()
	if n := rows("u1"); n != 2*12 {
		t.Errorf("%d rows were released without Redis", n)
	}
	if _, s := spenderOf(t, one, "u0").mcp("select id from c limit 1"); s.state != "" {
		t.Errorf("what has no budget: %+v", s)
	}
	redis.Restart()
	deadline, found := time.Now().Add(time.Minute), 0
	for p := spenderOf(t, two, "ana"); found <= 12; time.Sleep(20 * time.Millisecond) { // more than the share of a node
		n, _ := p.simple("select ssn from c limit 1")
		found += n
		if time.Now().After(deadline) {
			t.Fatal("Redis is not found again")
		}
	}
	if n, s := spenderOf(t, two, "u1").simple("select ssn from c"); n != 50-12 || s.state != "53400" {
		t.Errorf("a node forgot what it has released itself: %d more rows, %+v", n, s)
	}
}
