package sqlgov_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"interlock/audit"
	"interlock/internal/gatewaytest"
	"interlock/internal/pgtest"

	"github.com/jackc/pgx/v5"
)

const callsDocument = `
version: 1
sources:
  gov:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
source_roles:
  caller:
    source: gov
    permissions:
      - {allow: [db.function.execute], on: ["public.*"]}
      - {deny: [db.function.execute], on: [public.secret]}
groups:
  dba: [dan, dora]
policies:
  not-this:
    when: '"public.barred" in statement.functions'
    refuse: true
    message: nobody calls this
  ask-first:
    when: '"public.asked" in statement.functions'
    hold: {groups: [dba]}
  short:
    when: '"public.long" in statement.functions'
    cap: {bytes: 100}
  look-only:
    when: '"public.counts" in statement.functions'
    read_only: true
identities:
  ana: {kind: human, grants: [{source: gov, roles: [caller]}]}
  dan: {kind: human, grants: [{source: gov, roles: [caller]}]}
  dora: {kind: human, grants: [{source: gov, roles: [caller]}]}
`

const callsData = `
create table called (n int); insert into called values (0);
create function secret() returns text language sql as $$select '078-05-1120'::text$$;
create function add(a int, b int) returns int language sql immutable as $$select a + b$$;
create function add(a text, b text) returns text language sql immutable as $$select a || b$$;
create function barred() returns int language sql immutable as $$select 1$$;
create function asked() returns int language sql as $$update called set n = n + 1000 returning n$$;
create function counts() returns int language sql as $$update called set n = n + 1 returning n$$;
create function adds() returns int language sql as $$update called set n = n + 1 returning n$$;
create function long() returns text language sql immutable as $$select repeat('x', 1000)$$;
create function rows() returns setof int language sql immutable as $$select 1$$;
create function any_of(a anyelement) returns int language sql immutable as $$select 1$$;
create function shows(t regclass) returns text language sql as $$select t::text$$;
create procedure proc() language sql as $$select 1$$`

// A FunctionCall message runs what a SELECT of the function would run, and nothing else. What it may not run is answered as if there
// were no such function.
func TestFunctionCalls(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Governance: callsDocument, Setup: []string{callsData}})
	oids := functionOIDs(t, g.Upstream)
	oid := func(name string) uint32 {
		if n, err := strconv.ParseUint(name, 10, 32); err == nil {
			return uint32(n)
		}
		return oids[name]
	}
	// The attack, without the guard: a number and no SQL text, and the secret is out.
	owner := &wire{dsn: g.Upstream, oid: oid}
	defer owner.close()
	if got := owner.run(t.Context(), step{Fastpath: "secret()"}); len(got.rows) != 1 || got.rows[0][0] != "078-05-1120" {
		t.Fatalf("without the gateway: %+v", got)
	}
	const none = `permission denied for function with OID `
	at := &wire{dsn: g.DSN("ana", "gov"), oid: oid}
	for _, tc := range []struct {
		function    string
		args        []string
		state, says string
	}{
		{"add(integer,integer)", []string{"2", "3"}, "", "5"},
		{"add(text,text)", []string{"2", "3"}, "", "23"},
		{"adds()", nil, "", "1"},
		{"add(integer,integer)", []string{"2"}, "08P01", "contains 1 arguments but function requires 2"},
		{"add(integer,integer)", []string{"2", "x"}, "22P02", "the server refused a value"},
		{"rows()", nil, "0A000", "via fastpath interface"},
		{"secret()", nil, "42501", none + strconv.Itoa(int(oids["secret()"]))},
		{"999999", nil, "42501", none + "999999"},
		{"proc()", nil, "42501", none},
		{"any_of(anyelement)", []string{"1"}, "0A000", "anyelement"}, // of which the server cannot make a value
		{"1598", nil, "", "0."},                                      // random(), which is everybody's
		{"3826", []string{"/etc/passwd"}, "42501", `permission denied for function "pg_catalog.pg_read_file"`},
		{"2078", []string{"search_path", "x", "f"}, "42501", `"pg_catalog.set_config"`},
		{"2923", []string{"called", "t", "f", ""}, "42501", `"pg_catalog.table_to_xml"`},
		{"1641", []string{"1"}, "0A000", "cannot be called by its OID"}, // pg_get_ruledef
		{"shows(regclass)", []string{"called"}, "0A000", "regclass"},
		{"barred()", nil, "42501", "nobody calls this"},
		{"asked()", nil, "0A000", "cannot wait for an approval"},
		{"counts()", nil, "42501", ""},
		{"long()", nil, "54000", "larger than 100 bytes"},
		{"add(integer,integer)", []string{"4", "5"}, "", "9"},
	} {
		got := at.run(t.Context(), step{Fastpath: tc.function, Args: tc.args})
		if got.state != tc.state || !strings.Contains(got.message+strings.Join(slices.Concat(got.rows...), ""), tc.says) {
			t.Errorf("%s %q: %q %q %v", tc.function, tc.args, got.state, got.message, got.rows)
		}
	}
	for _, tc := range []struct {
		step  step
		state string
	}{
		{step{Q: "begin"}, ""},
		{step{Fastpath: "adds()"}, ""},
		{step{Fastpath: "secret()"}, "42501"},
		{step{Fastpath: "adds()"}, "25P02"}, // a refusal fails the transaction
		{step{Q: "rollback"}, ""},
		{step{Fastpath: "adds()"}, ""},
	} {
		if got := at.run(t.Context(), tc.step); got.state != tc.state {
			t.Errorf("%+v: %q %q", tc.step, got.state, got.message)
		}
	}
	if heard := at.close(); strings.Contains(string(heard.heard), "078-05-1120") {
		t.Error("the secret is out")
	}
	if got := owner.run(t.Context(), step{Q: "select n from called"}); got.rows[0][0] != "2" { // what was refused, held or undone has changed nothing
		t.Errorf("called %v times", got.rows)
	}
	recordsCalls(t, g)
	t.Run("changes", func(t *testing.T) { callsAfterChanges(t, g, oid) })
}

