package policy

import (
	"strings"
	"testing"

	"interlock/catalog"
	"interlock/sqlgov/analyze"
)

// The sample source of this package's tests: name and columns of each relation.
var sample = []struct {
	oid     catalog.OID
	name    string
	columns string
}{
	{1, "crm.customers", "id name region ssn email"},
	{2, "crm.orders", "id customer_id amount order"},
	{3, "hr.salaries", "id salary"},
	{4, "crm.notes", "id customer_id body"},
	{5, "crm.empty", ""},
	{6, "pg_catalog.pg_class", "oid relname"},
	{7, "crm.Mixed Case", "id Weird"},
}

func sampleCatalog() *catalog.Index {
	s := &catalog.Snapshot{
		Keywords: []catalog.Keyword{{Word: "order", Category: "R"}, {Word: "name", Category: "U"}},
		Functions: []catalog.Function{
			{OID: 100, Schema: "crm", Name: "score", Volatility: "s"},
			{OID: 101, Schema: "crm", Name: "secret_fn", Volatility: "i"},
			{OID: 870, Schema: "pg_catalog", Name: "lower", Signature: "text", Volatility: "i"},
		},
	}
	for _, r := range sample {
		schema, name, _ := strings.Cut(r.name, ".")
		rel := catalog.Relation{OID: r.oid, Schema: schema, Name: name, Kind: catalog.Table}
		for i, c := range strings.Fields(r.columns) {
			rel.Columns = append(rel.Columns, catalog.Column{Num: int16(i + 1), Name: c})
		}
		s.Relations = append(s.Relations, rel)
	}
	return catalog.NewIndex(s)
}

// permission reads "allow select,insert crm.orders.* crm.notes".
func permission(t testing.TB, line int, text string) Permission {
	t.Helper()
	words := strings.Fields(text)
	p := Permission{Effect: Effect(words[0]), Line: line}
	for _, a := range strings.Split(words[1], ",") {
		p.Actions = append(p.Actions, Action(a))
		for _, known := range Actions {
			if strings.HasSuffix(string(known), "."+a) {
				p.Actions[len(p.Actions)-1] = known
			}
		}
	}
	for _, w := range words[2:] {
		r, err := ParseResource(w)
		if err != nil {
			t.Fatal(err)
		}
		p.Resources = append(p.Resources, r)
	}
	return p
}

func document(t testing.TB, permissions ...string) *Document {
	t.Helper()
	doc := &Document{
		Sources:    []SourceSpec{{ID: "shop", Kind: "postgres", Line: 1}, {ID: "other", Kind: "postgres", Line: 2}},
		Roles:      []RoleSpec{{Name: "analyst", Source: "shop", Line: 3}, {Name: "elsewhere", Source: "other", Line: 4}},
		Identities: []Identity{{Name: "ana", Kind: "human", Line: 5, Grants: []Grant{{Source: "shop", Roles: []string{"analyst"}, Line: 6}}}, {Name: "idle", Kind: "agent"}},
	}
	for i, p := range permissions {
		doc.Roles[0].Permissions = append(doc.Roles[0].Permissions, permission(t, 10+i, p))
	}
	return doc
}

