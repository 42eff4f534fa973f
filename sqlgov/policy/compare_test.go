package policy

import (
	"fmt"
	"slices"
	"testing"
)

func TestCompareAccess(t *testing.T) {
	before := document(t, "allow select crm.customers", "deny select crm.customers.ssn", "allow delete_rows crm.notes", "allow function.execute crm.score")
	after := document(t, "allow select crm.customers.id crm.customers.ssn crm.orders", "allow insert crm.notes.body", "allow truncate crm.notes")
	after.Identities = append(after.Identities, Identity{Name: "new", Kind: "agent", Grants: []Grant{{Source: "shop", Roles: []string{"analyst"}}}})
	a, err := Compile(before)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Compile(after)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range CompareAccess(a, b, "shop", sampleCatalog()) {
		got = append(got, fmt.Sprintf("%s %s %s +%v -%v", c.Identity, c.Action, c.Object, c.Gained, c.Lost))
	}
	want := []string{
		"ana db.table.select crm.customers +[ssn] -[name region email]",
		"ana db.table.select crm.orders +[id customer_id amount order] -[]",
		"ana db.table.insert crm.notes +[body] -[]",
		"ana db.table.delete_rows crm.notes +[] -[crm.notes]",
		"ana db.table.truncate crm.notes +[crm.notes] -[]",
		"ana db.function.execute crm.score() +[] -[crm.score()]",
		"new db.table.select crm.customers +[id ssn] -[]",
		"new db.table.select crm.orders +[id customer_id amount order] -[]",
		"new db.table.insert crm.notes +[body] -[]",
		"new db.table.truncate crm.notes +[crm.notes] -[]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if same := CompareAccess(a, a, "shop", sampleCatalog()); len(same) != 0 {
		t.Errorf("%v", same)
	}
	before.Policies = []PolicySpec{{Name: "a", Refuse: true, Line: 1}, {Name: "b", Refuse: true}, {Name: "c", Refuse: true}}
	after.Policies = []PolicySpec{{Name: "d", Refuse: true}, {Name: "b", Refuse: true, State: DryRun}, {Name: "a", Refuse: true, Line: 9}}
	got = nil
	for _, c := range ComparePolicies(before, after) {
		got = append(got, c.Policy+" "+c.Change)
	}
	if !slices.Equal(got, []string{"b changed", "c removed", "d added"}) {
		t.Errorf("%v", got)
	}
}
