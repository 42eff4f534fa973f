package sqlgov_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"interlock/audit"
	"interlock/internal/gatewaytest"
	"interlock/sqlgov"
	"interlock/sqlgov/analyze"
	"interlock/sqlgov/policy"
)

const replayDocument = `
version: 1
sources:
  gov:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
source_roles:
  analyst:
    source: gov
    permissions:
      - allow: [db.table.select]
        on: [public.c.id, public.c.name, public.c.region, public.v, public.o]
      - allow: [db.table.update, db.table.insert]
        on: [public.o]
identities:
  ana: {kind: human, team: finance, grants: [{source: gov, roles: [analyst]}]}
  bob: {kind: agent, grants: [{source: gov, roles: [analyst]}]}
`

const replayData = `
create table c (id int, name text, region text, ssn text); insert into c values (1, 'Ada', 'EU', '123');
create table o (id int, c int, amount numeric); create view v as select id, region as area from c;`

// asked are statements, with those that use c.region marked.
var asked = []struct {
	sql  string
	uses bool
}{
	{"select id, name from c where id = 5 limit 3", false},
	{"select region from c", true},
	{"select id from c where region = 'EU'", true},
	{"select count(*) from c group by region", true},
	{"select c.id from c join o on o.c = c.id order by c.region", true},
	{"select area from v", false}, // the view is granted, and its owner reads the column
	{"select ssn from c", false},  // refused before and after
	{"select round(5.5), id from c", false},
	{"update o set amount = 7.5 where id in (select id from c where region like 'E%')", true},
	{"insert into o values (1, 2, 3.5)", false},
	{"select nosuch from c", false},
	{"selec 1", false},
}

// Taking one column away changes exactly the decisions on the statements that used it, whichever door they came by.
func TestReplayNamesWhatUsedAColumn(t *testing.T) {
	g, records := askEverything(t)
	candidate := changed(t, g, func(doc *policy.Document) {
		on := &doc.Roles[0].Permissions[0].Resources
		*on = slices.DeleteFunc(*on, func(r policy.Resource) bool { return r.Text == "public.c.region" })
	})
	for _, v := range records {
		got := sqlgov.Replay(candidate, g.Catalogs.Index("gov"), &v.View)
		want := v.Verdict
		if v.uses {
			want = "refuse"
		}
		if got.Gap != "" || string(got.Verdict) != want {
			t.Errorf("%s via %s: %+v, want %s", v.Statement, v.Door, got, want)
		}
		if v.uses && (len(got.Reasons) != 1 || got.Reasons[0].Need.Column != "region") {
			t.Errorf("%s: %+v", v.Statement, got.Reasons)
		}
	}
	for _, v := range records { // the ruleset in force decides as it did
		if got := sqlgov.Replay(g.Rules.Current(), g.Catalogs.Index("gov"), &v.View); got.Gap != "" || string(got.Verdict) != v.Verdict {
			t.Errorf("%s: %+v, was %s", v.Statement, got, v.Verdict)
		}
	}
}

// Policies are replayed with the time, the door and the client on record; what the record lacks is a gap, not a guess.
func TestReplayPolicies(t *testing.T) {
	g, records := askEverything(t)
	for _, tc := range []struct {
		p    policy.PolicySpec
		hits func(v *askedRecord) bool
	}{
		{policy.PolicySpec{When: `door == "mcp" && "public.c" in statement.tables`, Refuse: true},
			func(v *askedRecord) bool { return v.Door == "mcp" && strings.Contains(v.Statement, " c") }},
		{policy.PolicySpec{When: `now < timestamp("2020-01-01T00:00:00Z")`, Refuse: true}, func(*askedRecord) bool { return false }},
		{policy.PolicySpec{When: `client.address.inNetwork("127.0.0.0/8") && statement.kind == "insert"`, Refuse: true},
			func(v *askedRecord) bool { return strings.HasPrefix(v.Statement, "insert") }},
		{policy.PolicySpec{When: `statement.risk == "medium"`, Refuse: true}, func(v *askedRecord) bool { return strings.HasPrefix(v.Statement, "update") }},
	} {
		candidate := changed(t, g, func(doc *policy.Document) {
			tc.p.Name = "p"
			doc.Policies = []policy.PolicySpec{tc.p}
		})
		gaps := 0
		for i := range records {
			v := &records[i]
			got := sqlgov.Replay(candidate, g.Catalogs.Index("gov"), &v.View)
			if got.Gap != "" {
				gaps++
				continue
			}
			if want := v.Verdict == "refuse" || tc.hits(v); (got.Verdict == policy.Refused) != want {
				t.Errorf("%s | %s via %s: %+v", tc.p.When, v.Statement, v.Door, got)
			}
		}
		if asksForMore := strings.Contains(tc.p.When, "risk"); gaps > 3 || gaps > 0 && !asksForMore {
			t.Errorf("%s: %d gaps", tc.p.When, gaps)
		}
	}
}