func ruleset(t testing.TB, permissions ...string) *Ruleset {
	t.Helper()
	r, err := Compile(document(t, permissions...))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// facts reads the facts of one statement: "read crm.customers.ssn", "update crm.notes.body", "delete crm.notes",
// "call crm.score"; a relation without a column is one that is touched without any.
func facts(t testing.TB, ix *catalog.Index, items ...string) *analyze.Facts {
	t.Helper()
	s := analyze.Statement{Kind: analyze.Select}
	for _, item := range items {
		verb, name, _ := strings.Cut(item, " ")
		switch verb {
		case "read":
			s.Reads = append(s.Reads, column(t, ix, name))
		case "call":
			schema, fn, _ := strings.Cut(name, ".")
			s.Functions = append(s.Functions, ix.FunctionsNamed(schema, fn)[0])
		case "kind":
			s.Kind = analyze.Kind(name)
		default:
			s.Writes = append(s.Writes, analyze.Write{Column: column(t, ix, name), Action: analyze.WriteAction(verb)})
		}
	}
	return &analyze.Facts{Statements: []analyze.Statement{s}}
}

func column(t testing.TB, ix *catalog.Index, name string) analyze.Column {
	t.Helper()
	parts := strings.Split(name, ".")
	rel := ix.RelationNamed(parts[0], parts[1])
	if rel == nil {
		return analyze.Column{Relation: 999, Schema: parts[0], Table: parts[1]}
	}
	c := analyze.Column{Relation: rel.OID, Schema: rel.Schema, Table: rel.Name}
	if len(parts) < 3 {
		return c
	}
	c.Name, c.Num = parts[2], -1
	for i := range rel.Columns {
		if rel.Columns[i].Name == c.Name {
			c.Num = rel.Columns[i].Num
		}
	}
	return c
}

func TestDecideVerdicts(t *testing.T) {
	ix := sampleCatalog()
	for _, tc := range []struct {
		name        string
		permissions string // separated by ;
		facts       string // separated by ;
		allowed     bool
	}{
		{"no rule", "", "read crm.customers.id", false},
		{"no needs at all", "", "kind begin", true},
		{"unknown kind", "allow select *", "kind vacuum", false},
		{"column", "allow select crm.customers.id", "read crm.customers.id", true},
		{"other column", "allow select crm.customers.id", "read crm.customers.name", false},
		{"one of two", "allow select crm.customers.id", "read crm.customers.id;read crm.customers.name", false},
		{"other action", "allow select crm.customers.id", "update crm.customers.id", false},
		{"deny wins before", "deny select *.*.ssn;allow select *", "read crm.customers.ssn", false},
		{"deny wins after", "allow select *;deny select crm.customers.ssn", "read crm.customers.ssn", false},
		{"deny leaves others", "allow select *;deny select *.*.ssn", "read crm.customers.email", true},
		{"two parts cover columns", "allow select crm.customers", "read crm.customers.ssn", true},
		{"star column", "allow select crm.customers.*", "read crm.customers.ssn", true},
		{"schema star", "allow select crm.*", "read crm.orders.id", true},
		{"schema star elsewhere", "allow select crm.*", "read hr.salaries.id", false},
		{"any schema", "allow select *.customers.id", "read crm.customers.id", true},
		{"column everywhere", "allow select *.*.id", "read hr.salaries.id", true},
		{"everything but system", "allow select *", "read pg_catalog.pg_class.oid", false},
		{"any schema but system", "allow select *.*", "read pg_catalog.pg_class.oid", false},
		{"any schema, system table by name", "allow select *.pg_class", "read pg_catalog.pg_class.oid", false},
		{"system by name", "allow select pg_catalog.*", "read pg_catalog.pg_class.oid", true},
		{"folded pattern", "allow select CRM.Customers.ID", "read crm.customers.id", true},
		{"quoted pattern keeps case", `allow select crm."Customers"`, "read crm.customers.id", false},
		{"no column, one allowed", "allow select crm.customers.id", "read crm.customers", true},
		{"no column, only denied", "allow select crm.customers.id;deny select *.*.id", "read crm.customers", false},
		{"no column, none allowed", "allow select crm.orders", "read crm.customers", false},
		{"no column, pattern of a missing column", "allow select crm.customers.gone", "read crm.customers", false},
		{"no columns in the table", "allow select crm.empty", "read crm.empty", true},
		{"no columns in the table, other rule", "allow select crm.empty.x", "read crm.empty", false},
		{"system column, table", "allow select crm.customers", "read crm.customers.ctid", true},
		{"system column, columns", "allow select crm.customers.id", "read crm.customers.ctid", false},
		{"system column, by name", "allow select crm.customers.ctid", "read crm.customers.ctid", true},
		{"not in the catalog", "allow select *", "read crm.gone", false},
		{"insert", "allow insert crm.notes.body", "insert crm.notes.body", true},
		{"insert default values", "allow insert crm.notes.body", "insert crm.notes", true},
		{"insert other", "allow insert crm.notes.body", "insert crm.notes.id", false},
		{"lock rows", "allow update crm.notes.body", "update crm.notes", true},
		{"lock rows, only select", "allow select crm.notes", "update crm.notes", false},
		{"delete", "allow delete_rows crm.notes", "delete crm.notes", true},
		{"delete, denied in the schema", "allow delete_rows crm.notes;deny delete_rows crm.*", "delete crm.notes", false},
		{"truncate needs its own", "allow delete_rows crm.notes", "truncate crm.notes", false},
		{"truncate", "allow truncate crm.notes", "truncate crm.notes", true},
		{"unknown write", "allow select,insert,update *", "merge crm.notes.id", false},
		{"function", "allow function.execute crm.score", "call crm.score", true},
		{"function without", "allow select *", "call crm.secret_fn", false},
		{"function by schema", "allow function.execute crm.*", "call crm.score", true},
		{"function denied", "allow function.execute *;deny function.execute crm.score", "call crm.score", false},
		{"built-in", "", "call pg_catalog.lower", true},
		{"built-in denied", "deny function.execute pg_catalog.lower", "call pg_catalog.lower", false},
		{"built-in, star deny does not reach", "deny function.execute *", "call pg_catalog.lower", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := ruleset(t, split(tc.permissions)...)
			d := r.Decide(Input{Identity: "ana", Source: "shop", Facts: facts(t, ix, split(tc.facts)...), Catalog: ix})
			if got := d.Verdict == Allowed; got != tc.allowed {
				t.Fatalf("verdict %s, reasons %+v", d.Verdict, d.Reasons)
			}
			if d.Verdict == Refused && (len(d.Denied) == 0 || d.Message == "" || d.SQLState == "") {
				t.Errorf("a refusal without reason or text: %+v", d)
			}
			if d.Verdict == Allowed && (len(d.Denied) > 0 || d.Message != "" || len(d.Remedies) > 0) {
				t.Errorf("an allowed decision with refusals: %+v", d)
			}
		})
	}
}

