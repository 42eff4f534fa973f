package analyze

import (
	"interlock/catalog"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// locking is FOR UPDATE, FOR SHARE and kin: the server wants the right to update what they lock.
func (a *analysis) locking(s *scope, clauses []*pg.Node) {
	for _, n := range clauses {
		clause := n.GetLockingClause()
		if len(clause.LockedRels) == 0 {
			for _, e := range s.sources {
				a.lock(e)
			}
		}
		for _, r := range clause.LockedRels {
			a.lockNamed(s, r.GetRangeVar())
		}
	}
}

func (a *analysis) lockNamed(s *scope, n *pg.RangeVar) {
	if n.GetSchemaname() != "" {
		failAt(n.Location, "42601", "FOR UPDATE must specify unqualified relation names")
	}
	found := false
	for _, e := range s.sources {
		if e.name == n.GetRelname() {
			found = true
			a.lock(e)
		}
	}
	if !found {
		failAt(n.Location, "42P01", "relation %q in FOR UPDATE clause not found in FROM clause", n.GetRelname())
	}
}

// lock reaches tables, and through subqueries the tables in them, but no WITH queries.
func (a *analysis) lock(e *entry) {
	a.out.Locks = true
	if e.rel != nil {
		a.write(e.rel, 0, Updating)
		if e.rel.Kind == catalog.View {
			for _, t := range a.viewOf(e.rel).tables {
				a.write(t, 0, Updating)
			}
		}
	}
	if e.query != nil && e.query.scope != nil {
		for _, inner := range e.query.scope.sources {
			a.lock(inner)
		}
	}
}

// Lock modes of PostgreSQL (lockdefs.h): what every SELECT takes, and what every UPDATE takes.
const (
	accessShare  = 1
	rowExclusive = 3
)

// lockTables is LOCK TABLE. Who may read a table may take the lock that reading takes, and who may update it those that go
// with updating. The other modes lock out everybody else.
func (a *analysis) lockTables(n *pg.LockStmt) {
	a.out.Kind = Lock
	if n.Mode > rowExclusive {
		unsupported(-1, "LOCK in a mode that keeps others from writing is")
	}
	for _, r := range n.Relations {
		rel := a.relation(r.GetRangeVar())
		switch rel.Kind {
		case catalog.Table, catalog.PartitionedTable:
		case catalog.View:
			unsupported(r.GetRangeVar().Location, "LOCK of a view, which locks the tables behind it, is")
		default:
			failAt(-1, "42809", "\"%s\" is not a table or view", rel.Name)
		}
		if n.Mode == accessShare {
			a.touch(rel)
		} else {
			a.write(rel, 0, Updating)
		}
	}
}
