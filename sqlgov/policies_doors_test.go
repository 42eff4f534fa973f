package sqlgov_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"interlock/audit"
	"interlock/internal/gatewaytest"
	"interlock/sqlgov/policy"
)

const policiesDocument = `
version: 1
sources:
  gov:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
source_roles:
  everything:
    source: gov
    permissions:
      - allow: [db.table.select, db.table.insert, db.table.update, db.table.delete_rows, db.table.truncate, db.function.execute]
        on: ["public.*", "pg_catalog.pg_sleep"]
identities:
  ana: {kind: human, team: finance, attributes: {clearance: low}, grants: [{source: gov, roles: [everything]}]}
  bot: {kind: agent, grants: [{source: gov, roles: [everything]}]}
  dora: {kind: human}
groups:
  dba: [dora]
labels:
  pii: ["*.*.ssn"]
policies:
  no-pii:
    when: '"pii" in statement.labels && identity.attributes.clearance != "high"'
    refuse: true
    message: personal data needs clearance
  ask-first:
    when: statement.risk == "high"
    hold: {groups: [dba]}
  look-only:
    when: '"public.looked" in statement.tables'
    read_only: true
  few-rows:
    when: '"public.n" in statement.tables'
    cap: {rows: 5}
  few-bytes:
    when: '"public.wide" in statement.tables'
    cap: {bytes: 10KiB}
  be-quick:
    when: '"pg_catalog.pg_sleep" in statement.functions'
    cap: {time: 100ms}
  not-at-any-time:
    when: '"public.timed" in statement.tables && now > timestamp("2020-01-01T00:00:00Z")'
    refuse: true
  not-from-here:
    when: '"public.near" in statement.tables && client.address.inNetwork("127.0.0.0/8")'
    refuse: true
  only-psql:
    when: '"public.shell" in statement.tables && door != "pgwire"'
    refuse: true
  would-refuse:
    state: dry-run
    when: '"public.n" in statement.tables'
    refuse: true
`

const policiesData = `
create table c (id int, name text, ssn text); insert into c values (7, 'Ada', '123');
create view v as select id, ssn as number from c;
create table n (i int); insert into n select generate_series(1, 10000);
create table wide (t text); insert into wide select repeat('x', 4096) from generate_series(1, 10);
create table looked (i int); create table timed (i int); create table near (i int); create table shell (i int); create table held (i int); insert into held values (1);
create function changes() returns int language sql volatile as 'insert into looked values (1) returning i';
create function reads() returns bigint language sql stable as 'select count(*) from looked';`