func split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ";")
}

func TestDecideWithoutGrant(t *testing.T) {
	ix := sampleCatalog()
	r := ruleset(t, "allow select *")
	for _, who := range [][2]string{{"ana", "other"}, {"ana", "nosuch"}, {"idle", "shop"}, {"nobody", "shop"}} {
		in := Input{Identity: who[0], Source: who[1], Facts: facts(t, ix, "kind begin"), Catalog: ix}
		if d := r.Decide(in); d.Verdict != Refused || d.SQLState != "3D000" {
			t.Errorf("%v: %+v", who, d)
		}
		if a := r.Access(who[0], who[1], ix); a != nil {
			t.Errorf("%v: access %+v", who, a)
		}
	}
}

// A decision names every permission that decided, by line, and judges on after the first refusal.
func TestDecideKeepsEveryReason(t *testing.T) {
	ix := sampleCatalog()
	r := ruleset(t, "allow select crm.customers.id", "allow select crm.*", "deny select *.*.ssn")
	d := r.Decide(Input{Identity: "ana", Source: "shop", Catalog: ix,
		Facts: facts(t, ix, "read crm.customers.ssn", "read crm.customers.id", "read hr.salaries.id", "read crm.customers.id")})
	want := []Reason{
		{Need: Need{Action: TableSelect, Schema: "crm", Object: "customers", Column: "ssn", Relation: 1, Num: 4}, Effect: Deny, Role: "analyst", Pattern: "*.*.ssn", Line: 12},
		{Need: Need{Action: TableSelect, Schema: "crm", Object: "customers", Column: "id", Relation: 1, Num: 1}, Granted: true, Effect: Allow, Role: "analyst", Pattern: "crm.customers.id", Line: 10},
		{Need: Need{Action: TableSelect, Schema: "hr", Object: "salaries", Column: "id", Relation: 3, Num: 1}},
	}
	if len(d.Reasons) != len(want) {
		t.Fatalf("reasons %+v", d.Reasons)
	}
	for i := range want {
		if d.Reasons[i] != want[i] {
			t.Errorf("reason %d: %+v, want %+v", i, d.Reasons[i], want[i])
		}
	}
	if len(d.Denied) != 2 || d.Denied[0] != want[0] || d.Denied[1] != want[2] {
		t.Errorf("denied %+v", d.Denied)
	}
	remedies := []Remedy{{Change: "remove", Role: "analyst", Action: TableSelect, Resource: "*.*.ssn", Line: 12},
		{Change: "allow", Role: "analyst", Action: TableSelect, Resource: "hr.salaries.id"}}
	if len(d.Remedies) != 2 || d.Remedies[0] != remedies[0] || d.Remedies[1] != remedies[1] {
		t.Errorf("remedies %+v", d.Remedies)
	}
}

