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
