package analyze

import (
	"interlock/catalog"
	"interlock/sqlgov/typing"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// from brings the items of a FROM clause into view, left to right. An item sees those to its left only as LATERAL.
func (a *analysis) from(s *scope, clause []*pg.Node) {
	for _, n := range clause {
		_, items := a.fromItem(s, n)
		a.checkNames(s.items, items)
		setSideways(items, true, false)
		s.items = append(s.items, items...)
	}
	setSideways(s.items, false, false)
}

func setSideways(items []*item, sideways, refused bool) {
	for _, it := range items {
		it.sideways, it.refused = sideways, refused
	}
}

// checkNames refuses two items of one name, unless they are tables of different schemas named without an alias.
func (a *analysis) checkNames(have, more []*item) {
	a.spend(len(have) * len(more))
	for _, m := range more {
		for _, h := range have {
			if !m.named || !h.named || h.entry.name != m.entry.name {
				continue
			}
			if bothPlain := h.entry.rel != nil && m.entry.rel != nil && !h.entry.aliased && !m.entry.aliased; bothPlain && h.entry.rel != m.entry.rel {
				continue
			}
			failAt(-1, "42712", "table name %q specified more than once", m.entry.name)
		}
	}
}

// fromItem analyses one item of FROM. It returns the entry, and the items by which it and what it holds are visible.
func (a *analysis) fromItem(s *scope, n *pg.Node) (*entry, []*item) {
	switch x := n.Node.(type) {
	case *pg.Node_RangeVar:
		return a.visible(s, a.rangeVar(s, x.RangeVar))
	case *pg.Node_RangeSubselect:
		return a.visible(s, a.rangeSubselect(s, x.RangeSubselect))
	case *pg.Node_RangeFunction:
		return a.visible(s, a.rangeFunction(s, x.RangeFunction))
	case *pg.Node_RangeTableFunc:
		return a.visible(s, a.rangeTableFunc(s, x.RangeTableFunc))
	case *pg.Node_RangeTableSample:
		return a.visible(s, a.tableSample(s, x.RangeTableSample))
	case *pg.Node_JoinExpr:
		return a.join(s, x.JoinExpr)
	}
	unsupported(-1, "this kind of FROM item is")
	return nil, nil
}

// visible makes an entry visible by its name and by its columns.
func (a *analysis) visible(s *scope, e *entry) (*entry, []*item) {
	s.sources = append(s.sources, e)
	return e, []*item{{entry: e, named: e.name != "", columns: true}}
}

// rangeVar is a name in FROM: a WITH query if it is not qualified and one is in view, else a relation.
func (a *analysis) rangeVar(s *scope, n *pg.RangeVar) *entry {
	var e *entry
	if c := a.cteInScope(s, n); c != nil {
		e = &entry{name: n.Relname, columns: append([]column(nil), c.columns...)}
	} else {
		rel := a.relation(n)
		e = a.relationEntry(rel, n.Relname)
		e.mention(a.touch(rel))
		a.refers(e.place, n)
		a.openView(rel)
	}
	a.alias(e, n.Alias, n.Location)
	return e
}

// relation finds a relation by name as the server does: in its schema, or along the search path.
func (a *analysis) relation(n *pg.RangeVar) *catalog.Relation {
	if n.Catalogname != "" && n.Catalogname != a.env.Catalog.Snapshot.Database {
		failAt(n.Location, "0A000", "cross-database references are not implemented: \"%s.%s.%s\"", n.Catalogname, n.Schemaname, n.Relname)
	}
	schemas, written := a.types.Path, []string{n.Relname}
	if n.Schemaname != "" {
		schemas, written = []string{n.Schemaname}, []string{n.Schemaname, n.Relname}
	}
	for _, schema := range schemas {
		if rel := a.env.Catalog.RelationNamed(schema, n.Relname); rel != nil {
			a.met = append(a.met, rel)
			checkReadable(rel, n.Location)
			return rel
		}
	}
	fail(unknown(n.Location, "42P01", "relation %q does not exist", join(written)).named(nil, written...))
	return nil
}

func checkReadable(rel *catalog.Relation, location int32) {
	switch rel.Kind {
	case catalog.IndexKind, catalog.PartitionedIndexKind:
		failAt(location, "42809", "%q is an index", rel.Name)
	case catalog.CompositeType:
		failAt(location, "42809", "%q is a composite type", rel.Name)
	}
}

// alias applies "AS name (column names)".
func (a *analysis) alias(e *entry, n *pg.Alias, location int32) {
	if n == nil {
		return
	}
	e.name, e.aliased = n.Aliasname, true
	names := words(n.Colnames)
	if len(names) > len(e.columns) {
		failAt(location, "42P10", "table %q has %d columns available but %d columns specified", e.name, len(e.columns), len(names))
	}
	for i, name := range names {
		e.columns[i].name = name
	}
}

func (a *analysis) rangeSubselect(s *scope, n *pg.RangeSubselect) *entry {
	if n.Alias == nil && a.env.Catalog.Snapshot.ServerNum < 160000 {
		failAt(-1, "42601", "subquery in FROM must have an alias")
	}
	inner := s.child()
	was := s.lateral
	s.lateral = n.Lateral
	q := a.selectStmt(inner, n.Subquery.GetSelectStmt())
	s.lateral = was
	e := &entry{columns: q.columns, query: q}
	a.alias(e, n.Alias, -1)
	return e
}

// rangeFunction is a function, or ROWS FROM several, in FROM. Functions always see what stands to their left.
func (a *analysis) rangeFunction(s *scope, n *pg.RangeFunction) *entry {
	was := s.lateral
	s.lateral = true
	defer func() { s.lateral = was }()

	calls := a.functionCalls(n)
	e := &entry{}
	for _, call := range calls {
		v := a.expr(s, call.expr)
		name := call.name
		if len(calls) == 1 && n.Alias != nil {
			name = n.Alias.Aliasname
		}
		shape, row := a.functionColumns(v, call.definitions, name)
		e.columns = append(e.columns, shape...)
		if len(calls) == 1 && !n.Ordinality && len(call.definitions) == 0 {
			e.rowType, e.scalar = row, row == 0 && !isRecord(v)
		}
		if e.name == "" {
			e.name = call.name
		}
	}
	if n.Ordinality {
		e.columns = append(e.columns, column{name: "ordinality", typ: typing.Int8})
	}
	a.alias(e, n.Alias, -1)
	return e
}

func isRecord(v value) bool { return v.typ == typing.Record }

type functionCall struct {
	expr        *pg.Node
	name        string // the output name
	definitions []*pg.Node
}

// functionCalls lists the calls of a function item. unnest with several arguments is a ROWS FROM in disguise.
func (a *analysis) functionCalls(n *pg.RangeFunction) []functionCall {
	var calls []functionCall
	for _, f := range n.Functions {
		parts := f.GetList().GetItems()
		call := functionCall{expr: parts[0], name: a.outputName(parts[0])}
		if len(parts) > 1 {
			call.definitions = parts[1].GetList().GetItems()
		}
		if len(call.definitions) == 0 {
			call.definitions = n.Coldeflist
		}
		if args := manyUnnest(parts[0].GetFuncCall()); args != nil && len(call.definitions) == 0 {
			for _, arg := range args {
				calls = append(calls, functionCall{expr: pg.MakeFuncCallNode(
					[]*pg.Node{pg.MakeStrNode("pg_catalog"), pg.MakeStrNode("unnest")}, []*pg.Node{arg}, -1), name: "unnest"})
			}
			continue
		}
		calls = append(calls, call)
	}
	return calls
}

func manyUnnest(f *pg.FuncCall) []*pg.Node {
	if f == nil || len(f.Args) < 2 || len(f.Funcname) != 1 || f.Funcname[0].GetString_().GetSval() != "unnest" {
		return nil
	}
	if f.AggOrder != nil || f.AggFilter != nil || f.Over != nil || f.AggStar || f.AggDistinct || f.FuncVariadic {
		return nil
	}
	return f.Args
}

// functionColumns lists the columns that a function in FROM gives, and the row type if it is a named one.
func (a *analysis) functionColumns(v value, definitions []*pg.Node, name string) ([]column, catalog.OID) {
	switch rel := a.types.Composite(v.typ); {
	case len(definitions) > 0:
		return a.definedColumns(definitions, v), 0
	case rel != nil:
		columns := make([]column, len(rel.Columns))
		for i := range rel.Columns {
			columns[i] = column{name: rel.Columns[i].Name, typ: rel.Columns[i].Type, from: changed(v.from)}
		}
		return columns, v.typ
	case v.typ == typing.Record && len(v.fields) == 0:
		failAt(-1, "42601", "a column definition list is required for functions returning \"record\"")
	case v.typ == typing.Record:
		return append([]column(nil), v.fields...), 0
	}
	if v.result != "" {
		name = v.result
	}
	return []column{{name: name, typ: v.typ, from: v.from}}, 0
}

func (a *analysis) definedColumns(definitions []*pg.Node, v value) []column {
	columns := make([]column, 0, len(definitions))
	for _, d := range definitions {
		def := d.GetColumnDef()
		if def == nil || def.TypeName == nil {
			unsupported(-1, "this column definition is")
		}
		c := column{name: def.Colname, typ: a.typeOf(def.TypeName), from: changed(v.from)}
		if v.made {
			a.makes(c.typ)
		}
		columns = append(columns, c)
	}
	return columns
}

// rangeTableFunc is XMLTABLE.
func (a *analysis) rangeTableFunc(s *scope, n *pg.RangeTableFunc) *entry {
	was := s.lateral
	s.lateral = true
	defer func() { s.lateral = was }()

	a.out.System.Raises = true
	row := a.coerce(a.expr(s, n.Rowexpr), typing.Text, typing.Assignment, n.Location)
	doc := a.coerce(a.expr(s, n.Docexpr), typing.XML, typing.Assignment, n.Location)
	from := changed(row.from, doc.from)
	for _, space := range n.Namespaces {
		v := a.coerce(a.expr(s, space.GetResTarget().GetVal()), typing.Text, typing.Assignment, n.Location)
		from = changed(from, v.from)
	}
	e := &entry{name: "xmltable"}
	for _, c := range n.Columns {
		e.columns = append(e.columns, a.xmlColumn(s, c.GetRangeTableFuncCol(), from))
	}
	a.alias(e, n.Alias, n.Location)
	return e
}

func (a *analysis) xmlColumn(s *scope, n *pg.RangeTableFuncCol, from *lineage) column {
	c := column{name: n.Colname, typ: typing.Int4, from: from}
	if !n.ForOrdinality {
		c.typ = a.typeOf(n.TypeName)
	}
	if n.Colexpr != nil {
		c.from = changed(c.from, a.coerce(a.expr(s, n.Colexpr), typing.Text, typing.Assignment, n.Location).from)
	}
	if n.Coldefexpr != nil {
		c.from = changed(c.from, a.coerce(a.expr(s, n.Coldefexpr), c.typ, typing.Assignment, n.Location).from)
	}
	return c
}

// sampleParams are the parameter types of sampling methods. The methods keep them in C.
var sampleParams = map[string]catalog.OID{
	"system": typing.Float4, "bernoulli": typing.Float4, "system_rows": typing.Int8, "system_time": typing.Float8,
}

// tableSample is TABLESAMPLE: the sampling method is a function, its arguments read what they name.
func (a *analysis) tableSample(s *scope, n *pg.RangeTableSample) *entry {
	e := a.rangeVar(s, n.Relation.GetRangeVar())
	if e.rel == nil || e.rel.Kind != catalog.Table && e.rel.Kind != catalog.PartitionedTable && e.rel.Kind != catalog.MaterializedView {
		failAt(n.Location, "0A000", "TABLESAMPLE clause can only be applied to tables and materialized views")
	}
	schema, name := a.qualified(words(n.Method), n.Location)
	const internal = 2281
	match, err := a.types.Function(typing.Call{Schema: schema, Name: name, Args: []typing.Arg{{Type: internal}}})
	if err != nil || match.Function == nil {
		fail(unknown(n.Location, "42704", "tablesample method %s does not exist", name))
	}
	if !catalog.IsSystemSchema(match.Function.Schema) { // no privilege is checked, but an extension's code runs
		a.use(match.Function)
	}
	param, known := sampleParams[name]
	if !known {
		unsupported(n.Location, "TABLESAMPLE method "+name+" is")
	}
	for _, arg := range n.Args {
		a.coerce(a.expr(s, arg), param, typing.Assignment, n.Location)
	}
	if n.Repeatable != nil {
		a.coerce(a.expr(s, n.Repeatable), typing.Float8, typing.Assignment, n.Location)
	}
	return e
}
