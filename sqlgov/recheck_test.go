package sqlgov_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"interlock/internal/gatewaytest"
	"interlock/internal/pgtest"
)

// driftGovernance hides ssn and the table of secrets. The login may not call what the stamp of the catalog is made with,
// so that no change is found between two scans but by rechecks.
const driftGovernance = `
version: 1
sources:
  gov:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: drift_login, tls: disable}
    scan_interval: 1h
source_roles:
  analyst:
    source: gov
    permissions:
      - allow: [db.table.select]
        on: [public.c.id, public.c.name, public.c.kind, public.o.cid]
      - allow: [db.table.update]
        on: [public.c.name]
      - allow: [db.table.truncate]
        on: [public.scratch]
      - allow: [db.function.execute]
        on: [public.label]
identities:
  ana: {kind: human, grants: [{source: gov, roles: [analyst]}]}
`

// driftSchema makes the schema anew, with the same names and new OIDs.
const driftSchema = `
drop schema if exists early, public cascade;
create schema early; create schema public;
grant usage on schema early, public to public;
create table public.secrets (id int, ssn text); insert into public.secrets values (7, '078-05-1120');
create table public.c (id int, name text, ssn text, kind varchar); insert into public.c values (7, 'Ada', '078-05-1120', 'gold');
create table public.o (cid int); insert into public.o values (7);
create table public.scratch (id int, ssn text); create table public.precious (id int, ssn text); insert into public.precious values (7, '078-05-1120');
grant truncate on all tables in schema public to drift_login;
create function public.label(text) returns text language sql as 'select $1';
create function public.leak(varchar) returns text language sql as 'select ssn from public.secrets';
create function public.leak(varchar, varchar) returns bool language sql as 'select true from public.secrets where ssn like ''078%''';
`

type drift struct {
	name, change, sql string
	leak              string // what the statement shows after the change: a value, or that a hidden value is as guessed
	proof             string // a query that returns a row if the statement has done harm; "" if it is seen by its leak
	present           bool   // the server's parser sees the change, and queries of an older snapshot have no way to
}

// drifts are the attacks: a change that another session commits, and a statement that was judged before it.
var drifts = []drift{
	{"columns swap names, in a condition", swapColumns, `select id from c where name like '078%'`, "7", "", false},
	{"columns swap names, in an expression", swapColumns, `select upper(name) from c`, "078-05-1120", "", false},
	{"columns swap names, in an aggregate", swapColumns, `select max(name) from c`, "078-05-1120", "", false},
	{"columns swap names, in a write", swapColumns, `update c set name = 'new'`, "", `select from public.c where name = 'new'`, false},
	{"columns swap names, in what a write returns", swapColumns, `update c set name = upper(name) returning upper(name)`, "078-05-1120", "", false},
	{"a view in the place of a table", `alter table c rename to d; create view c as select id, ssn as name, ''::varchar as kind from secrets`,
		`select upper(name) from c`, "078-05-1120", "", false},
	{"a table in the place of a table", `alter table c rename to d; create table c (id int, name text, ssn text, kind varchar); insert into c select 8, ssn from secrets`,
		`select count(*) from c where name like '078%'`, "1", "", false},
	{"a column that captures a reference to an outer query", `alter table o add kind varchar default 'hidden'`,
		`select id from c where exists (select from o where kind = 'hidden')`, "7", "", false},
	{"a table earlier in the search path", `create table early.c as select id, ssn as name from secrets`, `select upper(name) from c`, "078-05-1120", "", false},
	{"schemas swap names", `alter schema public rename to gone; create schema public; create table public.c as select id, ssn as name, ''::varchar as kind from gone.secrets`,
		`select upper(name) from public.c`, "078-05-1120", "", false},
	{"another table to be emptied", `alter table scratch rename to gone; alter table precious rename to scratch`, `truncate scratch`, "",
		`select from (select count(*) as n from public.scratch) s where n = 0`, false},
	{"a function that fits better", `create function label(varchar) returns text language sql as 'select ssn from public.secrets'`,
		`select label(kind) from c`, "078-05-1120", "", true},
	{"a function that fits better than PostgreSQL's own", `create function early.upper(varchar) returns text language sql as 'select ssn from public.secrets'`,
		`select upper(kind) from c`, "078-05-1120", "", true},
	{"a function that moves into the search path", `alter function public.leak(varchar) rename to upper`, `select upper(kind) from c`, "078-05-1120", "", true},
	{"an operator that fits better", `create operator early.= (function = public.leak, leftarg = varchar, rightarg = varchar)`,
		`select id from c where kind = 'x'::varchar`, "7", "", true},
}