// functionOIDs are those of the functions of public, by signature.
func functionOIDs(t *testing.T, dsn string) map[string]uint32 {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), "select oid, oid::regprocedure::text from pg_proc where pronamespace = 'public'::regnamespace")
	if err != nil {
		t.Fatal(err)
	}
	oids := map[string]uint32{}
	var oid uint32
	var name string
	if _, err := pgx.ForEachRow(rows, []any{&oid, &name}, func() error { oids[name] = oid; return nil }); err != nil {
		t.Fatal(err)
	}
	return oids
}

// recordsCalls looks for one record of each call, with how it ended.
func recordsCalls(t *testing.T, g *gatewaytest.Gateway) {
	count := map[string]int{}
	for _, v := range g.Records(audit.Filter{Identity: "ana"}) {
		if v.Judgement != nil && v.Outcome != nil {
			count[v.Statement+" "+string(v.Outcome.Status)]++
			if strings.Contains(v.Statement, `"adds"`) && v.Outcome.Status == audit.OK && (v.Outcome.Rows != 1 || v.Outcome.Bytes == 0) {
				t.Errorf("%s: %+v", v.Statement, v.Outcome)
			}
		}
	}
	for what, times := range map[string]int{
		`SELECT "public"."add"($1, $2) ok`: 3, `SELECT "public"."add"($1, $2) failed`: 2, `SELECT "public"."adds"() ok`: 3,
		`SELECT "public"."adds"() failed`: 1, `SELECT "public"."secret"() refused`: 2, `function "999999" refused`: 1,
		`SELECT "public"."long"() refused`: 1, `SELECT "pg_catalog"."pg_read_file"($1) refused`: 1,
	} {
		if count[what] != times {
			t.Errorf("%s is %d times on record, not %d", what, count[what], times)
		}
	}
}

// A function that was made after the catalog was read can be called, and one that was taken away cannot.
func callsAfterChanges(t *testing.T, g *gatewaytest.Gateway, oid func(string) uint32) {
	at := &wire{dsn: g.DSN("ana", "gov"), oid: oid}
	defer at.close()
	if got := at.run(t.Context(), step{Fastpath: "add(integer,integer)", Args: []string{"1", "1"}}); got.state != "" {
		t.Errorf("%+v", got)
	}
	pgtest.Start(t).Exec(t, g.Upstream, "create function fresh() returns int language sql immutable as 'select 7'")
	fresh := strconv.Itoa(int(functionOIDs(t, g.Upstream)["fresh()"]))
	if got := at.run(t.Context(), step{Fastpath: fresh}); got.state != "" || got.rows[0][0] != "7" {
		t.Errorf("a function that is new: %+v", got)
	}
	g.Apply(strings.Replace(callsDocument, "on: [public.secret]", "on: [public.secret, public.add]", 1))
	if got := at.run(t.Context(), step{Fastpath: "add(integer,integer)", Args: []string{"1", "1"}}); got.state != "42501" {
		t.Errorf("a function that was taken away: %+v", got)
	}
}
