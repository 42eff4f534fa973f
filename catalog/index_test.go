package catalog

import (
	"slices"
	"testing"
)

func TestIndex(t *testing.T) {
	s := &Snapshot{
		Schemas: []Schema{{OID: 1, Name: "crm"}, {OID: 2, Name: "CRM"}},
		Relations: []Relation{
			{OID: 10, Schema: "crm", Name: "events", Kind: PartitionedTable},
			{OID: 11, Schema: "crm", Name: "events_eu", Parents: []OID{10}},
			{OID: 12, Schema: "CRM", Name: "events", Parents: []OID{10, 11}},
		},
		Types:      []Type{{OID: 23, Schema: "pg_catalog", Name: "int4"}},
		Functions:  []Function{{OID: 30, Schema: "crm", Name: "f"}, {OID: 31, Schema: "crm", Name: "f"}, {OID: 32, Schema: "crm", Name: "g"}},
		Operators:  []Operator{{OID: 40, Schema: "pg_catalog", Name: "+"}, {OID: 41, Schema: "pg_catalog", Name: "+"}},
		Casts:      []Cast{{Source: 23, Target: 25, Context: "i"}},
		Collations: []Collation{{OID: 100, Schema: "pg_catalog", Name: "C"}},
	}
	x := NewIndex(s)
	if x.Snapshot != s {
		t.Error("Snapshot is another")
	}
	if !x.HasSchema("crm") || x.HasSchema("Crm") {
		t.Error("HasSchema folds case, or misses a schema")
	}
	if r := x.RelationNamed("CRM", "events"); r != &s.Relations[2] || x.Relation(12) != r {
		t.Errorf("relation CRM.events = %v", r)
	}
	if x.RelationNamed("crm", "Events") != nil || x.Relation(99) != nil {
		t.Error("a relation that does not exist")
	}
	if got := x.Children(10); !slices.Equal(got, []OID{11, 12}) {
		t.Errorf("children of 10 = %v", got)
	}
	if got := x.Children(12); len(got) != 0 {
		t.Errorf("children of 12 = %v", got)
	}
	if x.Type(23) != &s.Types[0] || x.TypeNamed("pg_catalog", "int4") != &s.Types[0] || x.TypeNamed("crm", "int4") != nil {
		t.Error("types")
	}
	if got := x.FunctionsNamed("crm", "f"); len(got) != 2 || got[0].OID != 30 || got[1].OID != 31 || x.Function(32) != &s.Functions[2] {
		t.Errorf("functions crm.f = %v", got)
	}
	if got := x.OperatorsNamed("pg_catalog", "+"); len(got) != 2 || x.Operator(41) != &s.Operators[1] {
		t.Errorf("operators + = %v", got)
	}
	if x.Cast(23, 25) != &s.Casts[0] || x.Cast(25, 23) != nil {
		t.Error("casts")
	}
	if !x.HasCollation("pg_catalog", "C") || x.HasCollation("pg_catalog", "c") {
		t.Error("collations")
	}
}

func TestIsSystemSchema(t *testing.T) {
	for name, want := range map[string]bool{"pg_catalog": true, "information_schema": true, "pg_toast": true, "public": false, "PG_CATALOG": false, "": false} {
		if IsSystemSchema(name) != want {
			t.Errorf("IsSystemSchema(%q) = %v", name, !want)
		}
	}
}
