package analyze

import (
	pg "github.com/pganalyze/pg_query_go/v5"
)

// How good a name is: a type's name gives way to a name from inside, and the default to everything.
const (
	noName = iota
	weakName
	goodName
)

// outputName is the column name that the server gives an expression without AS.
func (a *analysis) outputName(n *pg.Node) string {
	if name, strength := a.nameOf(n); strength > noName {
		return name
	}
	return "?column?"
}

func (a *analysis) nameOf(n *pg.Node) (string, int) {
	switch x := n.GetNode().(type) {
	case *pg.Node_ColumnRef:
		return lastWord(x.ColumnRef.Fields)
	case *pg.Node_AIndirection:
		if name, strength := lastWord(x.AIndirection.Indirection); strength > noName {
			return name, strength
		}
		return a.nameOf(x.AIndirection.Arg)
	case *pg.Node_FuncCall:
		return lastWord(x.FuncCall.Funcname)
	case *pg.Node_TypeCast:
		return a.weakly(x.TypeCast.Arg, lastOf(words(x.TypeCast.TypeName.GetNames())))
	case *pg.Node_CaseExpr:
		return a.weakly(x.CaseExpr.Defresult, "case")
	case *pg.Node_CollateClause:
		return a.nameOf(x.CollateClause.Arg)
	case *pg.Node_SubLink:
		return a.sublinkName(x.SubLink)
	case *pg.Node_AExpr:
		if x.AExpr.Kind == pg.A_Expr_Kind_AEXPR_NULLIF {
			return "nullif", goodName
		}
	case *pg.Node_SqlvalueFunction:
		return sessionName(x.SqlvalueFunction.Op), goodName
	case *pg.Node_XmlExpr:
		return xmlName(x.XmlExpr.Op)
	}
	return fixedName(n)
}

// weakly is a name from inside if there is a good one, else a weak one of the node's own.
func (a *analysis) weakly(inside *pg.Node, own string) (string, int) {
	if name, strength := a.nameOf(inside); strength > weakName {
		return name, strength
	}
	return own, weakName
}

func fixedName(n *pg.Node) (string, int) {
	switch x := n.GetNode().(type) {
	case *pg.Node_GroupingFunc:
		return "grouping", goodName
	case *pg.Node_AArrayExpr:
		return "array", goodName
	case *pg.Node_RowExpr:
		return "row", goodName
	case *pg.Node_CoalesceExpr:
		return "coalesce", goodName
	case *pg.Node_XmlSerialize:
		return "xmlserialize", goodName
	case *pg.Node_MinMaxExpr:
		if x.MinMaxExpr.Op == pg.MinMaxOp_IS_LEAST {
			return "least", goodName
		}
		return "greatest", goodName
	}
	return "", noName
}

func (a *analysis) sublinkName(n *pg.SubLink) (string, int) {
	switch n.SubLinkType {
	case pg.SubLinkType_EXISTS_SUBLINK:
		return "exists", goodName
	case pg.SubLinkType_ARRAY_SUBLINK:
		return "array", goodName
	case pg.SubLinkType_EXPR_SUBLINK:
		if name, ok := a.sublinkNames[n]; ok {
			return name, goodName
		}
	}
	return "", noName
}

func xmlName(op pg.XmlExprOp) (string, int) {
	switch op {
	case pg.XmlExprOp_IS_XMLCONCAT:
		return "xmlconcat", goodName
	case pg.XmlExprOp_IS_XMLELEMENT:
		return "xmlelement", goodName
	case pg.XmlExprOp_IS_XMLFOREST:
		return "xmlforest", goodName
	case pg.XmlExprOp_IS_XMLPARSE:
		return "xmlparse", goodName
	case pg.XmlExprOp_IS_XMLPI:
		return "xmlpi", goodName
	case pg.XmlExprOp_IS_XMLROOT:
		return "xmlroot", goodName
	}
	return "", noName
}

// lastWord is the last name of a list; stars and subscripts do not count.
func lastWord(list []*pg.Node) (string, int) {
	if name := lastOf(words(list)); name != "" {
		return name, goodName
	}
	return "", noName
}

func lastOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[len(names)-1]
}
