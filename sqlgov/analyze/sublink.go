package analyze

import (
	"interlock/sqlgov/typing"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// subquery analyses a query inside an expression. Where its values are not passed on they are used.
func (a *analysis) subquery(s *scope, n *pg.Node) *query {
	q := a.selectStmt(s.child(), n.GetSelectStmt())
	for i := range q.columns {
		if !a.projecting {
			a.consume(q.columns[i].from)
		}
	}
	return q
}

// subLink is a subquery in an expression.
func (a *analysis) subLink(s *scope, n *pg.SubLink) value {
	switch n.SubLinkType {
	case pg.SubLinkType_EXISTS_SUBLINK:
		q := a.selectStmt(s.child(), n.Subselect.GetSelectStmt()) // its values are never looked at
		return derived(typing.Bool, lineages(q.values())...)
	case pg.SubLinkType_EXPR_SUBLINK, pg.SubLinkType_ARRAY_SUBLINK:
		return a.scalarSubquery(s, n)
	case pg.SubLinkType_ANY_SUBLINK, pg.SubLinkType_ALL_SUBLINK:
		return a.quantified(s, n)
	}
	unsupported(n.Location, "this kind of subquery is")
	return value{}
}

func (a *analysis) scalarSubquery(s *scope, n *pg.SubLink) value {
	q := a.subquery(s, n.Subselect)
	if len(q.columns) != 1 {
		failAt(n.Location, "42601", "subquery must return only one column")
	}
	c := &q.columns[0]
	if n.SubLinkType == pg.SubLinkType_EXPR_SUBLINK {
		a.out.System.Raises = a.out.System.Raises || a.conditions > 0 && !oneRow(n.Subselect)
		if a.sublinkNames == nil {
			a.sublinkNames = map[*pg.SubLink]string{}
		}
		a.sublinkNames[n] = c.name
		return c.operand()
	}
	array, _, err := a.types.ArrayConstructor(typesOf(q.values()))
	must(err, n.Location)
	return derived(array, c.from)
}

// quantified is x IN (SELECT ...), x op ANY (SELECT ...), x op ALL (SELECT ...), also for rows.
func (a *analysis) quantified(s *scope, n *pg.SubLink) value {
	var left []value
	if row := n.Testexpr.GetRowExpr(); row != nil {
		left = a.exprList(s, row.Args)
	} else {
		left = []value{a.expr(s, n.Testexpr)}
	}
	q := a.subquery(s, n.Subselect)
	if len(left) < len(q.columns) {
		failAt(n.Location, "42601", "subquery has too many columns")
	}
	if len(left) > len(q.columns) {
		failAt(n.Location, "42601", "subquery has too few columns")
	}
	schema, name := a.operatorName(n.OperName, n.Location)
	if name == "" {
		name = "="
	}
	return a.compareRows(schema, name, left, q.values(), n.Location)
}
