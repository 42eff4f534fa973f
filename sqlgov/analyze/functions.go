package analyze

import (
	"strconv"
	"strings"

	"interlock/catalog"
	"interlock/sqlgov/typing"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// funcCall is a call as written. f(x) can also be a cast, and the field f of a row x.
func (a *analysis) funcCall(s *scope, n *pg.FuncCall) value {
	schema, name := a.qualified(words(n.Funcname), n.Location)
	args := a.exprs(s, n.Args)
	var sorts []value
	var extra []*lineage
	a.unprojected(func() { sorts, extra = a.callClauses(s, n) })
	if n.AggWithinGroup {
		args = append(args, sorts...)
	}
	if n.AggDistinct {
		a.consume(union(lineages(args)...))
	}
	v := a.resolveCall(n, schema, name, args)
	v.from = union(changed(extra...), v.from)
	return v
}

// callClauses are the clauses of a call that decide which rows it sees and in which order: ORDER BY, FILTER and OVER.
func (a *analysis) callClauses(s *scope, n *pg.FuncCall) (sorts []value, from []*lineage) {
	sorts = make([]value, len(n.AggOrder))
	for i, sort := range n.AggOrder {
		sorts[i] = a.sortKey(s, sort.GetSortBy(), nil)
	}
	from = lineages(sorts)
	if n.AggFilter != nil {
		from = append(from, a.boolean(a.expr(s, n.AggFilter), "FILTER", location(n.AggFilter)).from)
	}
	if n.Over != nil {
		from = append(from, a.window(s, n.Over))
	}
	return sorts, from
}

// resolveCall picks the function. Column notation is the last resort, and only for a plain call.
func (a *analysis) resolveCall(n *pg.FuncCall, schema, name string, args []value) value {
	call := typing.Call{Schema: schema, Name: name, Variadic: n.FuncVariadic, Star: n.AggStar}
	for i, v := range args {
		arg := typing.Arg{Type: v.typ, Param: v.param != 0}
		if i < len(n.Args) {
			arg.Name = n.Args[i].GetNamedArgExpr().GetName()
		}
		call.Args = append(call.Args, arg)
	}
	if n.AggWithinGroup {
		call.WithinGroup = len(n.AggOrder)
	}
	match, err := a.types.Function(call)
	if err == nil {
		a.checkDrift(n, schema, name, call, match)
		a.calls(n, match, args)
		if keeps(match.Function) {
			for _, v := range args {
				a.flowsIntoWrite(v)
			}
		}
		if isNotify(match.Function) && len(n.Args) > 0 {
			return a.notifies(n, match, args)
		}
		return a.called(match, args, n.Location)
	}
	if plainCall(n) && len(args) == 1 && schema == "" {
		if v, ok := a.field(args[0], name); ok {
			return a.projection(args[0], v, name)
		}
	}
	must(err, n.Location, words(n.Funcname)...)
	return value{}
}

// projection is name(row). When the name is a type's too, the value counts as all of the row.
func (a *analysis) projection(row, field value, name string) value {
	if _, err := a.types.TypeName("", name); err == nil {
		field.from = row.from
	}
	return field
}

func plainCall(n *pg.FuncCall) bool {
	return n.AggOrder == nil && n.AggFilter == nil && n.Over == nil && !n.AggStar && !n.AggDistinct && !n.AggWithinGroup &&
		!n.FuncVariadic && len(n.Args) == 1 && n.Args[0].GetNamedArgExpr() == nil
}

// called notes a function and coerces its arguments.
func (a *analysis) called(match typing.Match, args []value, location int32) value {
	if match.Function == nil {
		return a.coerce(args[0], match.Coercion, typing.Explicit, location)
	}
	a.use(match.Function)
	for i := range args {
		if i < len(match.ArgTypes) {
			a.coerce(args[i], match.ArgTypes[i], typing.Implicit, location)
		}
	}
	if isCount(match.Function) {
		return a.presence(match.Result, union(lineages(args)...))
	}
	weight := a.callUses(match.Function, args)
	v := derived(match.Result, lineages(args)...)
	v.built = a.built(match.Function, args)
	v.weight = weight
	if v.made = makesRows(match.Function); v.made {
		a.makes(match.Result)
	}
	v.fields = a.outFields(match, v.from)
	if len(v.fields) == 1 && v.typ != typing.Record {
		v.result, v.fields = v.fields[0].name, nil
	}
	return v
}

// makesRows reports if a function makes values of whatever types its result has, from JSON. Domains among the types check
// them.
func makesRows(f *catalog.Function) bool {
	switch strings.TrimSuffix(strings.TrimLeft(f.Name, "jsonb"), "set") {
	case "_populate_record", "_to_record":
		return f.Schema == "pg_catalog"
	}
	return false
}

// makes notes the functions that check values of a type, and of the types in it, when they are made from text.
func (a *analysis) makes(t catalog.OID) {
	if t != typing.Record {
		c, err := a.types.Coerce(typing.Unknown, t, typing.Explicit)
		must(err, -1)
		a.converts(c)
	}
}

// outFields are the OUT parameters of a function that returns them as a record; a single one only names the result.
func (a *analysis) outFields(match typing.Match, from *lineage) []column {
	f := match.Function
	var fields []column
	for i := range min(len(f.AllArgs), len(f.ArgModes)) {
		switch f.ArgModes[i] {
		case 'o', 'b', 't':
			typ, err := a.types.Actual(match, f.AllArgs[i])
			must(err, -1)
			c := column{typ: typ, from: from}
			if i < len(f.ArgNames) {
				c.name = f.ArgNames[i]
			}
			fields = append(fields, c)
		}
	}
	for i := range fields {
		if len(fields) > 1 && fields[i].name == "" {
			fields[i].name = "column" + strconv.Itoa(i+1)
		}
	}
	return fields
}

// window is OVER, or a definition of the WINDOW clause: what it partitions and orders by shapes the value.
func (a *analysis) window(s *scope, n *pg.WindowDef) *lineage {
	base := n.Refname
	if base == "" && !s.defining {
		base = n.Name
	}
	from := []*lineage{s.windows[base]}
	if base != "" && from[0] == nil {
		failAt(n.Location, "42704", "window %q does not exist", base)
	}
	for _, key := range n.PartitionClause {
		v := a.expr(s, key)
		a.groups(v.typ)
		from = append(from, v.from)
	}
	for _, sort := range n.OrderClause {
		v := a.sortKey(s, sort.GetSortBy(), nil)
		a.groups(v.typ)
		from = append(from, v.from)
	}
	from = append(from, a.frameOffset(s, n.StartOffset, n), a.frameOffset(s, n.EndOffset, n))
	return union(from...)
}

// frameRange is a bit of WindowDef.FrameOptions.
const frameRange = 0x02

// frameOffset is "n PRECEDING". The offset of a RANGE frame has a type that goes with the one ordered by.
func (a *analysis) frameOffset(s *scope, offset *pg.Node, n *pg.WindowDef) *lineage {
	if offset == nil {
		return nil
	}
	v, to := a.expr(s, offset), typing.Int8
	if n.FrameOptions&frameRange != 0 {
		to = rangeOffsets[a.types.Base(a.orderedBy(s, n))]
	}
	if to != 0 {
		v = a.coerce(v, to, typing.Assignment, n.Location)
	}
	return v.from
}

// rangeOffsets are the types of RANGE offsets by the type ordered by, as the in_range functions of PostgreSQL's own operator
// classes take them. For int2 and int4 there are several, and an offset stays what it is.
var rangeOffsets = map[catalog.OID]catalog.OID{
	typing.Int8: typing.Int8, typing.Float4: typing.Float8, typing.Float8: typing.Float8, typing.Numeric: typing.Numeric,
	typing.Date: typing.Interval, typing.Time: typing.Interval, typing.TimeTZ: typing.Interval, typing.Timestamp: typing.Interval,
	typing.TimestampTZ: typing.Interval, typing.Interval: typing.Interval,
}

// orderedBy is the type of the one column that a window with a RANGE offset is ordered by, be it by the window that it
// refines.
func (a *analysis) orderedBy(s *scope, n *pg.WindowDef) catalog.OID {
	for seen := 0; n != nil && seen <= len(s.definitions); seen++ {
		if len(n.OrderClause) == 1 {
			return a.sortKey(s, n.OrderClause[0].GetSortBy(), nil).typ
		}
		n = s.definitions[n.Refname]
	}
	return 0
}

// checkDrift guards the calls that the parser's grammar writes with pg_catalog in front, where an older server looks
// the name up along the search path.
func (a *analysis) checkDrift(n *pg.FuncCall, schema, name string, call typing.Call, match typing.Match) {
	if schema != "pg_catalog" || !a.known.drifts(name) {
		return
	}
	call.Schema = ""
	if other, err := a.types.Function(call); err != nil || other.Function != match.Function {
		unsupported(n.Location, "the function "+name+" beside the parser's own is")
	}
}