const swapColumns = `alter table c rename ssn to hidden; alter table c rename name to ssn; alter table c rename hidden to name`

// ways are how a statement gets from its judgement to the server: before are the steps before the change. Q "" is the
// statement itself. late says that the snapshot of the transaction is older than the change.
var ways = []struct {
	name          string
	door          string
	before, after []step
	late          bool
}{
	{"a Query", "simple", []step{{Q: ""}}, []step{{Q: ""}}, false},
	{"a Query with several statements", "simple", []step{{Q: ""}}, []step{{Q: "select 1; "}}, false},
	{"a Query with a transaction", "simple", []step{{Q: ""}}, []step{{Q: "begin; select 1; commit; "}}, false},
	{"Parse, Bind, Execute", "extended", []step{{Q: ""}}, []step{{Q: ""}}, false},
	{"a prepared statement", "extended", []step{{Prep: "p"}, {Exec: "p"}}, []step{{Exec: "p"}}, false},
	{"EXECUTE of a prepared statement", "simple", []step{{Prep: "p"}}, []step{{Exec: "p"}}, false},
	{"a Query in a transaction", "simple", []step{{Q: ""}, {Q: "begin"}, {Q: "select 1"}}, []step{{Q: ""}}, false},
	{"a prepared statement in a transaction", "extended", []step{{Prep: "p"}, {Q: "begin"}, {Q: "select 1"}}, []step{{Exec: "p"}}, false},
	{"a Query under REPEATABLE READ", "simple", []step{{Q: ""}, {Q: "begin isolation level repeatable read"}, {Q: "select 1"}}, []step{{Q: ""}}, true},
	{"a prepared statement under SERIALIZABLE", "extended", []step{{Prep: "p"}, {Q: "begin isolation level serializable"}, {Q: "select 1"}}, []step{{Exec: "p"}}, true},
	{"interlock_query", "mcp", []step{{Q: ""}}, []step{{Q: ""}}, false},
}

func startDrift(t *testing.T, governance string) *gatewaytest.Gateway {
	t.Helper()
	srv := pgtest.Start(t)
	dsn := srv.Database(t)
	srv.Exec(t, dsn, `do $$ begin create role drift_login login; exception when duplicate_object then null; end $$;
		alter role drift_login set search_path = early, public;
		grant pg_read_all_data, pg_write_all_data to drift_login;
		revoke execute on function hashtextextended(text, bigint) from public;`+driftSchema)
	return gatewaytest.Start(t, gatewaytest.Options{Database: dsn, Governance: governance})
}

// The attack: another session changes what names mean between the scan of the catalog and the statement.
func TestCatalogChangesBeforeTheStatement(t *testing.T) {
	g := startDrift(t, driftGovernance)
	for _, d := range drifts {
		t.Run(d.name, func(t *testing.T) {
			remake(t, g, d.change)
			if r := direct(t, g, d.sql); d.leak != "" && (len(r.rows) == 0 || r.rows[0][0] != d.leak) {
				t.Errorf("without the gateway this is no leak: %+v", r)
			}
			if d.proof != "" && len(direct(t, g, d.proof).rows) == 0 {
				t.Error("without the gateway this does no harm")
			}
			attempts := prepareAttempts(t, g, d)
			pgtest.Start(t).Exec(t, g.Upstream, d.change)
			for _, a := range attempts {
				a.finish(t, d)
			}
			if d.proof != "" && len(direct(t, g, d.proof).rows) > 0 {
				t.Error("the statement ran")
			}
		})
	}
}

// attempt is one way of a drift's statement, with its session open and the statement judged.
type attempt struct {
	name  string
	door  door
	after []step
}

// prepareAttempts makes the schema, and takes all steps before the change. From then on the catalog cannot be scanned, so
// that every attempt is judged by the old one.
func prepareAttempts(t *testing.T, g *gatewaytest.Gateway, d drift) []attempt {
	remake(t, g, "")
	var all []attempt
	for _, w := range ways {
		truncate := strings.HasPrefix(d.sql, "truncate")
		if d.present && w.late || truncate && w.door == "simple" && w.before[0].Prep != "" { // PREPARE does not take it
			continue
		}
		a := attempt{w.name, openDoor(g, w.door), filled(w.after, d.sql)}
		t.Cleanup(func() { a.door.close() })
		for _, s := range filled(w.before, d.sql) {
			if r := a.door.run(t.Context(), s); r.state != "" {
				t.Fatalf("%s, before the change: %+v: %+v", w.name, s, r)
			}
		}
		all = append(all, a)
	}
	pgtest.Start(t).Exec(t, g.Upstream, `revoke execute on function pg_get_viewdef(oid) from public`)
	return all
}