// Every effect of a policy is the same through both doors and both protocols, in SQLSTATE and on record.
func TestPoliciesThroughBothDoors(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Governance: policiesDocument, Setup: []string{policiesData}})
	oid := func(string) uint32 { return 0 }
	for _, tc := range []struct {
		sql, state, says, policy string
		agentless                bool // the door that has no session may answer otherwise
	}{
		{sql: "select id, name from c"},
		{sql: "select ssn from c", state: "42501", says: "personal data needs clearance", policy: "no-pii"},
		{sql: "select number from v", state: "42501", says: "personal data needs clearance", policy: "no-pii"},
		{sql: "select id from c where ssn = '1'", state: "42501", says: "personal data needs clearance", policy: "no-pii"},
		{sql: "delete from c where id = 1", state: "42501", says: "personal data needs clearance", policy: "no-pii"},
		{sql: "truncate held", state: "42501", says: "approval", policy: "ask-first", agentless: true},
		{sql: "select changes()", state: "42501", says: "approval", policy: "ask-first", agentless: true},
		{sql: "select * from looked"},
		{sql: "select reads()"},
		{sql: "insert into looked values (1)", state: "42501", says: "allows only statements that change nothing", policy: "look-only"},
		{sql: "select * from n limit 5"},
		{sql: "select * from n limit 6", state: "54000", says: "more than 5 rows", policy: "few-rows", agentless: true},
		{sql: "select * from n", state: "54000", says: "more than 5 rows", policy: "few-rows", agentless: true},
		{sql: "select * from wide limit 2"},
		{sql: "select * from wide", state: "54000", says: "larger than 10240 bytes"},
		{sql: "select pg_sleep(10)", state: "57014", says: "timeout"},
		{sql: "select * from timed", state: "42501", says: "not-at-any-time", policy: "not-at-any-time"},
		{sql: "select * from near", state: "42501", says: "not-from-here", policy: "not-from-here"},
		{sql: "select * from shell", agentless: true},
	} {
		for _, d := range []struct {
			name string
			door
		}{{"simple", &wire{dsn: g.DSN("ana", "gov"), oid: oid}}, {"extended", &wire{dsn: g.DSN("ana", "gov"), extended: true, oid: oid}},
			{"mcp", &tool{url: g.MCP, key: g.Key("ana")}}} {
			got := d.run(t.Context(), step{Q: tc.sql})
			if d.name == "mcp" && tc.agentless {
				d.close()
				continue
			}
			if got.state != tc.state || !strings.Contains(got.message, tc.says) {
				t.Errorf("%s: %s: %q %s", d.name, tc.sql, got.state, got.message)
			}
			if again := d.run(t.Context(), step{Q: "select id from c"}); again.state != "" || len(again.rows) != 1 {
				t.Errorf("%s: after %s: %+v", d.name, tc.sql, again)
			}
			d.close()
		}
		if tc.policy != "" {
			recorded(t, g, tc.policy)
		}
	}
	for _, sql := range []string{"truncate held", "delete from held", "update held set i = 2"} {
		(&tool{url: g.MCP, key: g.Key("ana")}).run(t.Context(), step{Q: sql})
	}
	if got := (&wire{dsn: g.Upstream, oid: oid}).run(t.Context(), step{Q: "select i from held"}); len(got.rows) != 1 || got.rows[0][0] != "1" {
		t.Errorf("what is held must not run: %+v", got)
	}
	mcp := &tool{url: g.MCP, key: g.Key("ana")}
	if got := mcp.run(t.Context(), step{Q: "select * from n"}); len(got.rows) != 5 {
		t.Errorf("mcp cuts at the cap: %d rows, %+v", len(got.rows), got.state)
	}
	if got := mcp.run(t.Context(), step{Q: "select * from shell"}); got.state != "42501" {
		t.Errorf("the door is part of the decision: %+v", got)
	}
	if got := (&tool{url: g.MCP, key: g.Key("bot")}).run(t.Context(), step{Q: "select ssn from c"}); got.state != "42501" || !strings.Contains(got.message, "could not be evaluated") {
		t.Errorf("an attribute that is missing must refuse: %+v", got)
	}
	labelled(t, g)
	grouped(t, g)
}

// grouped checks that what one permission decides is one reason on record, with the names of all that it is the reason for.
func grouped(t *testing.T, g *gatewaytest.Gateway) {
	t.Helper()
	all := g.Records(audit.Filter{Text: "select id, name from c"})
	if len(all) == 0 {
		t.Fatal("the statement is not on record")
	}
	var reasons []struct {
		Action, Pattern string
		On              []string
		Granted         bool
	}
	if err := json.Unmarshal(all[0].Reasons, &reasons); err != nil {
		t.Fatal(err)
	}
	for _, r := range reasons {
		if r.Action == "db.table.select" && r.Granted && r.Pattern == "public.*" && slices.Equal(r.On, []string{"public.c.id", "public.c.name"}) {
			return
		}
	}
	t.Errorf("no reason is that of both columns: %s", all[0].Reasons)
}

// labelled checks that the log finds who touched a label, by a view as well, and no others.
func labelled(t *testing.T, g *gatewaytest.Gateway) {
	t.Helper()
	found := map[string]bool{}
	for _, v := range g.Records(audit.Filter{Label: "pii"}) {
		found[v.Statement] = true
		if !slices.Contains(v.Labels, "pii") || strings.HasPrefix(v.Statement, "select id from c limit") {
			t.Errorf("%s has the labels %q", v.Statement, v.Labels)
		}
	}
	for _, sql := range []string{"select ssn from c", "select number from v", "delete from c where id = $1"} {
		if !found[sql] {
			t.Errorf("%s is not found by its label", sql)
		}
	}
	if all := g.Records(audit.Filter{Text: "select pg_sleep"}); len(all) == 0 || len(all[0].Labels) > 0 {
		t.Errorf("a statement without a labelled column: %d records", len(all))
	}
}

