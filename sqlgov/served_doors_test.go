package sqlgov_test

import (
	"fmt"
	"strings"
	"testing"

	"interlock/audit"
	"interlock/internal/gatewaytest"
)

const servedDocument = `
version: 1
sources:
  gov:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
    limits: {statement_timeout: 5s}
source_roles:
  some:
    source: gov
    permissions:
      - allow: [db.table.select]
        on: [public.stock, public.news, public.hidden.id, public.part]
      - allow: [db.table.insert, db.table.update, db.table.delete_rows]
        on: [public.stock]
identities:
  ana: {kind: human, grants: [{source: gov, roles: [some]}]}
policies:
  keep-it:
    when: statement.kind == "delete"
    refuse: true
    message: nothing is deleted here
`

const servedData = `
create table stock (id int primary key, n int);
create table news (id int primary key, n int); insert into news values (1, 10), (2, 20), (3, 0);
create table hidden (id int primary key, secret text);
create table part (id int) partition by range (id); create table part_one partition of part for values from (0) to (10);
create table lines (stock int constraint lines_of_stock references stock);`

// servedDoors are the three ways to a gateway.
func servedDoors(g *gatewaytest.Gateway) map[string]func() door {
	oid := func(string) uint32 { return 0 }
	return map[string]func() door{
		"simple":   func() door { return &wire{dsn: g.DSN("ana", "gov"), oid: oid} },
		"extended": func() door { return &wire{dsn: g.DSN("ana", "gov"), extended: true, oid: oid} },
		"mcp":      func() door { return &tool{url: g.MCP, key: g.Key("ana")} },
	}
}

// lastStatement is what the audit log says of the newest statement.
func lastStatement(g *gatewaytest.Gateway) (last audit.View) {
	for _, v := range g.Records(audit.Filter{}) {
		if v.Judgement != nil && v.Kinds != nil && v.Outcome != nil {
			last = v
		}
	}
	return last
}

// MERGE and EXPLAIN do through every door what they do on the server, and are on record as what they are.
func TestMergeAndExplain(t *testing.T) {
	const merge = `merge into stock s using news n on s.id = n.id when matched and n.n = 0 then do nothing
		when matched then update set n = n.n when not matched then insert values (n.id, n.n)`
	for _, where := range []string{"simple", "extended", "mcp"} {
		g := gatewaytest.Start(t, gatewaytest.Options{Governance: servedDocument, Setup: []string{servedData}})
		at := servedDoors(g)[where]()
		for _, tc := range []struct {
			sql, state, says, kind string
			rows                   int64
		}{
			{"explain (costs off) " + merge, "", "Merge on stock s", "explain", 6},
			{merge, "", "", "merge", 3},
			{merge, "", "", "merge", 2},
			{"explain (costs off) update stock set n = 7", "", "Update on stock", "explain", 2},
			{"explain (analyze, costs off, timing off, summary off) insert into stock values (77, 7)", "", "rows=1", "explain", 2},
			{"explain delete from stock", "42501", "nothing is deleted here", "explain", 0},
			{"explain (analyze) delete from stock", "42501", "", "explain", 0},
			{"explain select id from hidden", "42501", "permission denied for the plan", "explain", 0},
			{"explain select id from part", "42501", "permission denied for the plan", "explain", 0},
			{"explain (analyze) update stock set id = id", "42501", "permission denied for the plan", "explain", 0}, // checks lines_of_stock
			{"select n from stock order by id", "", "[[10] [20] [0] [7]]", "select", 4},
		} {
			got := at.run(t.Context(), step{Q: tc.sql})
			if got.state != tc.state || !strings.Contains(got.message+fmt.Sprint(got.rows), tc.says) {
				t.Errorf("%s: %s: %q %s %v", where, tc.sql, got.state, got.message, got.rows)
			}
			if last := lastStatement(g); strings.Join(last.Kinds, " ") != tc.kind || last.Outcome.Rows != tc.rows {
				t.Errorf("%s: %s is on record as %v with %d rows", where, tc.sql, last.Kinds, last.Outcome.Rows)
			}
		}
		at.close()
	}
}

// Whoever lifts the statement timeout gets the one of the source back, and no other.
func TestStatementTimeoutIsNeverLifted(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Governance: servedDocument, Setup: []string{servedData}})
	for _, where := range []string{"simple", "extended"} {
		at := servedDoors(g)[where]()
		for _, tc := range []struct{ sql, timeout string }{
			{"set statement_timeout = '2s'", "2s"}, {"set statement_timeout = 0", "5s"}, {"set statement_timeout to '0.3'", "5s"},
			{"set statement_timeout = 300", "300ms"}, {"set session statement_timeout = '0 h'", "5s"},
		} {
			if got := at.run(t.Context(), step{Q: tc.sql}); got.state != "" || fmt.Sprint(got.tags) != "[SET]" {
				t.Errorf("%s: %s: %+v", where, tc.sql, got)
			}
			if got := at.run(t.Context(), step{Q: "show statement_timeout"}); fmt.Sprint(got.rows) != "[["+tc.timeout+"]]" {
				t.Errorf("%s: after %s the timeout is %v", where, tc.sql, got.rows)
			}
		}
		at.close()
	}
}