func (a *attempt) finish(t *testing.T, d drift) {
	last := reply{}
	for _, s := range a.after {
		last = a.door.run(t.Context(), s)
	}
	if last.state != "40001" {
		t.Errorf("%s: answered %+v, want 40001", a.name, last)
	}
	if heard := a.door.close().heard; len(d.leak) > 1 && strings.Contains(string(heard), d.leak) {
		t.Errorf("%s: the hidden value was sent: %q", a.name, heard)
	}
}

// filled puts the statement into its steps.
func filled(list []step, sql string) []step {
	list = slices.Clone(list)
	for i := range list {
		switch s := &list[i]; {
		case s.Prep != "":
			s.Q = sql
		case s.Exec == "" && (s.Q == "" || strings.HasSuffix(s.Q, "; ")):
			s.Q += sql
		}
	}
	return list
}

// remake makes the schema anew, has it scanned, and changes it.
func remake(t *testing.T, g *gatewaytest.Gateway, change string) {
	t.Helper()
	pgtest.Start(t).Exec(t, g.Upstream, "drop schema if exists gone cascade; grant execute on function pg_get_viewdef(oid) to public;"+driftSchema)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := g.Catalogs.Refresh(ctx, g.Rules.Current().Source("gov")); err != nil {
		t.Fatal(err)
	}
	pgtest.Start(t).Exec(t, g.Upstream, change)
}

func openDoor(g *gatewaytest.Gateway, kind string) door {
	if kind == "mcp" {
		return &tool{url: g.MCP, key: g.Key("ana")}
	}
	return &wire{dsn: g.DSN("ana", "gov"), extended: kind == "extended"}
}

// direct runs a statement past the gateway, under the settings that the gateway has.
func direct(t *testing.T, g *gatewaytest.Gateway, sql string) reply {
	t.Helper()
	w := &wire{dsn: g.Upstream + "&search_path=early,public"}
	if !strings.Contains(g.Upstream, "?") {
		w.dsn = g.Upstream + "?search_path=early,public"
	}
	defer w.close()
	r := w.run(t.Context(), step{Q: sql})
	if r.state != "" {
		t.Fatalf("%s: %s", sql, fmt.Sprint(r))
	}
	return r
}

// riskGovernance lets a table be read whole, unless that is risky.
const riskGovernance = `
version: 1
sources:
  gov:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: drift_login, tls: disable}
    scan_interval: 1h
source_roles:
  reader: {source: gov, permissions: [{allow: [db.table.select], on: [public.c]}, {allow: [db.function.execute], on: ["*"]}]}
identities:
  ana: {kind: human, grants: [{source: gov, roles: [reader]}]}
policies:
  no-risk: {when: 'statement.risk == "high"', refuse: true}
`

// The attack: a table that may be read, beside a policy that asks the risk alone, becomes a view that calls a function
// which the policy would refuse. The server is not asked before, but tells whose columns it sends.
func TestRiskChangesBeforeTheStatement(t *testing.T) {
	g := startDrift(t, riskGovernance)
	const sql = "select id, name from c"
	remake(t, g, "")
	doors := map[string]door{}
	for _, kind := range []string{"simple", "extended", "mcp"} {
		doors[kind] = openDoor(g, kind)
		if r := doors[kind].run(t.Context(), step{Q: sql}); r.state != "" || len(r.rows) != 1 {
			t.Fatalf("%s, before the change: %+v", kind, r)
		}
	}
	pgtest.Start(t).Exec(t, g.Upstream, `revoke execute on function pg_get_viewdef(oid) from public; alter table c rename to d;
		create function spill() returns int language sql volatile as 'select 1';
		create view c as select id, name, ssn, kind from d where spill() = 1`)
	if r := direct(t, g, sql); len(r.rows) != 1 {
		t.Errorf("without the gateway: %+v", r)
	}
	for kind, door := range doors {
		if r := door.run(t.Context(), step{Q: sql}); r.state == "" || len(r.rows) != 0 {
			t.Errorf("%s: %+v", kind, r)
		}
		door.close()
	}
}
