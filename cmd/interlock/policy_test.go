package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"interlock/catalog"
)

// verb runs a command line and returns what it printed and its exit status.
func verb(t *testing.T, args ...string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	root := rootCommand()
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(context.Background())
	var status exitStatus
	switch {
	case err == nil:
		return out.String(), 0
	case errors.As(err, &status):
		return out.String(), int(status)
	case errors.Is(err, errUsage):
		return out.String() + err.Error(), exitUsage
	}
	return out.String() + err.Error(), exitFailed
}

const judgedDocument = `version: 1
sources:
  shop:
    kind: postgres
    upstream: {host: localhost, database: d, user: u, tls: disable}
source_roles:
  analyst: {source: shop, permissions: [{allow: [db.table.select], on: [crm.c.id, crm.c.ssn]}, {allow: [db.table.delete_rows], on: [crm.c]}]}
identities:
  ana: {kind: human, grants: [{source: shop, roles: [analyst]}]}
  dora: {kind: human}
groups:
  dba: [dora]
policies:
  at-night:
    when: now.getHours() < 6
    refuse: true
  ask-first:
    when: statement.risk == "high"
    hold: {groups: [dba]}
`

const judgedTests = `tests:
  - {identity: ana, source: shop, sql: select id from crm.c, at: 2026-01-31T10:00:00Z, expect: allow, rule: analyst}
  - {identity: ana, source: shop, sql: select id from crm.c, at: 2026-01-31T03:00:00Z, expect: refuse, rule: at-night, sqlstate: "42501"}
  - {identity: ana, source: shop, sql: select name from crm.c, at: 2026-01-31T10:00:00Z, expect: refuse, sqlstate: "42501"}
  - {identity: ana, source: shop, sql: delete from crm.c, at: 2026-01-31T10:00:00Z, expect: hold, rule: ask-first}
  - {identity: nobody, source: shop, sql: select 1, expect: refuse, sqlstate: "28000"}
`

// The verbs that judge offline work from two files alone, and say by their exit status what they found.
func TestJudgingOffline(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	snap := &catalog.Snapshot{Source: "shop", SearchPath: []string{"public"}, Schemas: []catalog.Schema{{Name: "crm"}}, Relations: []catalog.Relation{{OID: 20000, Schema: "crm", Name: "c", Kind: catalog.Table,
		Columns: []catalog.Column{{Num: 1, Name: "id", Type: 25}, {Num: 2, Name: "name", Type: 25}, {Num: 3, Name: "ssn", Type: 25}}}}}
	var err error
	if snap.Version, err = snap.ContentVersion(); err != nil {
		t.Fatal(err)
	}
	content, err := snap.Encode()
	if err != nil {
		t.Fatal(err)
	}
	known := "--catalog=" + write("catalog", content)
	document := write("g.yaml", []byte(judgedDocument))
	write("g.tests.yaml", []byte(judgedTests))
	wrong := write("wrong.tests.yaml", []byte(strings.Replace(judgedTests, "expect: hold, rule: ask-first", "expect: allow, rule: no-such", 1)))
	less := write("less.yaml", []byte(strings.NewReplacer("crm.c.id, crm.c.ssn", "crm.c.id, crm.c.name", "< 6", "< 7").Replace(judgedDocument)))
	from := "--governance=" + document

	for _, tc := range []struct {
		args   []string
		status int
		says   []string
	}{
		{[]string{"policy", "test", from, known}, 0, []string{"5 tests, 0 failed"}},
		{[]string{"policy", "test", from, known, wrong}, 1, []string{"wrong.tests.yaml:5: ana: delete from crm.c: the verdict is hold, not allow", "rule no-such took no part", "5 tests, 1 failed"}},
		{[]string{"policy", "test", from, known, "--json"}, 0, []string{`"ok":true,"expect":"allow","verdict":"allow"`}},
		{[]string{"policy", "test", from, known, filepath.Join(dir, "none.yaml")}, 2, []string{"there are no tests in"}},
		{[]string{"policy", "replay"}, 2, []string{"--candidate is required"}},
		{[]string{"policy"}, 2, []string{"needs a subcommand"}},
		{[]string{"access", "who", "crm.c.ssn", from, known}, 0, []string{"ana", "db.table.select on crm.c.ssn: role analyst allows crm.c.ssn, line 7", "depend on time or client"}},
		{[]string{"access", "who", "crm.c", from, known, "--json"}, 0, []string{`"action":"db.table.delete_rows","object":"crm.c","verdict":"allow","depends":true`}},
		{[]string{"access", "who", "crm.c.name", from, known}, 1, nil},
		{[]string{"access", "who", "crm.nosuch", from, known}, 1, []string{"the catalog has no crm.nosuch"}},
		{[]string{"access", "who"}, 2, nil},
		{[]string{"diff", document, document, known}, 0, []string{"no difference"}},
		{[]string{"diff", document, less, known}, 1, []string{"- ana@shop db.table.select on crm.c (ssn)", "+ ana@shop db.table.select on crm.c (name)", "policy at-night: changed"}},
		{[]string{"diff", document, less, known, "--json"}, 1, []string{`"object":"crm.c","gained":["name"],"lost":["ssn"]`}},
		{[]string{"diff"}, 2, nil},
		{[]string{"explain", "--as=ana", "--source=shop", from, known, "--at=2026-01-31T03:00:00Z", "select id from crm.c"}, 1,
			[]string{"source roles: passed", "policies: refused", "policy at-night (g.yaml:14): refuse", "remedy     make policy at-night not hold for this, line 14"}},
		{[]string{"explain", "--as=ana", "--source=shop", from, known, "--at=2026-01-31T10:00:00Z", "delete from crm.c"}, 1,
			[]string{"policies: held", "verdict    hold", "Policy \"ask-first\" asks for 1 approval of dba."}},
		{[]string{"explain", "--as=ana", "--source=shop", from, known, "--at=2026-01-31T10:00:00Z", "select name from crm.c"}, 1,
			[]string{"source roles: refused", "remedy     allow db.table.select on crm.c.name in source role analyst"}},
		{[]string{"explain", "--as=ana", "--source=shop", from, known, "--at=2026-01-31T10:00:00Z", "select id from crm.c"}, 0, []string{"verdict    allow"}},
		{[]string{"explain", "--as=ana", "--source=shop", from, known, "--at=never", "select 1"}, 2, nil},
	} {
		out, status := verb(t, tc.args...)
		if status != tc.status {
			t.Errorf("%v: exit status %d, want %d\n%s", tc.args, status, tc.status, out)
		}
		for _, want := range tc.says {
			if !strings.Contains(out, want) {
				t.Errorf("%v: %q is not in\n%s", tc.args, want, out)
			}
		}
	}
}
