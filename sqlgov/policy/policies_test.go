package policy

import (
	"fmt"
	"math/bits"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// governed is a document in which ana may do everything, with policies.
func governed(t testing.TB, policies ...PolicySpec) *Document {
	doc := document(t, "allow select,insert,update,delete_rows,truncate,function.execute *")
	doc.File = "/etc/governance.yaml"
	doc.Identities[0].Team, doc.Identities[0].Attributes = "finance", map[string]string{"clearance": "high"}
	for _, name := range []string{"dora", "dirk", "lena"} {
		doc.Identities = append(doc.Identities, Identity{Name: name, Kind: "human", Line: 15})
	}
	doc.Identities = append(doc.Identities, Identity{Name: "bot", Kind: "agent", Line: 16})
	doc.Groups = []GroupSpec{{Name: "dba", Line: 17, Members: []string{"dora", "dirk"}}, {Name: "legal", Line: 18, Members: []string{"lena", "ana"}}}
	doc.Labels = []LabelSpec{{Name: "pii", Line: 20, Resources: []Resource{resource(t, "*.*.ssn"), resource(t, "crm.customers.email")}},
		{Name: "critical", Line: 21, Resources: []Resource{resource(t, "hr.salaries")}}}
	for i := range policies {
		if policies[i].Name == "" {
			policies[i].Name = fmt.Sprintf("p%d", i)
		}
		if policies[i].Line == 0 {
			policies[i].Line = 30 + i
		}
	}
	doc.Policies = policies
	return doc
}

func resource(t testing.TB, text string) Resource {
	t.Helper()
	r, err := ParseResource(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func compiled(t testing.TB, policies ...PolicySpec) *Ruleset {
	t.Helper()
	r, err := Compile(governed(t, policies...))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var morning = Circumstances{Now: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC), Address: "10.1.2.3", Application: "psql"}

// decide judges a statement under the circumstances of the morning.
func decide(t testing.TB, r *Ruleset, items string) *Decision {
	t.Helper()
	ix := sampleCatalog()
	items, everywhere := strings.CutSuffix(items, ";everywhere")
	in := Input{Identity: "ana", Source: "shop", Door: "pgwire", Catalog: ix, Facts: facts(t, ix, split(items)...)}
	in.Facts.Statements[0].NoWhere = everywhere
	return r.Settle(r.Decide(in), in, morning)
}

func TestConditions(t *testing.T) {
	for _, tc := range []struct {
		when, facts string
		met         bool
	}{
		{``, "read crm.notes.id", true},
		{`identity.name == "ana"`, "read crm.notes.id", true},
		{`"idle" == identity.name`, "read crm.notes.id", false},
		{`identity.kind == "agent"`, "read crm.notes.id", false},
		{`identity.kind in ["agent", "human"]`, "read crm.notes.id", true},
		{`identity.team == "finance" && source == "shop" && door == "pgwire"`, "read crm.notes.id", true},
		{`door == "mcp"`, "read crm.notes.id", false},
		{`identity.attributes.clearance != "high"`, "read crm.notes.id", false},
		{`has(identity.attributes.nosuch) && identity.attributes.nosuch == "x"`, "read crm.notes.id", false},
		{`identity.attributes[?"nosuch"].orValue("none") == "none"`, "read crm.notes.id", true},
		{`statement.kind == "select"`, "read crm.notes.id", true},
		{`statement.kind == "delete" && !statement.where`, "kind delete;delete crm.notes", false},
		{`statement.kind == "delete" && !statement.where`, "kind delete;delete crm.notes;everywhere", true},
		{`statement.write`, "read crm.notes.id", false},
		{`statement.write`, "update crm.notes.body", true},
		{`"crm.notes" in statement.tables`, "read crm.notes.id", true},
		{`"crm.notes" in statement.tables`, "insert crm.notes.id", true},
		{`"crm.notes" in statement.tables`, "read crm.notes", true},
		{`"crm.notes" in statement.tables || "crm.orders" in statement.tables`, "read crm.customers.id;read crm.orders.id", true},
		{`"crm.notes" in statement.writes`, "read crm.notes.id;insert crm.orders.id", false},
		{`"crm.customers.ssn" in statement.columns`, "read crm.customers.id", false},
		{`"crm.customers.ssn" in statement.columns`, "read crm.customers.id;read crm.customers.ssn", true},
		{`"crm.customers.ssn" in statement.columns`, "delete crm.customers", true},
		{`'crm."Mixed Case"."Weird"' in statement.columns`, "read crm.Mixed Case.Weird", true},
		{`statement.columns.exists(c, c.startsWith("crm.customers."))`, "read crm.customers.id", true},
		{`"pii" in statement.labels`, "read crm.customers.ssn", true},
		{`"pii" in statement.labels`, "update crm.customers.email", true},
		{`"pii" in statement.labels`, "read crm.customers.id", false},
		{`"pii" in statement.labels`, "read crm.customers", false},
		{`"pii" in statement.labels`, "truncate crm.customers", true},
		{`"critical" in statement.labels`, "read hr.salaries", true},
		{`"critical" in statement.labels`, "read hr.salaries.id", true},
		{`["pii", "critical"].exists(l, l in statement.labels)`, "read hr.salaries.id", true},
		{`"crm.score" in statement.functions`, "call crm.score", true},
		{`statement.risk == "none"`, "read crm.notes.id;call crm.score;call pg_catalog.lower", true},
		{`statement.risk == "low"`, "kind insert;insert crm.notes.id", true},
		{`statement.risk == "medium"`, "kind update;update crm.notes.body", true},
		{`statement.risk == "high"`, "kind update;update crm.notes.body;everywhere", true},
		{`statement.risk == "high"`, "kind truncate;truncate crm.notes", true},
		{`statement.risk in ["medium", "high"]`, "kind insert;insert crm.notes.id;update crm.notes.body", true},
		{`now.getHours() < 8`, "read crm.notes.id", false},
		{`now.getHours("Asia/Tokyo") == 18 && now.getDayOfWeek() == 1`, "read crm.notes.id", true},
		{`client.address.inNetwork("10.0.0.0/8") && client.application == "psql"`, "read crm.notes.id", true},
		{`!client.address.inNetwork("10.0.0.0/8")`, "read crm.notes.id", false},
		{`identity.kind == "agent" && now.getHours() == 9`, "read crm.notes.id", false},
		{`statement.kind == "select" && statement.tables.size() > 1 && now.getHours() == 9`, "read crm.notes.id;read crm.orders.id", true},
		{`statement.tables.size() > 1 || now.getHours() == 9`, "read crm.notes.id;read crm.orders.id", true},
		{`statement.tables.size() > 1 && now.getHours() == 9`, "read crm.notes.id", false},
		{`ruleset == 0`, "read crm.notes.id", true},
	} {
		r := compiled(t, PolicySpec{When: tc.when, Refuse: true})
		d := decide(t, r, tc.facts)
		if (d.Verdict == Refused) != tc.met || (d.against != nil) != tc.met {
			t.Errorf("%s | %s: verdict %s (%s), reasons %+v", tc.when, tc.facts, d.Verdict, d.Message, d.Reasons)
		}
	}
}

// What cannot be evaluated refuses, whatever the policy would have done; a policy that is not enforced refuses nothing.
func TestErrorsDeny(t *testing.T) {
	for _, when := range []string{`identity.attributes.nosuch == "x"`, `client.application.inNetwork("10.0.0.0/8")`, `client.address.inNetwork("nowhere")`,
		`now.getHours("Nowhere/City") == 1`, `1 / (statement.tables.size() - 1) == 1`, `statement.kind == "select" && identity.attributes.nosuch == "x"`,
		`statement.columns.all(a, statement.columns.all(b, statement.columns.all(c, statement.columns.all(d, (a + b + c + d).size() > 0))))`} {
		items := "read crm.customers.id;read crm.customers.name;read crm.customers.region;read crm.customers.ssn;read crm.customers.email;" +
			"read crm.customers.ctid;read crm.customers.xmin;read crm.customers.tableoid"
		r := compiled(t, PolicySpec{When: when, Cap: &CapSpec{Rows: 1}})
		d := decide(t, r, items)
		last := d.Reasons[len(d.Reasons)-1]
		if d.Verdict != Refused || d.SQLState != "42501" || last.Policy == nil || last.Policy.Error == "" || last.Granted || strings.Contains(d.Message, last.Policy.Error) {
			t.Errorf("%s: %s %q, %+v", when, d.Verdict, d.Message, last.Policy)
		}
		r = compiled(t, PolicySpec{When: when, Cap: &CapSpec{Rows: 1}, State: DryRun})
		d = decide(t, r, items)
		if last = d.Reasons[len(d.Reasons)-1]; d.Verdict != Allowed || last.Policy == nil || last.Policy.Error == "" || last.Policy.State != DryRun {
			t.Errorf("dry run of %s: %s, %+v", when, d.Verdict, last)
		}
	}
	// An operand that is false makes the whole false, though another is an error: this is no match.
	r := compiled(t, PolicySpec{When: `statement.kind == "insert" && identity.attributes.nosuch == "x"`, Refuse: true})
	if d := decide(t, r, "read crm.notes.id"); d.Verdict != Allowed {
		t.Errorf("%+v", d.Reasons)
	}
}

// Policies never add access, and what roles refuse is told in the words of roles.
func TestPoliciesOnlyTakeAway(t *testing.T) {
	doc := governed(t, PolicySpec{When: `"crm.customers" in statement.tables`, Refuse: true, Message: "customers are secret"},
		PolicySpec{ReadOnly: true}, PolicySpec{Hold: &HoldSpec{Groups: []string{"dba"}}})
	doc.Roles[0].Permissions = []Permission{permission(t, 10, "allow select crm.customers.id")}
	r, err := Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	d := decide(t, r, "read crm.customers.ssn")
	if d.Verdict != Refused || strings.Contains(d.Message+d.Detail+d.Hint, "secret") || len(d.Denied) != 1 {
		t.Errorf("%+v", d)
	}
	if got := matchNames(d); !slices.Equal(got, []string{"p0", "p1", "p2"}) {
		t.Errorf("policies are on record although roles refuse: %v", got)
	}
	if d = decide(t, r, "read crm.customers.id"); d.Verdict != Refused || d.Message != "customers are secret" || !strings.Contains(d.Hint, `"p0"`) || len(d.Denied) != 0 {
		t.Errorf("%+v", d)
	}
}

func matchNames(d *Decision) (names []string) {
	for _, r := range d.Reasons {
		if r.Policy != nil {
			names = append(names, r.Policy.Policy)
		}
	}
	return names
}

func TestStates(t *testing.T) {
	r := compiled(t, PolicySpec{Refuse: true, State: Draft}, PolicySpec{Refuse: true, State: DryRun}, PolicySpec{Hold: &HoldSpec{Groups: []string{"dba"}}, State: DryRun},
		PolicySpec{Cap: &CapSpec{Rows: 5}, State: DryRun})
	d := decide(t, r, "read crm.notes.id")
	if d.Verdict != Allowed || !reflect.DeepEqual(d.Obligations, Obligations{}) {
		t.Fatalf("%+v", d)
	}
	if got := matchNames(d); !slices.Equal(got, []string{"p1", "p2", "p3"}) {
		t.Errorf("recorded %v", got)
	}
	m := d.Reasons[1].Policy
	if m.File != "/etc/governance.yaml" || m.Line != 31 || m.State != DryRun || !slices.Equal(m.Effects, []string{"refuse"}) {
		t.Errorf("%+v", m)
	}
}

func TestObligationsAreTheStrictest(t *testing.T) {
	r := compiled(t,
		PolicySpec{Cap: &CapSpec{Rows: 100, Time: time.Second}},
		PolicySpec{Cap: &CapSpec{Rows: 500, Bytes: 1 << 20}, ReadOnly: true},
		PolicySpec{When: `now.getHours() == 9`, Cap: &CapSpec{Rows: 10, Bytes: 2 << 20}},
		PolicySpec{When: `now.getHours() == 10`, Cap: &CapSpec{Rows: 1}},
		PolicySpec{Hold: &HoldSpec{Groups: []string{"dba"}, Approvers: 2}, Message: "ask first"},
		PolicySpec{Hold: &HoldSpec{Groups: []string{"legal"}, Expires: time.Minute, MaxRows: 5}},
		PolicySpec{Limit: &RateSpec{Requests: 60}},
		PolicySpec{Limit: &RateSpec{Requests: 5, Per: PerRule, Window: time.Hour, Burst: 1}},
		PolicySpec{Budget: &BudgetSpec{Rows: 500, Window: time.Hour}},
		PolicySpec{Budget: &BudgetSpec{Rows: 1, Window: time.Hour}, State: DryRun},
		PolicySpec{When: `now.getHours() == 9`, Budget: &BudgetSpec{Bytes: 1 << 20, Window: 24 * time.Hour, Per: PerRule}, Message: "enough"})
	d := decide(t, r, "read crm.notes.id")
	want := Obligations{MaxRows: 10, MaxBytes: 1 << 20, Timeout: time.Second, ReadOnly: true,
		Hold:      &Hold{Rule: "p4", Groups: []string{"dba"}, Approvers: 2, Reason: "ask first"},
		MoreHolds: []Hold{{Rule: "p5", Groups: []string{"legal"}, Approvers: 1, Expires: time.Minute, MaxRows: 5}},
		Rates: []Rate{{Rule: "p6", Per: PerIdentity, Limit: 60, Window: time.Minute, Burst: 60},
			{Rule: "p7", Per: PerRule, Limit: 5, Window: time.Hour, Burst: 1}},
		Budgets: []Budget{{Rule: "p8", Per: PerIdentity, Rows: 500, Window: time.Hour},
			{Rule: "p10", Per: PerRule, Bytes: 1 << 20, Window: 24 * time.Hour, Message: "enough"}}}
	if !reflect.DeepEqual(d.Obligations, want) {
		t.Errorf("%+v\n%+v", d.Obligations, want)
	}
	if d.Verdict != Held || d.SQLState != "42501" || d.Detail != `Policy "p4" asks for 2 approvals of dba: ask first.` {
		t.Errorf("%s %s %q", d.Verdict, d.SQLState, d.Detail)
	}
}

// A decision that depends on circumstances can be settled many times; nothing of one request stays for the next.
func TestSettleLeavesTheDecisionAlone(t *testing.T) {
	r := compiled(t, PolicySpec{Cap: &CapSpec{Rows: 100}}, PolicySpec{When: `now.getHours() < 8`, Refuse: true},
		PolicySpec{When: `client.application != "psql"`, Limit: &RateSpec{Requests: 1}, Cap: &CapSpec{Rows: 1}},
		PolicySpec{When: `client.application != "psql"`, Hold: &HoldSpec{Groups: []string{"dba"}}})
	ix := sampleCatalog()
	in := Input{Identity: "ana", Source: "shop", Catalog: ix, Facts: facts(t, ix, "read crm.notes.id")}
	d := r.Decide(in)
	if d.Settled() || d.Verdict != Allowed {
		t.Fatalf("%+v", d)
	}
	night := morning
	night.Now = night.Now.Add(-6 * time.Hour)
	other := morning
	other.Application = "x"
	for range 3 {
		if got := r.Settle(d, in, night); got.Verdict != Refused || !got.Settled() {
			t.Fatalf("%+v", got)
		}
		if got := r.Settle(d, in, other); got.Verdict != Held || len(got.Obligations.Rates) != 1 || got.Obligations.MaxRows != 1 {
			t.Fatalf("%+v", got)
		}
		if got := r.Settle(d, in, morning); got.Verdict != Allowed || got.Obligations.MaxRows != 100 || len(got.Reasons) != 2 || got.Obligations.Rates != nil {
			t.Fatalf("%+v", got)
		}
	}
	r = compiled(t, PolicySpec{When: `statement.kind == "insert" && now.getHours() < 8`, Refuse: true}, PolicySpec{When: `statement.tables.size() > 5 && now.getHours() < 8`, Refuse: true})
	if d := r.Decide(in); !d.Settled() {
		t.Errorf("what is false already still waits: %+v", d.pending)
	}
}

// Every statement of a text is judged; one that is turned down turns the text down.
func TestEveryStatementOfAText(t *testing.T) {
	ix := sampleCatalog()
	r := compiled(t, PolicySpec{When: `statement.kind == "delete"`, Refuse: true}, PolicySpec{ReadOnly: true, When: `source == "shop"`})
	f := facts(t, ix, "read crm.notes.id")
	f.Statements = append(f.Statements, facts(t, ix, "kind delete", "delete crm.notes").Statements...)
	d := r.Decide(Input{Identity: "ana", Source: "shop", Catalog: ix, Facts: f})
	if d.Verdict != Refused || !strings.Contains(d.Message, `"p1"`) && !strings.Contains(d.Message, `"p0"`) {
		t.Errorf("%+v", d)
	}
	if d := r.Decide(Input{Identity: "ana", Source: "shop", Catalog: ix, Facts: facts(t, ix, "read crm.notes.id")}); d.Verdict != Allowed || !d.Obligations.ReadOnly {
		t.Errorf("%+v", d)
	}
	if d := r.Decide(Input{Identity: "ana", Source: "shop", Catalog: ix, Facts: facts(t, ix, "kind insert", "insert crm.notes.id")}); d.Verdict != Refused || !strings.Contains(d.Message, "change nothing") {
		t.Errorf("%+v", d)
	}
}

// The index finds a policy whenever its condition holds: evaluating every condition says the same.
func TestIndexMissesNothing(t *testing.T) {
	pieces := []string{`identity.name == "ana"`, `identity.name in ["idle", "ana"]`, `identity.kind == "agent"`, `source == "shop"`, `door in ["mcp"]`,
		`statement.kind == "select"`, `(statement.kind == "insert" || statement.kind == "update")`, `statement.risk in ["medium", "high"]`,
		`"crm.notes" in statement.tables`, `"crm.customers.ssn" in statement.columns`, `"pii" in statement.labels`, `("pii" in statement.labels || source == "other")`,
		`"crm.score" in statement.functions`, `"crm.notes" in statement.writes`, `statement.tables.size() > 1`, `!statement.write`, `identity.attributes.nosuch == "x"`}
	var all []PolicySpec
	for _, a := range pieces {
		for _, b := range pieces {
			all = append(all, PolicySpec{When: a + " && " + b, Cap: &CapSpec{Rows: 1}}, PolicySpec{When: a + " || " + b, Cap: &CapSpec{Rows: 1}})
		}
	}
	r := compiled(t, all...)
	ix := sampleCatalog()
	met := 0
	for _, items := range []string{"read crm.notes.id", "kind insert;insert crm.notes.id", "kind update;update crm.notes.body;read crm.customers.ssn",
		"read crm.orders.id;read crm.customers.email;call crm.score", "kind delete;delete crm.customers", "kind begin"} {
		in := Input{Identity: "ana", Source: "shop", Door: "pgwire", Catalog: ix, Facts: facts(t, ix, split(items)...)}
		q := r.question(&in, &in.Facts.Statements[0], &morning)
		found := r.policies.candidates(q)
		for i := range r.policies.all {
			p := &r.policies.all[i]
			plain := condition{program: p.program}
			want, _ := plain.ask(q)
			got := misses
			if found[i/64]>>(i%64)&1 == 1 {
				got, _ = p.ask(q)
			}
			if got != want {
				t.Errorf("%s | %s: %v, want %v", p.spec.When, items, got, want)
			}
			met += int(want)
		}
		few := 0
		for _, w := range found {
			few += bits.OnesCount64(w)
		}
		if few == len(all) {
			t.Errorf("%s: the index leaves out nothing", items)
		}
	}
	if met < 100 {
		t.Errorf("only %d conditions held", met)
	}
}

func TestCheckPolicies(t *testing.T) {
	for _, tc := range []struct {
		p    PolicySpec
		want string
	}{
		{PolicySpec{}, "policies.p0: the policy does nothing"},
		{PolicySpec{Refuse: true, ReadOnly: true}, "policies.p0: the policy refuses, so its read_only can never matter"},
		{PolicySpec{Refuse: true, State: "on"}, `policies.p0.state: unknown state "on"`},
		{PolicySpec{Refuse: true, When: `identity.nam == "x"`}, "policies.p0.when: undeclared reference"},
		{PolicySpec{Refuse: true, When: `identity.name == 5`}, "policies.p0.when: found no matching overload"},
		{PolicySpec{Refuse: true, When: `identity.name`}, "policies.p0.when: the condition is of type string"},
		{PolicySpec{Refuse: true, When: `identity.name ==`}, "policies.p0.when: Syntax error"},
		{PolicySpec{Refuse: true, When: strings.Repeat("true && ", 600) + "true"}, "policies.p0.when: "},
		{PolicySpec{Refuse: true, When: `statement.kind == "selct"`}, `policies.p0.when: statement.kind is never "selct" (did you mean "select"?)`},
		{PolicySpec{Refuse: true, When: `source == "shp"`}, `policies.p0.when: source is never "shp" (did you mean "shop"?)`},
		{PolicySpec{Refuse: true, When: `"ppi" in statement.labels`}, `policies.p0.when: statement.labels is never "ppi"`},
		{PolicySpec{Hold: &HoldSpec{}}, "policies.p0.hold: say which groups may approve"},
		{PolicySpec{Hold: &HoldSpec{Groups: []string{"dab"}}}, `policies.p0.hold.groups.0: unknown group "dab" (did you mean "dba"?)`},
		{PolicySpec{Hold: &HoldSpec{Groups: []string{"dba"}, Approvers: 3}}, "policies.p0.hold: nobody can approve this: it takes 3 people, and the groups have 2"},
		{PolicySpec{Hold: &HoldSpec{Groups: []string{"dba"}, MaxRows: -1}}, "policies.p0.hold: approvers, expires and max_rows"},
		{PolicySpec{Limit: &RateSpec{}}, "policies.p0.limit: requests, window and burst must be more than 0"},
		{PolicySpec{Limit: &RateSpec{Requests: 1, Per: "day"}}, `policies.p0.limit: unknown key "day"`},
		{PolicySpec{Budget: &BudgetSpec{Rows: 5}}, "policies.p0.budget: a budget needs a window, and rows or bytes"},
		{PolicySpec{Budget: &BudgetSpec{Window: time.Hour}}, "policies.p0.budget: a budget needs a window, and rows or bytes"},
		{PolicySpec{Budget: &BudgetSpec{Window: time.Hour, Bytes: 1, Per: "team"}}, `policies.p0.budget: unknown key "team"`},
		{PolicySpec{Cap: &CapSpec{}}, "policies.p0.cap: a cap needs rows, bytes or time"},
		{PolicySpec{Refuse: true, Name: "no name"}, "policies.no name: policy name"},
	} {
		_, err := Compile(governed(t, tc.p))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want %s", tc.p, err, tc.want)
		}
	}
	_, err := Compile(governed(t, PolicySpec{Name: "a", Refuse: true}, PolicySpec{Name: "a", Refuse: true}))
	if err == nil || !strings.Contains(err.Error(), `policy "a" is defined twice`) {
		t.Error(err)
	}
}

// many are 500 policies as an organisation might have: about tables, teams, agents, labels, times.
func many(n int) []PolicySpec {
	var all []PolicySpec
	for i := range n {
		p := PolicySpec{Name: fmt.Sprintf("policy-%d", i), Cap: &CapSpec{Rows: 1000 + i}}
		switch i % 8 {
		case 0, 1, 2:
			p.When = fmt.Sprintf(`"crm.table%d" in statement.tables && identity.kind == "human"`, i)
		case 3:
			p.When = fmt.Sprintf(`identity.team == "team%d" && statement.risk in ["medium", "high"]`, i)
		case 4:
			p.When = fmt.Sprintf(`"hr.table%d.salary" in statement.columns || "hr.table%d.bonus" in statement.columns`, i, i)
		case 5:
			p.When = fmt.Sprintf(`identity.kind == "agent" && statement.tables.exists(t, t.startsWith("s%d."))`, i)
		case 6:
			p.When = fmt.Sprintf(`identity.kind == "agent" && "pii" in statement.labels && (now.getHours() < 8 || %d > 4)`, i)
		case 7:
			p.When = fmt.Sprintf(`statement.write && statement.kind in ["update", "delete"] && !("crm.table%d" in statement.tables)`, i)
		}
		if i%100 == 99 {
			p.When = `"pii" in statement.labels && identity.attributes.clearance == "high"`
		}
		all = append(all, p)
	}
	return all
}

// The difference between these is what 500 policies add to a decision that is not cached.
func BenchmarkDecidePolicies(b *testing.B) {
	for _, n := range []int{0, 500} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := compiled(b, many(n)...)
			ix := sampleCatalog()
			in := Input{Identity: "ana", Source: "shop", Door: "pgwire", Catalog: ix, Facts: facts(b, ix, "read crm.customers.id", "read crm.customers.name",
				"read crm.customers.ssn", "read crm.orders.id", "read crm.orders.customer_id", "read crm.orders.amount", "call pg_catalog.lower")}
			if d := r.Decide(in); d.Verdict != Allowed || n > 0 && len(matchNames(d)) != 5 {
				b.Fatal(d.Message, matchNames(d))
			}
			b.ReportAllocs()
			before := processorTime()
			for b.Loop() {
				r.Decide(in)
			}
			b.ReportMetric(float64(processorTime()-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// processorTime is what this process has used: on a busy machine it tells more than the clock.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// What one policy on the time adds to a decision that is cached.
func BenchmarkSettle(b *testing.B) {
	r := compiled(b, PolicySpec{When: `statement.kind == "select" && now.getHours() < 8`, Refuse: true})
	ix := sampleCatalog()
	in := Input{Identity: "ana", Source: "shop", Catalog: ix, Facts: facts(b, ix, "read crm.customers.id")}
	d := r.Decide(in)
	b.ReportAllocs()
	for b.Loop() {
		r.Settle(d, in, morning)
	}
}
