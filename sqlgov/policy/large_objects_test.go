package policy_test

import (
	"strings"
	"testing"

	"interlock/catalog"
	"interlock/sqlgov/analyze"
	"interlock/sqlgov/policy"
)

// largeRules compiles one role with permissions of one action on one pattern each: "allow db.large_object.read *".
func largeRules(t *testing.T, permissions ...string) (*policy.Ruleset, error) {
	t.Helper()
	role := policy.RoleSpec{Name: "r", Source: "s"}
	for i, text := range permissions {
		words := strings.Fields(text)
		r, err := policy.ParseResource(words[2])
		if err != nil {
			t.Fatal(err)
		}
		role.Permissions = append(role.Permissions, policy.Permission{Effect: policy.Effect(words[0]), Actions: []policy.Action{policy.Action(words[1])},
			Resources: []policy.Resource{r}, Line: i + 1})
	}
	return policy.Compile(&policy.Document{Sources: []policy.SourceSpec{{ID: "s", Kind: "postgres"}}, Roles: []policy.RoleSpec{role},
		Identities: []policy.Identity{{Name: "ana", Kind: "human", Grants: []policy.Grant{{Source: "s", Roles: []string{"r"}}}}}})
}

// The functions are those of PostgreSQL, by OID. What opens needs one of the two permissions, and nothing else gives any.
func TestLargeObjectRules(t *testing.T) {
	index := catalog.NewIndex(&catalog.Snapshot{})
	function := func(oid catalog.OID, name, signature string) *catalog.Function {
		return &catalog.Function{OID: oid, Schema: "pg_catalog", Name: name, Signature: signature, Volatility: "v"}
	}
	get, put := function(3458, "lo_get", "oid"), function(3460, "lo_put", "oid, bigint, bytea")
	open, imports := function(952, "lo_open", "oid, integer"), function(764, "lo_import", "text")
	const read, write, exec = "allow db.large_object.read *", "allow db.large_object.write *", "allow db.function.execute pg_catalog.*"
	for _, tc := range []struct {
		permissions []string
		function    *catalog.Function
		allowed     bool
		remedy      policy.Remedy
	}{
		{nil, get, false, policy.Remedy{Change: "allow", Role: "r", Action: policy.LargeRead, Resource: "*"}},
		{nil, put, false, policy.Remedy{Change: "allow", Role: "r", Action: policy.LargeWrite, Resource: "*"}},
		{nil, open, false, policy.Remedy{Change: "allow", Role: "r", Action: policy.LargeRead, Resource: "*"}},
		{[]string{exec}, get, false, policy.Remedy{Change: "allow", Role: "r", Action: policy.LargeRead, Resource: "*"}},
		{[]string{read}, get, true, policy.Remedy{}},
		{[]string{read}, open, true, policy.Remedy{}},
		{[]string{read}, put, false, policy.Remedy{Change: "allow", Role: "r", Action: policy.LargeWrite, Resource: "*"}},
		{[]string{write}, put, true, policy.Remedy{}},
		{[]string{write}, open, true, policy.Remedy{}},
		{[]string{write}, get, false, policy.Remedy{Change: "allow", Role: "r", Action: policy.LargeRead, Resource: "*"}},
		{[]string{read, "deny db.large_object.read *"}, get, false, policy.Remedy{Change: "remove", Role: "r", Action: policy.LargeRead, Resource: "*", Line: 2}},
		{[]string{write, exec, "deny db.function.execute pg_catalog.lo_put"}, put, false,
			policy.Remedy{Change: "remove", Role: "r", Action: policy.FunctionExec, Resource: "pg_catalog.lo_put", Line: 3}},
		{[]string{read, write, exec}, imports, false, policy.Remedy{}},
	} {
		rules, err := largeRules(t, tc.permissions...)
		if err != nil {
			t.Fatal(err)
		}
		d := rules.Decide(policy.Input{Identity: "ana", Source: "s", Catalog: index,
			Facts: &analyze.Facts{Statements: []analyze.Statement{{Kind: analyze.Select, Functions: []*catalog.Function{tc.function}}}}})
		remedy := policy.Remedy{}
		if len(d.Remedies) == 1 {
			remedy = d.Remedies[0]
		}
		if (d.Verdict == policy.Allowed) != tc.allowed || remedy != tc.remedy || len(d.Remedies) > 1 {
			t.Errorf("%q: %s: %s, %+v", tc.permissions, tc.function.Name, d.Verdict, d.Remedies)
		}
	}
	if _, err := largeRules(t, "allow db.large_object.read public.t"); err == nil || !strings.Contains(err.Error(), "acts on the whole source") {
		t.Errorf("on a table: %v", err)
	}
	none, _ := largeRules(t)
	some, _ := largeRules(t, read)
	if changes := policy.CompareAccess(none, some, "s", index); len(changes) != 1 || changes[0].Action != policy.LargeRead || len(changes[0].Gained) != 1 {
		t.Errorf("what is gained: %+v", changes)
	}
}
