package analyze

import (
	"slices"

	"interlock/catalog"
	"interlock/sqlgov/typing"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// join analyses a join. Its right side sees the left as LATERAL, its ON clause sees both sides and nothing else of this
// level, and an alias hides what it joins.
func (a *analysis) join(s *scope, n *pg.JoinExpr) (*entry, []*item) {
	left, items := a.fromItem(s, n.Larg)
	sees := n.Jointype == pg.JoinType_JOIN_INNER || n.Jointype == pg.JoinType_JOIN_LEFT
	setSideways(items, true, !sees)
	outside := s.items
	s.items = append(slices.Clip(outside), items...)
	right, more := a.fromItem(s, n.Rarg)
	s.items = outside
	a.checkNames(items, more)
	items = append(items, more...)

	e := &entry{inputs: []*entry{left, right}}
	names := a.using(n, left, right)
	merged := a.mergeColumns(n, e, left, right, names)
	if n.Quals != nil {
		a.joinCondition(s, n.Quals, items)
	}
	a.alias(e, n.Alias, -1)
	return e, a.joinItems(n, e, items, merged)
}

// joinItems says how a join is visible: its columns unqualified, its inputs by name only, or all by its alias.
func (a *analysis) joinItems(n *pg.JoinExpr, e *entry, items []*item, merged []column) []*item {
	if n.Alias != nil {
		items = nil
	}
	for _, it := range items {
		it.columns = false
	}
	if u := n.JoinUsingAlias; u != nil {
		by := &item{entry: &entry{name: u.Aliasname, aliased: true, columns: merged, built: true}, named: true}
		a.checkNames(items, []*item{by})
		items = append(items, by)
	}
	own := &item{entry: e, named: n.Alias != nil, columns: true}
	a.checkNames(items, []*item{own})
	return append(items, own)
}

func (a *analysis) joinCondition(s *scope, quals *pg.Node, items []*item) {
	setSideways(items, false, false)
	outside := s.items
	s.items = items
	a.condition(s, quals, "JOIN/ON")
	s.items = outside
}

// using lists the columns that USING or NATURAL merges.
func (a *analysis) using(n *pg.JoinExpr, left, right *entry) []string {
	if !n.IsNatural {
		return words(n.UsingClause)
	}
	a.spend(len(left.columns) * len(right.columns))
	var names []string
	for i := range left.columns {
		name := left.columns[i].name
		if slices.ContainsFunc(right.columns, func(c column) bool { return c.name == name }) {
			names = append(names, name)
		}
	}
	return names
}

// mergeColumns fills a join's columns: first the merged ones, then what is left of both sides. Comparing the merged
// columns reads both.
func (a *analysis) mergeColumns(n *pg.JoinExpr, e, left, right *entry, names []string) []column {
	a.spend(len(names) * (len(names) + len(left.columns) + len(right.columns)))
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			failAt(-1, "42701", "column name %q appears more than once in USING clause", name)
		}
		l := a.mergeSide(left, name, "left")
		r := a.mergeSide(right, name, "right")
		a.joinEqual(l, r)
		e.columns = append(e.columns, a.mergedColumn(n.Jointype, name, l, r))
	}
	a.spend(16 * (len(left.columns) + len(right.columns)) * (1 + len(names)))
	merged := slices.Clone(e.columns)
	for _, side := range []*entry{left, right} {
		for i := range side.columns {
			if !slices.Contains(names, side.columns[i].name) {
				e.columns = append(e.columns, side.columns[i])
			}
		}
	}
	return merged
}

func (a *analysis) mergeSide(side *entry, name, which string) *column {
	var found *column
	for i := range side.columns {
		if side.columns[i].name != name {
			continue
		}
		if found != nil {
			failAt(-1, "42702", "common column name %q appears more than once in %s table", name, which)
		}
		found = &side.columns[i]
	}
	if found == nil {
		fail(unknown(-1, "42703", "column %q specified in USING clause does not exist in %s table", name, which).named(side.rel, name))
	}
	return found
}

func (a *analysis) joinEqual(l, r *column) {
	v := a.binary("", "=", a.columnValue(l), a.columnValue(r), -1)
	a.boolean(v, "JOIN/USING", -1)
}

// mergedColumn is one column for two. It names the side that an outer join keeps, or the one that needs no cast;
// FULL JOIN makes an expression of both.
func (a *analysis) mergedColumn(kind pg.JoinType, name string, l, r *column) column {
	t, err := a.types.CommonType("JOIN/USING", []catalog.OID{l.typ, r.typ})
	must(err, -1)
	c := column{name: name, typ: t, from: union(a.lineageOf(l), a.lineageOf(r))}
	for _, side := range []*column{l, r} {
		coercion, err := a.types.Coerce(side.typ, t, typing.Implicit)
		must(err, -1)
		a.converts(coercion)
	}
	keep := l
	switch {
	case kind == pg.JoinType_JOIN_FULL:
		return c
	case kind == pg.JoinType_JOIN_RIGHT, kind == pg.JoinType_JOIN_INNER && l.typ != t && r.typ == t:
		keep = r
	}
	if keep.typ == t {
		c.origin, c.fields = keep.origin, keep.fields
	}
	return c
}