// recorded checks that the newest records of every protocol name a policy with file and line, and the one that is not
// enforced as such.
func recorded(t *testing.T, g *gatewaytest.Gateway, name string) {
	t.Helper()
	found := 0
	for _, v := range g.Records(audit.Filter{}) {
		if v.Judgement == nil {
			continue
		}
		var reasons []policy.Reason
		if err := json.Unmarshal(v.Reasons, &reasons); len(v.Reasons) > 0 && err != nil {
			t.Fatal(err)
		}
		for _, r := range reasons {
			if m := r.Policy; m != nil && m.Policy == name {
				if found++; m.Line == 0 || !strings.HasSuffix(m.File, "governance.yaml") || m.State != policy.Active {
					t.Errorf("%+v", m)
				}
			}
		}
	}
	if found < 2 {
		t.Errorf("policy %s is on record %d times", name, found)
	}
}

// A result that was handed out in pieces counts as one, a refused rest leaves the session usable, and what was sent
// after a statement over its cap is skipped as after any error.
func TestCapsInThePipeline(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Governance: policiesDocument, Setup: []string{policiesData}})
	fetch := func(rows uint32) *pgproto3.Execute { return &pgproto3.Execute{Portal: "", MaxRows: rows} }
	for _, tc := range []struct {
		what     string
		ready    int
		messages []pgproto3.FrontendMessage
		want     string
	}{
		{"in one piece", 2, []pgproto3.FrontendMessage{parse("", "select i from n order by i limit 6"), bind("", ""), execute(""), syncMsg, &pgproto3.Query{String: "select id from c"}},
			"row 1, row 2, row 3, row 4, row 5, error 54000, ready I, row 7, done, ready I"},
		{"in pieces", 1, []pgproto3.FrontendMessage{parse("", "select i from n order by i"), bind("", ""), fetch(3), &pgproto3.Flush{}, fetch(3), syncMsg},
			"row 1, row 2, row 3, *pgproto3.PortalSuspended, row 4, row 5, error 54000, ready I"},
		{"all of it", 2, []pgproto3.FrontendMessage{parse("", "select i from n order by i"), bind("", ""), execute(""), syncMsg, &pgproto3.Query{String: "select id from c"}},
			"row 1, row 2, row 3, row 4, row 5, error 54000, ready I, row 7, done, ready I"},
		{"the last of a simple query, whose rows count together", 1, []pgproto3.FrontendMessage{&pgproto3.Query{String: "select id from c; select i from n where i <= 4; select i from n where i < 4"}},
			"row 7, done, row 1, row 2, row 3, row 4, done, error 54000, ready I"},
	} {
		p := pipeTo(t, g)
		if got := p.send(tc.ready, tc.messages...); got != tc.want {
			t.Errorf("%s: %s", tc.what, got)
		}
	}
	// What follows a statement that is stopped too late has run already, so the session must end.
	p := pipeTo(t, g)
	p.fe.Send(&pgproto3.Query{String: "select i from n where i < 7; insert into held values (1)"})
	if err := p.fe.Flush(); err != nil {
		t.Fatal(err)
	}
	last := ""
	for {
		m, err := p.fe.Receive()
		if err != nil {
			break
		}
		if e, ok := m.(*pgproto3.ErrorResponse); ok {
			last = e.Severity + " " + e.Code
		}
	}
	if last != "FATAL 54000" {
		t.Errorf("the session ends with %q", last)
	}
	for _, v := range g.Records(audit.Filter{SQLState: "54000"}) {
		if v.Status != audit.Refused || v.Outcome.Refusal == nil || v.Outcome.Refusal.Kind != "response_too_large" {
			t.Errorf("%+v", v.Outcome)
		}
	}
}

func pipeTo(t *testing.T, g *gatewaytest.Gateway) *pipe {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), g.DSN("ana", "gov"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := conn.Hijack()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Conn.Close() })
	return &pipe{t, raw.Frontend}
}
