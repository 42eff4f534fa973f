package policy

import (
	"strings"
	"testing"
)

// The requester never counts, nobody counts twice, and each hold has its own groups.
func TestHoldsAreMet(t *testing.T) {
	r := compiled(t, PolicySpec{Hold: &HoldSpec{Groups: []string{"dba"}}})
	for _, tc := range []struct {
		hold      Hold
		requester string
		approvers string
		met       bool
	}{
		{Hold{Groups: []string{"dba"}}, "ana", "", false},
		{Hold{Groups: []string{"dba"}}, "ana", "dora", true},
		{Hold{Groups: []string{"dba"}}, "ana", "lena", false},
		{Hold{Groups: []string{"dba"}}, "ana", "nobody", false},
		{Hold{Groups: []string{"dba"}, Approvers: 2}, "ana", "dora dora", false},
		{Hold{Groups: []string{"dba"}, Approvers: 2}, "ana", "dora dirk", true},
		{Hold{Groups: []string{"dba", "legal"}, Approvers: 2}, "ana", "dora lena", true},
		{Hold{Groups: []string{"dba"}}, "dora", "dora", false},
		{Hold{Groups: []string{"legal"}}, "ana", "ana", false},
		{Hold{Groups: []string{"legal"}}, "ana", "ana lena", true},
	} {
		if got := r.Met(&tc.hold, tc.requester, strings.Fields(tc.approvers)); got != tc.met {
			t.Errorf("%+v of %s, approved by %q: %v", tc.hold, tc.requester, tc.approvers, got)
		}
	}
}

func TestCheckGroups(t *testing.T) {
	for _, tc := range []struct {
		group GroupSpec
		want  string
	}{
		{GroupSpec{Name: "no name", Members: []string{"dora"}}, "groups.no name: group name"},
		{GroupSpec{Name: "dba", Members: []string{"dora"}}, `groups.dba: group "dba" is defined twice`},
		{GroupSpec{Name: "x", Members: []string{"dor"}}, `groups.x.0: unknown identity "dor" (did you mean "dora"?)`},
		{GroupSpec{Name: "x", Members: []string{"dora", "bot"}}, `groups.x.1: "bot" is an agent`},
		{GroupSpec{Name: "x", Members: []string{"dora", "dora"}}, `groups.x.1: "dora" is listed twice`},
	} {
		doc := governed(t)
		doc.Groups = append(doc.Groups, tc.group)
		if _, err := Compile(doc); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want %s", tc.group, err, tc.want)
		}
	}
}

// A policy can ask how large the largest table is that is changed; what is only read does not count.
func TestTableRowsOfAWrite(t *testing.T) {
	r := compiled(t, PolicySpec{When: "statement.table_rows > 1000 || statement.table_rows < 0", Hold: &HoldSpec{Groups: []string{"dba"}}})
	for _, tc := range []struct {
		orders, notes float64
		facts         string
		want          Verdict
	}{
		{5000, 10, "delete crm.orders", Held},
		{5000, 10, "delete crm.notes", Allowed},
		{5000, 10, "insert crm.notes.id;read crm.orders.id", Allowed},
		{10, -1, "delete crm.notes", Held},
		{-1, 10, "read crm.orders.id", Allowed},
	} {
		ix := sampleCatalog()
		ix.RelationNamed("crm", "orders").RowEstimate = tc.orders
		ix.RelationNamed("crm", "notes").RowEstimate = tc.notes
		in := Input{Identity: "ana", Source: "shop", Catalog: ix, Facts: facts(t, ix, strings.Split(tc.facts, ";")...)}
		if got := r.Decide(in); got.Verdict != tc.want {
			t.Errorf("%s with %v and %v rows: %s, want %s", tc.facts, tc.orders, tc.notes, got.Verdict, tc.want)
		}
	}
}
