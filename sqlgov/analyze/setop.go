package analyze

import (
	pg "github.com/pganalyze/pg_query_go/v5"
)

// setOperation is a tree of UNION, INTERSECT and EXCEPT. Its columns have the names of the first branch, and derive
// from all branches.
func (a *analysis) setOperation(s *scope, n *pg.SelectStmt) *query {
	a.with(s, n.WithClause)
	q := &query{columns: a.combine(s, n, true)}
	out := s.child()
	out.parent = s.parent
	out.ctes = s.ctes
	out.items = []*item{{entry: &entry{columns: q.columns}, columns: true}}
	targets := targetsOf(q.columns)
	for _, sort := range n.SortClause {
		a.sortKey(out, sort.GetSortBy(), targets)
	}
	a.limit(s, n)
	if len(n.LockingClause) > 0 {
		failAt(-1, "0A000", "FOR UPDATE is not allowed with UNION/INTERSECT/EXCEPT")
	}
	return q
}

// branch analyses one side: a set operation without clauses of its own is part of the same tree.
func (a *analysis) branch(s *scope, n *pg.SelectStmt) []column {
	if n.Op != pg.SetOperation_SETOP_NONE && !hasClauses(n) {
		return a.combine(s, n, false)
	}
	return a.openSelect(s.child(), n).columns
}

func hasClauses(n *pg.SelectStmt) bool {
	return len(n.SortClause) > 0 || n.LimitCount != nil || n.LimitOffset != nil || len(n.LockingClause) > 0 || n.WithClause != nil
}

// combine merges the columns of two branches. The left side of a recursive query is what the query's own name stands for
// on the right side.
func (a *analysis) combine(s *scope, n *pg.SelectStmt, top bool) []column {
	left := a.branch(s, n.Larg)
	if top && s.recursive != nil {
		s.recursive.begin(a, left)
	}
	right := a.branch(s, n.Rarg)
	name := map[pg.SetOperation]string{
		pg.SetOperation_SETOP_UNION: "UNION", pg.SetOperation_SETOP_INTERSECT: "INTERSECT", pg.SetOperation_SETOP_EXCEPT: "EXCEPT",
	}[n.Op]
	if len(left) != len(right) {
		failAt(-1, "42601", "each %s query must have the same number of columns", name)
	}
	columns := make([]column, len(left))
	for i := range left {
		columns[i] = a.combineColumn(name, &left[i], &right[i])
		if !n.All || n.Op != pg.SetOperation_SETOP_UNION {
			a.consume(columns[i].from)
			a.groups(columns[i].typ)
		}
	}
	return columns
}

func (a *analysis) combineColumn(name string, l, r *column) column {
	t, sides := a.common(name, []value{l.operand(), r.operand()}, -1)
	c := column{name: l.name, typ: t, from: union(sides[0].from, sides[1].from)}
	if len(l.fields) == len(r.fields) && l.typ == t && r.typ == t {
		c.fields = mergeFields(l.fields, r.fields)
	}
	return c
}

// mergeFields keeps the shape of records that two branches agree on.
func mergeFields(l, r []column) []column {
	fields := make([]column, len(l))
	for i := range l {
		fields[i] = column{name: l[i].name, typ: l[i].typ, from: union(l[i].from, r[i].from)}
	}
	return fields
}

func (c *column) operand() value {
	return value{typ: c.typ, from: c.from, param: c.param, fields: c.fields}
}
