package policy

import (
	"slices"
	"strings"
	"testing"

	"interlock/redact"
	"interlock/sqlgov/analyze"
)

// rawFacts are those of a statement of which nothing is known.
func rawFacts() *analyze.Facts {
	return analyze.RawFacts("select ssn from crm.customers", analyze.Limits{})
}

var hidden = []MaskSpec{{Name: "hidden", Spec: redact.Spec{Kind: redact.Null}}}

// rawDecision judges it for an ana who may run anything, under the circumstances of the morning.
func rawDecision(t *testing.T, policies ...PolicySpec) *Decision {
	t.Helper()
	doc := governed(t, policies...)
	doc.Masks = hidden
	doc.Roles[0].Permissions = []Permission{permission(t, 10, "allow execute_raw *")}
	r, err := Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Identity: "ana", Source: "shop", Door: "pgwire", Catalog: sampleCatalog(), Facts: rawFacts()}
	return r.Settle(r.Decide(in), in, morning)
}

// Attack: a statement that nobody analyses goes past a policy that looks at what it touches. What such a policy says cannot
// be known, so it refuses, unless the rest of its condition already says no.
func TestPoliciesOnRawStatements(t *testing.T) {
	for _, tc := range []struct {
		policy  PolicySpec
		allowed bool
	}{
		{PolicySpec{Refuse: true, When: `"crm.customers" in statement.tables`}, false},
		{PolicySpec{Refuse: true, When: `"pii" in statement.labels`}, false},
		{PolicySpec{Refuse: true, When: `statement.columns.exists(c, c.endsWith(".ssn"))`}, false},
		{PolicySpec{Refuse: true, When: `!statement.where`}, false},
		{PolicySpec{Refuse: true, When: `statement.table_rows > 5`}, false},
		{PolicySpec{Refuse: true, When: `!("crm.customers" in statement.tables)`}, false},
		{PolicySpec{Cap: &CapSpec{Rows: 5}, When: `"crm.customers" in statement.tables`}, false},
		{PolicySpec{Refuse: true, When: `"crm.customers" in statement.tables && now.getHours() == 9`}, false},
		{PolicySpec{Refuse: true, When: `"crm.customers" in statement.tables && now.getHours() == 10`}, true},
		{PolicySpec{Refuse: true, When: `"crm.customers" in statement.tables && identity.name != "ana"`}, true},
		{PolicySpec{Refuse: true, When: `statement.kind != "raw" && "crm.customers" in statement.tables`}, true},
		{PolicySpec{Refuse: true, When: `statement.kind == "select"`}, true},
		{PolicySpec{Refuse: true, When: `statement.kind == "raw"`}, false},
		{PolicySpec{Refuse: true, When: `statement.write`}, false},
		{PolicySpec{Refuse: true, When: `statement.risk == "high"`}, false},
		{PolicySpec{ReadOnly: true}, false},
		{PolicySpec{Mask: &MaskRule{With: "hidden", Labels: []string{"pii"}}}, false},
		{PolicySpec{Mask: &MaskRule{With: "hidden", Labels: []string{"pii"}}, When: `identity.name == "bot"`}, true},
		{PolicySpec{Refuse: true, When: `"crm.customers" in statement.tables`, State: DryRun}, true},
		{PolicySpec{Cap: &CapSpec{Rows: 5}}, true},
		{PolicySpec{Limit: &RateSpec{Requests: 5}}, true},
	} {
		tc.policy.Name = "p"
		if d := rawDecision(t, tc.policy); (d.Verdict == Allowed) != tc.allowed {
			t.Errorf("%+v: %s %s", tc.policy, d.Verdict, d.Message)
		}
	}
	d := rawDecision(t, PolicySpec{Name: "customers", Refuse: true, When: `"crm.customers" in statement.tables`})
	if d.Message != `policy "customers" cannot be applied to a statement that is run as it is, so the statement is refused` {
		t.Error(d.Message)
	}
}

// Only who is allowed db.execute_raw by its name runs anything.
func TestRawPermission(t *testing.T) {
	for _, tc := range []struct {
		permissions string
		raw         bool
	}{
		{"allow execute_raw *", true},
		{"allow select,insert,update,delete_rows,truncate,function.execute *;allow function.execute pg_catalog.*", false},
		{"allow execute_raw *;deny execute_raw *", false},
	} {
		r := ruleset(t, strings.Split(tc.permissions, ";")...)
		d := r.Decide(Input{Identity: "ana", Source: "shop", Catalog: sampleCatalog(), Facts: rawFacts()})
		if raw := r.Raw("ana", "shop"); raw != tc.raw || (d.Verdict == Allowed) != tc.raw {
			t.Errorf("%s: %v %s", tc.permissions, raw, d.Verdict)
		}
	}
	if r := ruleset(t, "allow execute_raw *"); r.Raw("ana", "other") || r.Raw("idle", "shop") || r.Raw("nobody", "shop") {
		t.Error("a permission on one source or of one identity counts elsewhere")
	}
}

// What db.execute_raw would make void cannot be written beside it, and what it means is said.
func TestCheckRaw(t *testing.T) {
	for _, tc := range []struct{ permissions, want string }{
		{"allow execute_raw crm.*", `db.execute_raw acts on the whole source: write "*", not "crm.*"`},
		{"allow execute_raw *.*", `db.execute_raw acts on the whole source: write "*", not "*.*"`},
		{"allow execute_raw *;deny select *.*.ssn", `role "analyst" denies something (line 11), which role "analyst" would make void`},
		{"allow raw *", `unknown action "raw"`},
		{"allow db.* *", `unknown action "db.*"`},
	} {
		if _, err := Compile(document(t, strings.Split(tc.permissions, ";")...)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.permissions, err)
		}
	}
	doc := governed(t)
	doc.Masks = hidden
	doc.Roles[0].Masks = []MaskRule{{With: "hidden", Labels: []string{"pii"}, Line: 40}}
	doc.Roles = append(doc.Roles, RoleSpec{Name: "raw", Source: "shop", Line: 50, Permissions: []Permission{permission(t, 51, "allow execute_raw *")}})
	doc.Identities[0].Grants[0].Roles = append(doc.Identities[0].Grants[0].Roles, "raw")
	if _, err := Compile(doc); err == nil || !strings.Contains(err.Error(), `role "analyst" has masks, which role "raw" would make void`) {
		t.Error(err)
	}
	doc = governed(t, PolicySpec{Name: "customers", Refuse: true, When: `"crm.customers" in statement.tables`})
	doc.Roles[0].Permissions = []Permission{permission(t, 10, "allow execute_raw *")}
	for _, want := range []string{`may do on source "shop" whatever the upstream login may`, `policy "customers" (line 30) refuses whatever identity "ana" runs there`} {
		if !slices.ContainsFunc(Review(doc), func(p Problem) bool { return strings.Contains(p.Message, want) }) {
			t.Errorf("no warning %q", want)
		}
	}
}
