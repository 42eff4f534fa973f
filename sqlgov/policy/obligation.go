package policy

import (
	"interlock/catalog"
	"interlock/sqlgov/analyze"
)

// obligations finds what the core must do to a statement that runs. An error of the server can print values and
// names that the statement did not ask for: other columns of the failing row, the value that a view or a function
// stumbled on, the table at the other end of a foreign key. Unless the caller may read everything, the detail of
// errors is withheld wherever one of these could be something that the caller may not read.
func (j *judge) obligations(s *analyze.Statement) {
	if j.made.WithholdDetail || j.set.readsAll {
		return
	}
	j.made.WithholdDetail = j.mayTellMore(s)
}

func (j *judge) mayTellMore(s *analyze.Statement) bool {
	for _, f := range s.Functions {
		if !catalog.IsSystemSchema(f.Schema) {
			return true
		}
	}
	for i := range s.Reads {
		if j.hides(j.in.Catalog.Relation(s.Reads[i].Relation)) {
			return true
		}
	}
	for i := range s.Writes {
		rel := j.in.Catalog.Relation(s.Writes[i].Column.Relation)
		if j.hides(rel) || j.writeTellsMore(rel, &s.Writes[i]) {
			return true
		}
	}
	return false
}

// hides reports if a relation, or what is read with it, has a column that the caller may not read.
func (j *judge) hides(rel *catalog.Relation) bool {
	if rel == nil || rel.Kind == catalog.View || rel.Kind == catalog.ForeignTable {
		return true
	}
	return !j.scope(TableSelect, rel).all(rel) || j.childrenHide(rel)
}

// childrenHide reports if a partition or an inheriting table has a column that its parent does not have and that the
// caller may not read: reading the parent reads the child's rows, and only the parent's columns have been judged.
func (j *judge) childrenHide(rel *catalog.Relation) bool {
	for _, oid := range j.in.Catalog.Children(rel.OID) {
		child := j.in.Catalog.Relation(oid)
		if child == nil || child.Kind == catalog.ForeignTable {
			return true
		}
		read := j.scope(TableSelect, child)
		for i := range child.Columns {
			if name := child.Columns[i].Name; !hasColumn(rel, name) && !read.allows(name) {
				return true
			}
		}
		if j.childrenHide(child) {
			return true
		}
	}
	return false
}

func hasColumn(rel *catalog.Relation, name string) bool {
	for i := range rel.Columns {
		if rel.Columns[i].Name == name {
			return true
		}
	}
	return false
}

// writeTellsMore reports if a write can fail on something outside the table: code that it triggers, or another table
// that refers to the rows (which tables do is not looked up, so a change of existing rows always may).
func (j *judge) writeTellsMore(rel *catalog.Relation, w *analyze.Write) bool {
	if w.Action != analyze.Inserting && (w.Action != analyze.Updating || w.Column.Num != 0) {
		return true
	}
	if rel.HasTriggers || rel.HasRules {
		return true
	}
	for i := range rel.Constraints {
		ref := rel.Constraints[i].RefTable
		if ref != 0 && (j.in.Catalog.Relation(ref) == nil || j.hides(j.in.Catalog.Relation(ref))) {
			return true
		}
	}
	return false
}
