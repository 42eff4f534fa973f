package policy

import (
	"slices"

	"interlock/catalog"
	"interlock/sqlgov/analyze"
)

// Footing is what a decision stands on, should the server's catalog become another before the statement runs.
type Footing int

// The footings, the firmest first.
const (
	// OnRoles: whatever the names in the text come to mean, the identity may do it.
	OnRoles Footing = iota
	// OnResult: the identity may read every column of every table in the text, and the server's description of the
	// result tells of each table if it is the one that was judged. No policy asks more of the statement than its kind and
	// the risk of reading these tables.
	OnResult
	// OnCatalog: the decision is right only while the names mean what they meant.
	OnCatalog
)

// Footing returns what an allowing decision on the facts of a text stands on.
func (r *Ruleset) Footing(in Input) Footing {
	j := r.judge(in)
	if j == nil {
		return OnCatalog
	}
	weakest := OnRoles
	for i := range in.Facts.Statements {
		weakest = max(weakest, j.footing(&in.Facts.Statements[i]))
	}
	return weakest
}

func (j *judge) footing(s *analyze.Statement) Footing {
	tables := j.ownTables(s)
	governed := len(j.rules.policies.all) > 0
	switch {
	case s.Kind == analyze.Prepare || len(tables) == 0 && len(s.Loose) == 0:
		return OnRoles
	case j.rules.policies.touching, len(j.set.masks) > 0, len(s.Loose) > 0 && !j.set.everything(FunctionExec), !j.mayChangeAll(s):
		return OnCatalog
	case governed && (len(s.Loose) > 0 || !j.stored(tables)): // functions make the risk, which policies can ask
		return OnCatalog
	case !governed && (len(tables) == 0 || j.set.readsAll):
		return OnRoles
	case s.Kind == analyze.Select && s.ReadOnly() && len(s.RowTypes) == 0 && j.described(s, tables):
		return OnResult
	}
	return OnCatalog
}

// ownTables are the tables that a statement names, but for the system's own, which keep their names and columns.
func (j *judge) ownTables(s *analyze.Statement) []catalog.OID {
	var own []catalog.OID
	for _, oid := range s.Tables {
		if rel := j.in.Catalog.Relation(oid); rel == nil || !catalog.IsSystemSchema(rel.Schema) {
			own = append(own, oid)
		}
	}
	return own
}

// stored reports if tables hold rows: reading them calls nothing that is not in the text.
func (j *judge) stored(tables []catalog.OID) bool {
	for _, oid := range tables {
		rel := j.in.Catalog.Relation(oid)
		if rel == nil || rel.RowSecurity || rel.Kind != catalog.Table && rel.Kind != catalog.PartitionedTable && rel.Kind != catalog.MaterializedView {
			return false
		}
	}
	return true
}

// mayChangeAll reports if what a statement does to one table the identity may do to all.
func (j *judge) mayChangeAll(s *analyze.Statement) bool {
	needed := map[analyze.WriteAction]Action{analyze.Inserting: TableInsert, analyze.Updating: TableUpdate,
		analyze.Deleting: TableDelete, analyze.Truncating: TableTruncate}
	for i := range s.Writes {
		if action, known := needed[s.Writes[i].Action]; !known || !j.set.everything(action) {
			return false
		}
	}
	return true
}

// described reports if each of the tables is named once, may be read as a whole, and shows in the result by a plain
// column of its own.
func (j *judge) described(s *analyze.Statement, tables []catalog.OID) bool {
	for i, oid := range tables {
		rel := j.in.Catalog.Relation(oid)
		shows := slices.ContainsFunc(s.Output, func(o analyze.Output) bool { return o.Origin.Relation == oid })
		if rel == nil || !shows || slices.Contains(tables[:i], oid) || !j.scope(TableSelect, rel).all(rel) {
			return false
		}
	}
	return true
}
