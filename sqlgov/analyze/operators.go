package analyze

import (
	"interlock/sqlgov/typing"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// operatorExpr is everything that is spelled with an operator, or is one in disguise: LIKE, IN, BETWEEN, NULLIF, IS
// DISTINCT FROM, op ANY.
func (a *analysis) operatorExpr(s *scope, n *pg.A_Expr) value {
	schema, name := a.operatorName(n.Name, n.Location)
	switch n.Kind {
	case pg.A_Expr_Kind_AEXPR_OP:
		return a.plainOperator(s, n, schema, name)
	case pg.A_Expr_Kind_AEXPR_LIKE, pg.A_Expr_Kind_AEXPR_ILIKE, pg.A_Expr_Kind_AEXPR_SIMILAR:
		return a.binary(schema, name, a.expr(s, n.Lexpr), a.expr(s, n.Rexpr), n.Location)
	case pg.A_Expr_Kind_AEXPR_OP_ANY, pg.A_Expr_Kind_AEXPR_OP_ALL:
		return a.scalarArray(schema, name, a.expr(s, n.Lexpr), a.expr(s, n.Rexpr), n.Location)
	case pg.A_Expr_Kind_AEXPR_DISTINCT, pg.A_Expr_Kind_AEXPR_NOT_DISTINCT:
		return a.distinctFrom(s, n)
	case pg.A_Expr_Kind_AEXPR_NULLIF:
		return a.nullIf(s, n)
	case pg.A_Expr_Kind_AEXPR_IN:
		return a.in(s, n, name)
	case pg.A_Expr_Kind_AEXPR_BETWEEN, pg.A_Expr_Kind_AEXPR_NOT_BETWEEN,
		pg.A_Expr_Kind_AEXPR_BETWEEN_SYM, pg.A_Expr_Kind_AEXPR_NOT_BETWEEN_SYM:
		return a.between(s, n)
	}
	unsupported(n.Location, "this kind of operator expression is")
	return value{}
}

func (a *analysis) operatorName(list []*pg.Node, location int32) (schema, name string) {
	names := words(list)
	if len(names) == 0 {
		return "", ""
	}
	return a.qualified(names, location)
}

// plainOperator is "x op y" and "op y". Two rows are compared field by field, a row and a subquery likewise.
func (a *analysis) plainOperator(s *scope, n *pg.A_Expr, schema, name string) value {
	left, right := n.Lexpr.GetRowExpr(), n.Rexpr.GetRowExpr()
	if left != nil && right != nil {
		return a.compareRows(schema, name, a.exprList(s, left.Args), a.exprList(s, right.Args), n.Location)
	}
	if sub := n.Rexpr.GetSubLink(); left != nil && sub != nil && sub.SubLinkType == pg.SubLinkType_EXPR_SUBLINK {
		q := a.subquery(s, sub.Subselect)
		return a.compareRows(schema, name, a.exprList(s, left.Args), q.values(), n.Location)
	}
	if n.Lexpr == nil {
		return a.prefix(schema, name, a.expr(s, n.Rexpr), n.Location)
	}
	l := a.expr(s, n.Lexpr)
	return a.binary(schema, name, l, a.expr(s, n.Rexpr), n.Location)
}

// binary picks an operator for two values and notes its function.
func (a *analysis) binary(schema, name string, l, r value, location int32) value {
	op, err := a.types.Operator(schema, name, l.typ, r.typ)
	must(err, location)
	a.use(op.Function)
	return a.operands(op, l, r, location)
}

// ordered is binary for an operator that stands for an ordering and is not called itself.
func (a *analysis) ordered(schema, name string, l, r value, location int32) value {
	op, err := a.types.Operator(schema, name, l.typ, r.typ)
	must(err, location)
	return a.operands(op, l, r, location)
}

func (a *analysis) operands(op typing.Operator, l, r value, location int32) value {
	a.coerce(l, op.Left, typing.Implicit, location)
	a.coerce(r, op.Right, typing.Implicit, location)
	v := derived(op.Result, l.from, r.from)
	v.weight = a.callUses(op.Function, []value{l, r})
	return v
}

func (a *analysis) prefix(schema, name string, v value, location int32) value {
	op, err := a.types.Operator(schema, name, 0, v.typ)
	must(err, location)
	a.use(op.Function)
	a.coerce(v, op.Right, typing.Implicit, location)
	made := derived(op.Result, v.from)
	made.weight = a.callUses(op.Function, []value{v})
	return made
}

func (a *analysis) scalarArray(schema, name string, l, r value, location int32) value {
	op, err := a.types.ScalarArray(schema, name, l.typ, r.typ)
	must(err, location)
	a.use(op.Function)
	a.coerce(l, op.Left, typing.Implicit, location)
	a.coerce(r, op.Right, typing.Implicit, location)
	return derived(typing.Bool, l.from, r.from)
}

// compareRows resolves the operator for each pair of fields.
func (a *analysis) compareRows(schema, name string, left, right []value, location int32) value {
	if len(left) != len(right) {
		failAt(location, "42601", "unequal number of entries in row expressions")
	}
	if len(left) == 0 {
		failAt(location, "0A000", "cannot compare rows of zero length")
	}
	// Rows are ordered by the comparison behind the operators, which nobody's privileges are checked on.
	compare := a.binary
	if len(left) > 1 && isOrdering(name) {
		compare = a.ordered
	}
	var from []*lineage
	for i := range left {
		v := compare(schema, name, left[i], right[i], location)
		if v.typ != typing.Bool {
			failAt(location, "42804", "row comparison operator must yield type boolean, not type %s", a.typeName(v.typ))
		}
		from = append(from, v.from)
	}
	return derived(typing.Bool, from...)
}

func isOrdering(name string) bool { return name == "<" || name == "<=" || name == ">" || name == ">=" }

// distinctFrom is IS [NOT] DISTINCT FROM: the operator = of each pair. A literal NULL makes it IS NULL, which calls
// nothing.
func (a *analysis) distinctFrom(s *scope, n *pg.A_Expr) value {
	left, right := n.Lexpr.GetRowExpr(), n.Rexpr.GetRowExpr()
	if left != nil && right != nil {
		l, r := a.exprList(s, left.Args), a.exprList(s, right.Args)
		if len(l) == 0 && len(r) == 0 {
			return value{typ: typing.Bool}
		}
		return a.compareRows("", "=", l, r, n.Location)
	}
	l, r := a.expr(s, n.Lexpr), a.expr(s, n.Rexpr)
	if l.null || r.null {
		return a.presence(typing.Bool, union(l.from, r.from))
	}
	return a.binary("", "=", l, r, n.Location)
}

// nullIf has the type to which = coerces its left operand.
func (a *analysis) nullIf(s *scope, n *pg.A_Expr) value {
	l, r := a.expr(s, n.Lexpr), a.expr(s, n.Rexpr)
	op, err := a.types.Operator("", "=", l.typ, r.typ)
	must(err, n.Location)
	a.use(op.Function)
	left := a.coerce(l, op.Left, typing.Implicit, n.Location)
	a.coerce(r, op.Right, typing.Implicit, n.Location)
	return derived(left.typ, l.from, r.from)
}

// between is x >= low AND x <= high, NOT BETWEEN is x < low OR x > high, and SYMMETRIC both ways round.
func (a *analysis) between(s *scope, n *pg.A_Expr) value {
	bounds := n.Rexpr.GetList().GetItems()
	if len(bounds) != 2 {
		unsupported(n.Location, "this form of BETWEEN is")
	}
	operands := []*pg.Node{n.Lexpr, bounds[0], bounds[1]}
	values := make([]value, 3)
	rows := make([][]value, 3)
	for i, o := range operands {
		if row := o.GetRowExpr(); row != nil {
			rows[i] = a.exprList(s, row.Args)
			values[i] = recordOf(rows[i])
		} else {
			values[i] = a.expr(s, o)
		}
	}
	compare := func(op string, bound int) value {
		if rows[0] != nil && rows[bound] != nil {
			return a.compareRows("", op, rows[0], rows[bound], n.Location)
		}
		return a.binary("", op, values[0], values[bound], n.Location)
	}
	low, high := ">=", "<="
	if n.Kind == pg.A_Expr_Kind_AEXPR_NOT_BETWEEN || n.Kind == pg.A_Expr_Kind_AEXPR_NOT_BETWEEN_SYM {
		low, high = "<", ">"
	}
	from := union(compare(low, 1).from, compare(high, 2).from)
	if n.Kind == pg.A_Expr_Kind_AEXPR_BETWEEN_SYM || n.Kind == pg.A_Expr_Kind_AEXPR_NOT_BETWEEN_SYM {
		compare(low, 2)
		compare(high, 1)
	}
	return derived(typing.Bool, from)
}

// in is IN (list). Members without a column are compared as one array if there are several, the others one by one.
func (a *analysis) in(s *scope, n *pg.A_Expr, name string) value {
	list := n.Rexpr.GetList().GetItems()
	if left := n.Lexpr.GetRowExpr(); left != nil {
		return a.rowIn(s, left, list, name, n.Location)
	}
	subject := a.expr(s, n.Lexpr)
	var fixed, varying []value
	for _, m := range list {
		before := a.columnRefs
		if v := a.expr(s, m); a.columnRefs == before && m.GetRowExpr() == nil {
			fixed = append(fixed, v)
		} else {
			varying = append(varying, v)
		}
	}
	types := distinctTypes(fixed)
	if len(fixed) > 1 && len(types) == 1 {
		types = append(types, types[0])
	}
	ops, err := a.types.In(name, subject.typ, types, nil)
	must(err, n.Location)
	for i, op := range ops {
		a.use(op.Function)
		a.coerce(subject, op.Left, typing.Implicit, n.Location)
		for _, v := range fixed {
			if len(types) == 1 || len(ops) > 1 && v.typ == types[i] {
				a.coerce(v, op.Right, typing.Implicit, n.Location)
			} else if len(ops) == 1 {
				a.coerce(v, a.types.Elem(a.types.Base(op.Right)), typing.Implicit, n.Location)
			}
		}
	}
	for _, v := range varying {
		a.binary("", name, subject, v, n.Location)
	}
	return derived(typing.Bool, append(lineages(append(fixed, varying...)), subject.from)...)
}

// rowIn compares a row with each row of a list.
func (a *analysis) rowIn(s *scope, left *pg.RowExpr, list []*pg.Node, name string, location int32) value {
	subject := a.exprList(s, left.Args)
	var from []*lineage
	for _, m := range list {
		var v value
		if row := m.GetRowExpr(); row != nil {
			v = a.compareRows("", name, subject, a.exprList(s, row.Args), location)
		} else {
			v = a.binary("", name, recordOf(subject), a.expr(s, m), location)
		}
		from = append(from, v.from)
	}
	return derived(typing.Bool, from...)
}
