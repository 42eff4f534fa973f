package analyze

import pg "github.com/pganalyze/pg_query_go/v5"

// oneRow reports if a subquery is known to have at most one row, so that it cannot fail for having more: it reads one relation
// of pg_catalog, of whose rows no two have the same OID, and takes the row whose OID something outside is equal to.
func oneRow(subquery *pg.Node) bool {
	n := subquery.GetSelectStmt()
	if n == nil || n.Op != pg.SetOperation_SETOP_NONE || len(n.FromClause) != 1 || len(n.TargetList) != 1 || len(n.GroupClause) > 0 || n.WithClause != nil {
		return false
	}
	from := n.FromClause[0].GetRangeVar()
	if from == nil || from.Schemaname != "pg_catalog" || !plainTarget(n.TargetList[0].GetResTarget().GetVal()) {
		return false
	}
	called := from.Relname
	if from.Alias != nil {
		called = from.Alias.Aliasname
		if len(from.Alias.Colnames) > 0 { // another column could be called so
			return false
		}
	}
	conditions := []*pg.Node{n.WhereClause}
	if b := n.WhereClause.GetBoolExpr(); b != nil && b.Boolop == pg.BoolExprType_AND_EXPR {
		conditions = b.Args
	}
	for _, c := range conditions {
		e := c.GetAExpr()
		if e == nil || e.Kind != pg.A_Expr_Kind_AEXPR_OP || len(e.Name) == 0 || e.Name[len(e.Name)-1].GetString_().GetSval() != "=" {
			continue
		}
		if isOIDOf(e.Lexpr, called) && isOutside(e.Rexpr, called) || isOIDOf(e.Rexpr, called) && isOutside(e.Lexpr, called) {
			return true
		}
	}
	return false
}

// plainTarget reports if an expression makes one row of one: it is a column, or compares two.
func plainTarget(n *pg.Node) bool {
	if e := n.GetAExpr(); e != nil && e.Kind == pg.A_Expr_Kind_AEXPR_OP && e.Lexpr != nil {
		return plainTarget(e.Lexpr) && plainTarget(e.Rexpr)
	}
	return n.GetColumnRef() != nil || n.GetAConst() != nil
}

func isOIDOf(n *pg.Node, called string) bool {
	f := n.GetColumnRef().GetFields()
	return len(f) == 2 && f[0].GetString_().GetSval() == called && f[1].GetString_().GetSval() == "oid"
}

// isOutside reports if an expression is a column of something else, or a constant.
func isOutside(n *pg.Node, called string) bool {
	f := n.GetColumnRef().GetFields()
	return n.GetAConst() != nil || len(f) == 2 && f[0].GetString_().GetSval() != called && f[1].GetString_() != nil
}