type askedRecord struct {
	audit.View
	uses bool
}

// askEverything asks through every door and returns the records.
func askEverything(t *testing.T) (*gatewaytest.Gateway, []askedRecord) {
	t.Helper()
	g := gatewaytest.Start(t, gatewaytest.Options{Governance: replayDocument, Setup: []string{replayData}})
	uses := make(map[string]bool)
	for _, d := range []door{&wire{dsn: g.DSN("ana", "gov")}, &wire{dsn: g.DSN("ana", "gov"), extended: true}, &tool{url: g.MCP, key: g.Key("bob")}} {
		for _, a := range asked {
			d.run(t.Context(), step{Q: a.sql})
			uses[analyze.Normalize(a.sql)] = a.uses
		}
		d.close()
	}
	var all []askedRecord
	for _, v := range g.Records(audit.Filter{}) {
		if v.Judgement != nil && v.Statement != "" {
			all = append(all, askedRecord{v, uses[v.Statement]})
		}
	}
	if len(all) < 3*len(asked) {
		t.Fatalf("%d records", len(all))
	}
	return g, all
}

func changed(t *testing.T, g *gatewaytest.Gateway, change func(*policy.Document)) *policy.Ruleset {
	t.Helper()
	b, err := json.Marshal(g.Rules.Current().Document)
	if err != nil {
		t.Fatal(err)
	}
	doc := &policy.Document{}
	if err := json.Unmarshal(b, doc); err != nil {
		t.Fatal(err)
	}
	change(doc)
	rules, err := policy.Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// Who reaches a column is who may name it, and who may read a view that shows it.
func TestWhoCan(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Governance: replayDocument, Setup: []string{replayData}})
	rules := changed(t, g, func(doc *policy.Document) {
		doc.Policies = []policy.PolicySpec{{Name: "no-agents", When: `identity.kind == "agent" && "public.v" in statement.tables`, Refuse: true},
			{Name: "at-night", When: `identity.kind == "agent" && now.getHours() < 6`, Refuse: true}}
	})
	for resource, want := range map[string][]string{
		"public.c.region": {"ana allow db.table.select public.c.region", "ana allow db.table.select public.v.area", "bob allow db.table.select public.c.region depends", "bob refuse db.table.select public.v.area depends"},
		"public.c.ssn":    {},
		"public.o":        {"ana allow db.table.select public.o", "ana allow db.table.insert public.o", "ana allow db.table.update public.o", "bob allow db.table.select public.o depends", "bob allow db.table.insert public.o depends", "bob allow db.table.update public.o depends"},
	} {
		found, err := sqlgov.WhoCan(rules, g.Catalogs.Index("gov"), "gov", resource)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, a := range found {
			line := fmt.Sprintf("%s %s %s %s", a.Identity, a.Verdict, a.Action, a.Object)
			if a.Depends {
				line += " depends"
			}
			if a.Role != "analyst" {
				t.Errorf("%+v", a)
			}
			got = append(got, line)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q", resource, got)
		}
	}
	for _, bad := range []string{"public.nosuch", "public.c.nosuch", "public.*", "c"} {
		if found, err := sqlgov.WhoCan(rules, g.Catalogs.Index("gov"), "gov", bad); err == nil {
			t.Errorf("%s: %v", bad, found)
		}
	}
}
