package analyze

import (
	"strconv"
	"strings"

	"interlock/catalog"
	"interlock/sqlgov/typing"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// expr analyses an expression: it notes what the expression reads and calls, and says what is known of its value.
func (a *analysis) expr(s *scope, n *pg.Node) value {
	if !a.projecting || projects(n) {
		return a.plainExpr(s, n)
	}
	a.projecting = false
	v := a.plainExpr(s, n)
	a.projecting = true
	return v
}

func (a *analysis) plainExpr(s *scope, n *pg.Node) value {
	switch x := n.GetNode().(type) {
	case *pg.Node_AConst:
		return a.constant(x.AConst)
	case *pg.Node_ColumnRef:
		return a.columnRef(s, x.ColumnRef)
	case *pg.Node_ParamRef:
		return a.paramRef(x.ParamRef)
	case *pg.Node_AExpr:
		return a.operatorExpr(s, x.AExpr)
	case *pg.Node_BoolExpr:
		return a.boolExpr(s, x.BoolExpr)
	case *pg.Node_FuncCall:
		return a.funcCall(s, x.FuncCall)
	case *pg.Node_TypeCast:
		return a.typeCast(s, x.TypeCast)
	case *pg.Node_CaseExpr:
		return a.caseExpr(s, x.CaseExpr)
	case *pg.Node_SubLink:
		return a.subLink(s, x.SubLink)
	case *pg.Node_AIndirection:
		return a.indirection(s, x.AIndirection)
	case *pg.Node_RowExpr:
		return a.rowExpr(s, x.RowExpr)
	case *pg.Node_AArrayExpr:
		return a.arrayExpr(s, x.AArrayExpr, 0)
	}
	return a.rareExpr(s, n)
}

// rareExpr goes on where plainExpr left off.
func (a *analysis) rareExpr(s *scope, n *pg.Node) value {
	switch x := n.GetNode().(type) {
	case *pg.Node_CoalesceExpr:
		return a.coalesce(s, x.CoalesceExpr.Args)
	case *pg.Node_MinMaxExpr:
		context := "GREATEST"
		if x.MinMaxExpr.Op == pg.MinMaxOp_IS_LEAST {
			context = "LEAST"
		}
		return a.commonExpr(s, context, x.MinMaxExpr.Args)
	case *pg.Node_NullTest:
		return a.isNull(s, x.NullTest)
	case *pg.Node_BooleanTest:
		return derived(typing.Bool, a.boolean(a.expr(s, x.BooleanTest.Arg), "IS TRUE", x.BooleanTest.Location).from)
	case *pg.Node_CollateClause:
		return a.collate(s, x.CollateClause)
	case *pg.Node_CurrentOfExpr: // the row that FETCH has shown; the server knows the cursor
		return value{typ: typing.Bool}
	case *pg.Node_SqlvalueFunction:
		return a.sessionValue(x.SqlvalueFunction)
	case *pg.Node_GroupingFunc:
		return derived(typing.Int4, lineages(a.exprs(s, x.GroupingFunc.Args))...)
	case *pg.Node_XmlExpr:
		return a.xmlExpr(s, x.XmlExpr)
	case *pg.Node_XmlSerialize:
		return a.xmlSerialize(s, x.XmlSerialize)
	case *pg.Node_NamedArgExpr:
		return a.expr(s, x.NamedArgExpr.Arg)
	case *pg.Node_SetToDefault:
		failAt(x.SetToDefault.Location, "42601", "DEFAULT is not allowed in this context")
	case nil:
		unsupported(-1, "this expression is")
	}
	unsupported(location(n), "this kind of expression ("+nodeName(n)+") is")
	return value{}
}

func (a *analysis) exprs(s *scope, list []*pg.Node) []value {
	values := make([]value, len(list))
	for i, n := range list {
		values[i] = a.expr(s, n)
	}
	return values
}

func constantValue(c *pg.A_Const) value {
	switch x := c.Val.(type) {
	case *pg.A_Const_Ival:
		return value{typ: typing.Int4}
	case *pg.A_Const_Fval:
		return value{typ: numberType(x.Fval.Fval)}
	case *pg.A_Const_Boolval:
		return value{typ: typing.Bool}
	case *pg.A_Const_Bsval:
		return value{typ: typing.Bit}
	}
	return value{typ: typing.Unknown, null: c.Isnull}
}

// numberType is the type of a number that is no small integer.
func numberType(text string) catalog.OID {
	n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 0, 64)
	switch {
	case err != nil:
		return typing.Numeric
	case n == int64(int32(n)):
		return typing.Int4
	}
	return typing.Int8
}

// paramRef is $n. Its type is what the client declared, or what the first use makes of it.
func (a *analysis) paramRef(n *pg.ParamRef) value {
	const most = 65535
	if n.Number < 1 || n.Number > most {
		failAt(n.Location, "42P02", "there is no parameter $%d", n.Number)
	}
	for len(a.params) < int(n.Number) {
		a.params = append(a.params, typing.Unknown)
	}
	v := value{typ: a.params[n.Number-1]}
	if v.typ == typing.Unknown {
		v.param = n.Number
	}
	return v
}

func (a *analysis) boolExpr(s *scope, n *pg.BoolExpr) value {
	context := map[pg.BoolExprType]string{pg.BoolExprType_AND_EXPR: "AND", pg.BoolExprType_OR_EXPR: "OR"}[n.Boolop]
	if context == "" {
		context = "NOT"
	}
	values := a.exprs(s, n.Args)
	for i := range values {
		a.boolean(values[i], context, location(n.Args[i]))
	}
	return derived(typing.Bool, lineages(values)...)
}

