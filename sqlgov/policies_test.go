package sqlgov

import (
	"fmt"
	"testing"

	"interlock/catalog"
	"interlock/sqlgov/policy"
)

// organised is a ruleset with n policies, none of which depends on time or client, and a source with one table.
func organised(tb testing.TB, n int) (*policy.Ruleset, *catalog.Index) {
	tb.Helper()
	everything, err := policy.ParseResource("*")
	if err != nil {
		tb.Fatal(err)
	}
	doc := &policy.Document{
		Sources: []policy.SourceSpec{{ID: "shop", Kind: "postgres"}},
		Roles: []policy.RoleSpec{{Name: "all", Source: "shop", Permissions: []policy.Permission{
			{Effect: policy.Allow, Actions: []policy.Action{policy.TableSelect}, Resources: []policy.Resource{everything}}}}},
		Identities: []policy.Identity{{Name: "ana", Kind: "human", Grants: []policy.Grant{{Source: "shop", Roles: []string{"all"}}}}},
	}
	for i := range n {
		when := fmt.Sprintf(`"crm.table%d" in statement.tables || statement.tables.size() == 1 && source == "shop"`, i)
		doc.Policies = append(doc.Policies, policy.PolicySpec{Name: fmt.Sprintf("p%d", i), When: when, Cap: &policy.CapSpec{Rows: 1000 + i}})
	}
	rules, err := policy.Compile(doc)
	if err != nil {
		tb.Fatal(err)
	}
	return rules, catalog.NewIndex(&catalog.Snapshot{Schemas: []catalog.Schema{{Name: "crm"}}, Relations: []catalog.Relation{
		{OID: 20000, Schema: "crm", Name: "c", Kind: catalog.Table, Columns: []catalog.Column{{Num: 1, Name: "id", Type: 23}}}}})
}

// A decision that does not depend on circumstances is found again as it is, with all policies that were met.
func TestPoliciesAreCachedWithTheDecision(t *testing.T) {
	rules, index := organised(t, 3)
	a, e := suppose(rules, index, Hypothesis{Caller: Caller{Identity: "ana", Door: PGWire}, Source: "shop", SQL: "select id from crm.c"})
	if e.Refusal != nil {
		t.Fatal(e.Refusal)
	}
	if again := a.judged.decide(a); again != a.decision || again.settle(a) != again || len(again.Reasons) != 4 {
		t.Errorf("%+v", again)
	}
	a.caller.Door = MCP
	if other := a.judged.decide(a); other == a.decision {
		t.Error("a decision of one door is taken for the other's")
	}
}

// The difference between these is what 500 policies, every one of them met, add to a decision that is cached.
func BenchmarkCachedDecision(b *testing.B) {
	for _, n := range []int{0, 500} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rules, index := organised(b, n)
			a, e := suppose(rules, index, Hypothesis{Caller: Caller{Identity: "ana", Door: PGWire}, Source: "shop", SQL: "select id from crm.c"})
			if e.Refusal != nil {
				b.Fatal(e.Refusal)
			}
			b.ReportAllocs()
			for b.Loop() {
				if r := a.core.authorise(b.Context(), a); r != nil {
					b.Fatal(r)
				}
				if r := a.core.applyPolicies(b.Context(), a); r != nil {
					b.Fatal(r)
				}
			}
		})
	}
}
