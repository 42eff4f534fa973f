package policy

import (
	"interlock/catalog"
	"interlock/sqlgov/analyze"
)

// planNote is the reason against EXPLAIN of what lies over something that the caller may not see whole.
const planNote = "a plan would show what lies behind it"

// plan judges what EXPLAIN shows beside what the statement reads: names of indexes, partitions and constraints, the
// conditions of views and of row security, estimates from statistics. So everything in the plan must be a table that the
// caller may read whole, with nothing behind it.
func (j *judge) plan(s *analyze.Statement) {
	if j.set.readsAll {
		return
	}
	p := planned{judge: j, seen: map[catalog.OID]bool{}}
	for i := range s.Reads {
		p.table(s.Reads[i].Relation)
	}
	for i := range s.Writes {
		w := &s.Writes[i]
		p.table(w.Column.Relation)
		if s.Name == "analyze" && w.Action != analyze.Inserting { // names the constraints that were checked, on whichever table
			p.referring(w.Column.Relation)
		}
	}
	for _, f := range s.Functions {
		if !catalog.IsSystemSchema(f.Schema) { // its body may be put in the plan in its place
			p.refuse(Need{Action: FunctionExec, Schema: f.Schema, Object: f.Name, Function: f.OID})
		}
	}
}

// planned visits every table of a plan once.
type planned struct {
	*judge
	seen map[catalog.OID]bool
}

func (p *planned) refuse(n Need) {
	p.made.Reasons = append(p.made.Reasons, Reason{Need: n, Note: planNote})
}

// table visits a table and those below it, whose names a plan shows.
func (p *planned) table(oid catalog.OID) {
	rel := p.in.Catalog.Relation(oid)
	if rel == nil || p.seen[oid] { // one that is not in the catalog is refused elsewhere
		return
	}
	p.seen[oid] = true
	if !p.whole(rel) {
		p.refuse(Need{Action: TableSelect, Schema: rel.Schema, Object: rel.Name, Relation: oid})
	}
	for _, child := range p.in.Catalog.Children(oid) {
		p.table(child)
	}
}

// whole reports if there is nothing about a table that the caller may not see.
func (p *planned) whole(rel *catalog.Relation) bool {
	switch rel.Kind {
	case catalog.Table, catalog.PartitionedTable, catalog.MaterializedView:
		return !rel.RowSecurity && !rel.HasRules && p.scope(TableSelect, rel).all(rel)
	}
	return false
}

// referring visits the tables that refer to a table, directly or not.
func (p *planned) referring(oid catalog.OID) {
	relations := p.in.Catalog.Snapshot.Relations
	for i := range relations {
		other := &relations[i]
		for _, c := range other.Constraints {
			if c.RefTable == oid && !p.seen[other.OID] {
				p.table(other.OID)
				p.referring(other.OID)
			}
		}
	}
}
