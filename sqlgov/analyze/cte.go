package analyze

import (
	"slices"

	"interlock/sqlgov/typing"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// cte is a WITH query. Its columns are known once it is analysed; a recursive one's when its first branch is.
type cte struct {
	node    *pg.CommonTableExpr
	scope   *scope // the scope that holds the WITH clause
	columns []column
	state   cteState
	self    bool // it refers to itself
}

type cteState uint8

const (
	cteWaiting cteState = iota
	cteBusy             // being analysed, columns not known
	cteBegun            // being analysed, columns known from the first branch
	cteDone
)

// with analyses the WITH queries of a statement. Without RECURSIVE each sees those before it; with it all see all.
func (a *analysis) with(s *scope, n *pg.WithClause) {
	if n == nil {
		return
	}
	list := make([]*cte, len(n.Ctes))
	for i, c := range n.Ctes {
		list[i] = &cte{node: c.GetCommonTableExpr(), scope: s}
		a.spend(i)
		if slices.ContainsFunc(list[:i], func(o *cte) bool { return o.node.Ctename == list[i].node.Ctename }) {
			failAt(list[i].node.Location, "42712", "WITH query name %q specified more than once", list[i].node.Ctename)
		}
	}
	if n.Recursive {
		s.ctes = append(s.ctes, list...)
	}
	for _, c := range list {
		a.analyseCTE(c, n.Recursive)
		if !n.Recursive {
			s.ctes = append(s.ctes, c)
		}
	}
}

// cteInScope finds the WITH query that a name in FROM means, if any.
func (a *analysis) cteInScope(s *scope, n *pg.RangeVar) *cte {
	if n.Schemaname != "" || n.Catalogname != "" {
		return nil
	}
	for ; s != nil; s = s.parent {
		a.spend(len(s.ctes))
		for _, c := range s.ctes {
			if c.node.Ctename != n.Relname {
				continue
			}
			a.readyCTE(c, n)
			return c
		}
	}
	return nil
}

// readyCTE makes sure that the columns of a WITH query are known. In WITH RECURSIVE one may be named before its turn.
func (a *analysis) readyCTE(c *cte, n *pg.RangeVar) {
	switch c.state {
	case cteWaiting:
		a.analyseCTE(c, true)
	case cteBusy:
		failAt(n.Location, "42P19", "recursive reference to query %q must not appear within its non-recursive term", n.Relname)
	case cteBegun:
		c.self = true
	}
}

func (a *analysis) analyseCTE(c *cte, recursive bool) {
	if c.state != cteWaiting {
		return
	}
	c.state = cteBusy
	inner := c.scope.child()
	if recursive {
		inner.recursive = c
	}
	columns := a.cteQuery(inner, c.node)
	if c.state == cteBegun {
		c.end(columns)
	} else {
		c.columns = c.named(columns)
	}
	c.state = cteDone
	c.columns = append(c.plain(), a.madeColumns(c)...)
}

// plain are the columns without those that SEARCH and CYCLE make.
func (c *cte) plain() []column {
	return slices.DeleteFunc(slices.Clone(c.columns), func(col column) bool { return col.hidden })
}

// madeColumns are the columns that SEARCH and CYCLE make.
func (a *analysis) madeColumns(c *cte) []column {
	return append(a.searchColumns(c), a.cycleColumns(c)...)
}

func (a *analysis) cteQuery(s *scope, n *pg.CommonTableExpr) []column {
	switch x := n.Ctequery.GetNode().(type) {
	case *pg.Node_SelectStmt:
		return a.selectStmt(s, x.SelectStmt).columns
	case *pg.Node_InsertStmt:
		return a.insert(s, x.InsertStmt)
	case *pg.Node_UpdateStmt:
		return a.update(s, x.UpdateStmt)
	case *pg.Node_DeleteStmt:
		return a.delete(s, x.DeleteStmt)
	}
	unsupported(n.Location, "this kind of WITH query is")
	return nil
}

// named gives a WITH query's columns the names in its head.
func (c *cte) named(columns []column) []column {
	names := words(c.node.Aliascolnames)
	if len(names) > len(columns) {
		failAt(c.node.Location, "42P10", "WITH query %q has %d columns available but %d columns specified", c.node.Ctename, len(columns), len(names))
	}
	columns = slices.Clone(columns)
	for i, name := range names {
		columns[i].name = name
	}
	return columns
}

// begin makes a recursive query's columns known from its first branch. What they derive from is not complete yet.
func (c *cte) begin(a *analysis, first []column) {
	if c.state != cteBusy {
		return
	}
	c.columns = c.named(first)
	for i := range c.columns {
		col := &c.columns[i]
		if col.typ == typing.Unknown {
			col.typ = a.settled(value{typ: col.typ, param: col.param}).typ
		}
		col.from = &lineage{from: []*lineage{col.from}}
		col.origin, col.charged, col.param = origin{}, false, 0
	}
	// The recursive branch can name the columns that SEARCH and CYCLE make, but "*" leaves them out there.
	for _, made := range a.madeColumns(c) {
		made.hidden = true
		c.columns = append(c.columns, made)
	}
	c.state = cteBegun
}

// end completes what the columns derive from.
func (c *cte) end(columns []column) {
	for i := range c.plain() {
		if i < len(columns) {
			c.columns[i].from.from = append(c.columns[i].from.from, columns[i].from)
		}
	}
}

// searchColumns is the column that SEARCH adds: it holds the values that it searches by.
func (a *analysis) searchColumns(c *cte) []column {
	n := c.node.SearchClause
	if n == nil {
		return nil
	}
	typ := typing.RecordArray
	if n.SearchBreadthFirst {
		typ = typing.Record
	}
	return []column{{name: n.SearchSeqColumn, typ: typ, from: c.keys(n.SearchColList, "search", n.Location)}}
}

// cycleColumns are the columns that CYCLE adds: a mark, and the path, which holds the values.
func (a *analysis) cycleColumns(c *cte) []column {
	n := c.node.CycleClause
	if n == nil {
		return nil
	}
	from := c.keys(n.CycleColList, "cycle", n.Location)
	a.consume(from) // a cycle is found by comparing
	t, _ := a.common("CYCLE", []value{a.expr(c.scope, n.CycleMarkValue), a.expr(c.scope, n.CycleMarkDefault)}, n.Location)
	a.binary("", "<>", value{typ: t}, value{typ: t}, n.Location)
	return []column{
		{name: n.CycleMarkColumn, typ: t, from: from},
		{name: n.CyclePathColumn, typ: typing.RecordArray, from: from},
	}
}

func (c *cte) keys(list []*pg.Node, what string, location int32) *lineage {
	var from []*lineage
	for _, name := range words(list) {
		i := slices.IndexFunc(c.columns, func(col column) bool { return col.name == name })
		if i < 0 {
			failAt(location, "42601", "%s column %q not in WITH query column list", what, name)
		}
		from = append(from, c.columns[i].from)
	}
	return changed(from...)
}