// typeCast is a cast as written. ARRAY[...] is coerced an element at a time.
func (a *analysis) typeCast(s *scope, n *pg.TypeCast) value {
	var v value
	if array := n.Arg.GetAArrayExpr(); array != nil {
		if target := a.types.Base(a.typeOf(n.TypeName)); a.types.Elem(target) != 0 {
			v = a.arrayExpr(s, array, target)
			return a.cast(v, n.TypeName, n.Location)
		}
	}
	v = a.expr(s, n.Arg)
	return a.cast(v, n.TypeName, n.Location)
}

// arrayExpr is ARRAY[...]. Under a cast to an array type the elements are coerced to its element type.
func (a *analysis) arrayExpr(s *scope, n *pg.A_ArrayExpr, target catalog.OID) value {
	values := make([]value, len(n.Elements))
	for i, e := range n.Elements {
		if inner := e.GetAArrayExpr(); inner != nil {
			values[i] = a.arrayExpr(s, inner, target)
		} else {
			values[i] = a.expr(s, e)
		}
	}
	if a.together(values) > maxWeight {
		a.consume(union(lineages(values)...))
	}
	if target == 0 {
		array, element, err := a.types.ArrayConstructor(distinctTypes(values))
		if len(values) > 0 {
			must(err, -1)
		}
		must(err, n.Location)
		for i := range values {
			a.coerce(values[i], element, typing.Implicit, n.Location)
		}
		return derived(array, lineages(values)...)
	}
	element := a.types.Elem(target)
	for i := range values {
		if values[i].typ == target {
			continue
		}
		a.coerce(values[i], element, typing.Explicit, n.Location)
	}
	return derived(target, lineages(values)...)
}

// coalesce is one of its arguments.
func (a *analysis) coalesce(s *scope, args []*pg.Node) value {
	t, values := a.common("COALESCE", a.exprs(s, args), -1)
	for i := range values {
		a.presumed(values[i], args[i+1:])
	}
	return value{typ: t, from: union(lineages(values)...)}
}

// commonExpr is GREATEST and LEAST.
func (a *analysis) commonExpr(s *scope, context string, args []*pg.Node) value {
	values := a.exprs(s, args)
	t, _ := a.common(context, values, -1)
	return derived(t, lineages(values)...)
}

// caseExpr is CASE. Its type is picked from ELSE first; its conditions are part of what it derives from.
func (a *analysis) caseExpr(s *scope, n *pg.CaseExpr) value {
	var subject value
	if n.Arg != nil {
		a.unprojected(func() { subject = a.settled(a.expr(s, n.Arg)) })
	}
	results := []value{{typ: typing.Unknown, null: true}}
	var from []*lineage
	for _, w := range n.Args {
		when := w.GetCaseWhen()
		a.unprojected(func() { from = append(from, a.caseCondition(s, n, subject, when)) })
		results = append(results, a.expr(s, when.Result))
	}
	if n.Defresult != nil {
		results[0] = a.expr(s, n.Defresult)
	}
	t, results := a.common("CASE", results, -1)
	return value{typ: t, from: union(changed(from...), union(lineages(results)...))}
}

func (a *analysis) caseCondition(s *scope, n *pg.CaseExpr, subject value, when *pg.CaseWhen) *lineage {
	condition := a.expr(s, when.Expr)
	if n.Arg != nil {
		condition = a.binary("", "=", subject, condition, when.Location)
	}
	return a.boolean(condition, "CASE/WHEN", location(when.Expr)).from
}

// rowExpr is ROW(...). A whole row among the fields, "t.*", stands for its columns.
func (a *analysis) rowExpr(s *scope, n *pg.RowExpr) value {
	values := a.exprList(s, n.Args)
	checkWidth(len(values), "ROW expressions")
	return recordOf(values)
}

// recordOf is an anonymous record of the values.
func recordOf(values []value) value {
	fields := make([]column, len(values))
	for i, v := range values {
		fields[i] = column{name: "f" + strconv.Itoa(i+1), typ: v.typ, from: v.from, fields: v.fields}
	}
	return value{typ: typing.Record, from: changed(lineages(values)...), fields: fields}
}

func (a *analysis) collate(s *scope, n *pg.CollateClause) value {
	v := a.expr(s, n.Arg)
	schema, name := a.qualified(words(n.Collname), n.Location)
	if !a.hasCollation(schema, name) {
		fail(unknown(n.Location, "42704", "collation %q for encoding \"UTF8\" does not exist", join(words(n.Collname))))
	}
	if v.param != 0 {
		v = a.settled(v)
	}
	return value{typ: v.typ, from: v.from}
}

func (a *analysis) hasCollation(schema, name string) bool {
	if schema != "" {
		return a.env.Catalog.HasCollation(schema, name)
	}
	for _, s := range a.types.Path {
		if a.env.Catalog.HasCollation(s, name) {
			return true
		}
	}
	return false
}

// exprList analyses a list in which "*" and "t.*" stand for several values.
func (a *analysis) exprList(s *scope, list []*pg.Node) []value {
	var values []value
	for _, n := range list {
		if many, ok := a.star(s, n); ok {
			values = append(values, many...)
			continue
		}
		values = append(values, a.expr(s, n))
	}
	return values
}