// The remedies of a refusal, put into the document, turn it into an allow.
func TestRemediesWork(t *testing.T) {
	ix := sampleCatalog()
	for _, permissions := range []string{"", "allow select crm.orders", "deny select *.*.ssn;deny select crm.*", "allow select crm.*;deny select *.*.ssn",
		"deny delete_rows crm.*;deny function.execute crm.score"} {
		doc := document(t, split(permissions)...)
		needs := facts(t, ix, "read crm.customers.ssn", "read crm.orders", "delete crm.notes", "call crm.score", "read crm.Mixed Case.Weird")
		in := Input{Identity: "ana", Source: "shop", Catalog: ix, Facts: needs}
		r, err := Compile(doc)
		if err != nil {
			t.Fatal(err)
		}
		repaired, err := Compile(repair(t, doc, r.Decide(in).Remedies))
		if err != nil {
			t.Fatal(err)
		}
		if d := repaired.Decide(in); d.Verdict != Allowed {
			t.Errorf("%q: still %+v", permissions, d.Denied)
		}
	}
}

func repair(t *testing.T, doc *Document, remedies []Remedy) *Document {
	fixed := *doc
	fixed.Roles = append([]RoleSpec{}, doc.Roles...)
	var kept []Permission
	for _, p := range doc.Roles[0].Permissions {
		removed := false
		for _, r := range remedies {
			removed = removed || r.Change == "remove" && r.Line == p.Line
		}
		if !removed {
			kept = append(kept, p)
		}
	}
	for _, r := range remedies {
		if r.Change == "allow" {
			res, err := ParseResource(r.Resource)
			if err != nil {
				t.Fatal(err)
			}
			kept = append(kept, Permission{Effect: Allow, Actions: []Action{r.Action}, Resources: []Resource{res}})
		}
	}
	fixed.Roles[0].Permissions = kept
	return &fixed
}

func TestWithholdDetail(t *testing.T) {
	ix := sampleCatalog()
	for _, tc := range []struct {
		permissions, facts string
		want               bool
	}{
		{"allow select *", "read crm.customers.id", false},
		{"allow select *;allow delete_rows crm.*", "delete crm.notes", false},
		{"allow select crm.customers.id", "read crm.customers.id", true},
		{"allow select crm.notes", "read crm.notes.id", false},
		{"allow select crm.notes;allow insert crm.notes", "insert crm.notes.id", false},
		{"allow select crm.notes;allow delete_rows crm.notes", "delete crm.notes", true},
		{"allow select crm.*;allow function.execute crm.score", "call crm.score", true},
		{"", "kind begin", false},
	} {
		d := ruleset(t, split(tc.permissions)...).Decide(Input{Identity: "ana", Source: "shop", Facts: facts(t, ix, split(tc.facts)...), Catalog: ix})
		if d.Verdict != Allowed || d.WithholdDetail != tc.want {
			t.Errorf("%s | %s: verdict %s, withhold %v", tc.permissions, tc.facts, d.Verdict, d.WithholdDetail)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	ix := sampleCatalog()
	var permissions []string
	for _, r := range sample[:4] {
		for _, c := range strings.Fields(r.columns) {
			permissions = append(permissions, "allow select "+r.name+"."+c)
		}
	}
	for len(permissions) < 50 {
		permissions = append(permissions, "allow select crm.filler"+strings.Repeat("x", len(permissions))+".id")
	}
	r := ruleset(b, permissions...)
	in := Input{Identity: "ana", Source: "shop", Catalog: ix, Facts: facts(b, ix, "read crm.customers.id", "read crm.customers.name",
		"read crm.customers.region", "read crm.orders.id", "read crm.orders.customer_id", "read crm.orders.amount", "call pg_catalog.lower")}
	if d := r.Decide(in); d.Verdict != Allowed {
		b.Fatal(d.Message)
	}
	b.ReportAllocs()
	for b.Loop() {
		r.Decide(in)
	}
}
