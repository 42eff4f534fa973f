package analyze

import (
	"strconv"

	"interlock/catalog"
	"interlock/sqlgov/typing"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// query is what an analysed query gives to the one around it.
type query struct {
	columns []column
	scope   *scope // of a plain SELECT: FOR UPDATE around it reaches its tables
}

// values are the columns of a subquery as operands.
func (q *query) values() []value {
	values := make([]value, len(q.columns))
	for i := range q.columns {
		c := &q.columns[i]
		values[i] = value{typ: c.typ, from: c.from, fields: c.fields}
	}
	return values
}

// selectStmt analyses a SELECT, VALUES or set operation in a scope of its own. Output columns that nothing has typed become text.
func (a *analysis) selectStmt(s *scope, n *pg.SelectStmt) *query {
	q := a.openSelect(s, n)
	for i := range q.columns {
		if c := &q.columns[i]; c.typ == typing.Unknown {
			c.typ = a.settled(value{typ: c.typ, param: c.param}).typ
		}
	}
	return q
}

// openSelect is selectStmt for UNION and INSERT, which type the open columns themselves.
func (a *analysis) openSelect(s *scope, n *pg.SelectStmt) *query {
	if n == nil {
		unsupported(-1, "this kind of query is")
	}
	if n.IntoClause != nil {
		unsupported(-1, "SELECT INTO is")
	}
	was := a.projecting
	a.projecting = false
	q := a.clauses(s, n)
	a.projecting = was
	return q
}

func (a *analysis) clauses(s *scope, n *pg.SelectStmt) *query {
	if n.Op != pg.SetOperation_SETOP_NONE {
		return a.setOperation(s, n)
	}
	a.with(s, n.WithClause)
	if len(n.ValuesLists) > 0 {
		return a.values(s, n)
	}
	return a.plainSelect(s, n)
}

// plainSelect takes the clauses in the server's order: the first use of a parameter decides its type.
func (a *analysis) plainSelect(s *scope, n *pg.SelectStmt) *query {
	a.nameWindows(s, n.WindowClause)
	a.from(s, n.FromClause)
	targets := a.targets(s, n.TargetList)
	if n.WhereClause != nil {
		a.condition(s, n.WhereClause, "WHERE")
	}
	if n.HavingClause != nil {
		a.condition(s, n.HavingClause, "HAVING")
	}
	for _, sort := range n.SortClause {
		a.sortKey(s, sort.GetSortBy(), targets)
	}
	a.groupBy(s, n.GroupClause, targets)
	a.distinct(s, n.DistinctClause, targets)
	a.limit(s, n)
	a.defineWindows(s, n.WindowClause)
	a.locking(s, n.LockingClause)
	return &query{columns: a.outputColumns(targets), scope: s}
}

// target is a column of the select list.
type target struct {
	name string
	node *pg.Node // nil for a column of "*"
	value
}

func (a *analysis) outputColumns(targets []*target) []column {
	columns := make([]column, len(targets))
	for i, t := range targets {
		columns[i] = a.column(t)
	}
	return columns
}

func (a *analysis) column(t *target) column {
	c := column{name: t.name, typ: t.typ, from: t.from, fields: a.detached(t.fields), param: t.param}
	if t.plain {
		c.origin = t.origin
	}
	return c
}

// detached are the fields of a row that leaves its query: what they derive from is kept, but reading them costs nothing more.
func (a *analysis) detached(fields []column) []column {
	if len(fields) == 0 {
		return nil
	}
	a.spend(16 * len(fields))
	free := make([]column, len(fields))
	for i := range fields {
		free[i] = column{name: fields[i].name, typ: fields[i].typ, from: a.lineageOf(&fields[i]), fields: fields[i].fields}
	}
	return free
}

// targets analyses a select list or RETURNING.
func (a *analysis) targets(s *scope, list []*pg.Node) []*target {
	targets := make([]*target, 0, len(list))
	all, was := a.functions, a.projecting
	defer func() { a.functions, a.projecting = all, was }()
	a.projecting = true
	for _, n := range list {
		if s == a.columnScope {
			a.columns = append(a.columns, nil)
			a.functions = &a.columns[len(a.columns)-1]
		}
		res := n.GetResTarget()
		if many, ok := a.star(s, res.GetVal()); ok {
			for _, v := range many {
				targets = append(targets, &target{name: v.name, value: v})
			}
			checkWidth(len(targets), "target lists")
			continue
		}
		t := &target{name: res.GetName(), node: res.GetVal(), value: a.expr(s, res.GetVal())}
		if t.name == "" {
			t.name = a.outputName(t.node)
		}
		targets = append(targets, t)
	}
	checkWidth(len(targets), "target lists")
	return targets
}

// sortKey is an ORDER BY item: an output name, an output position, or an expression. Without targets it is always an
// expression. USING names an operator.
func (a *analysis) sortKey(s *scope, n *pg.SortBy, targets []*target) value {
	v := a.key(s, n.GetNode(), targets, "ORDER BY")
	a.consume(v.from)
	if len(n.UseOp) > 0 {
		// It names an ordering; what runs is the comparison behind the ordering, which nobody's privileges are checked on.
		schema, name := a.operatorName(n.UseOp, n.Location)
		a.ordered(schema, name, v, v, n.Location)
	}
	return v
}

// key finds what an item of ORDER BY, GROUP BY or DISTINCT ON stands for.
func (a *analysis) key(s *scope, n *pg.Node, targets []*target, clause string) value {
	if targets != nil {
		if t := a.targetNamed(s, n, targets, clause); t != nil {
			a.settleTarget(t)
			return t.value
		}
		if c := n.GetAConst(); c != nil {
			return a.targetAt(c, targets, clause)
		}
	}
	return a.settled(a.expr(s, n))
}

func (a *analysis) settleTarget(t *target) { t.value = a.settled(t.value) }

// targetNamed finds an output column by name. GROUP BY prefers a column of FROM.
func (a *analysis) targetNamed(s *scope, n *pg.Node, targets []*target, clause string) *target {
	ref := n.GetColumnRef()
	if ref == nil || len(ref.Fields) != 1 || ref.Fields[0].GetString_() == nil {
		return nil
	}
	name := ref.Fields[0].GetString_().Sval
	if clause == "GROUP BY" && a.columnInScope(s, name, ref.Location, true) != nil {
		return nil
	}
	a.spend(len(targets))
	var found *target
	for _, t := range targets {
		if t.name != name {
			continue
		}
		if found != nil && !found.same(t) {
			failAt(ref.Location, "42702", "%s %q is ambiguous", clause, name)
		}
		if found == nil {
			found = t
		}
	}
	return found
}

// same reports if two output columns are the same expression, as far as that can be seen: plain columns.
func (t *target) same(u *target) bool {
	if t.plain && u.plain {
		return t.origin == u.origin
	}
	return false
}

func (a *analysis) targetAt(c *pg.A_Const, targets []*target, clause string) value {
	n, ok := c.Val.(*pg.A_Const_Ival)
	if !ok {
		failAt(c.Location, "42601", "non-integer constant in %s", clause)
	}
	i := int(n.Ival.GetIval())
	if i < 1 || i > len(targets) {
		failAt(c.Location, "42P10", "%s position %d is not in select list", clause, i)
	}
	a.settleTarget(targets[i-1])
	return targets[i-1].value
}

// groupBy is GROUP BY with its grouping sets.
func (a *analysis) groupBy(s *scope, list []*pg.Node, targets []*target) {
	for _, n := range list {
		if set := n.GetGroupingSet(); set != nil {
			a.groupBy(s, set.Content, targets)
			continue
		}
		if row := n.GetRowExpr(); row != nil && row.RowFormat == pg.CoercionForm_COERCE_IMPLICIT_CAST {
			a.groupBy(s, row.Args, targets)
			continue
		}
		v := a.key(s, n, targets, "GROUP BY")
		a.consume(v.from)
		a.groups(v.typ)
	}
}

// distinct is DISTINCT, which compares every output column, and DISTINCT ON.
func (a *analysis) distinct(s *scope, list []*pg.Node, targets []*target) {
	for _, n := range list {
		if n.GetNode() == nil {
			for _, t := range targets {
				a.settleTarget(t)
				a.consume(t.from)
				a.groups(t.typ)
			}
			continue
		}
		v := a.key(s, n, targets, "DISTINCT ON")
		a.consume(v.from)
		a.groups(v.typ)
	}
}

// groups notes the function by which values of a type are grouped. PostgreSQL checks the caller's right to call it for
// GROUP BY, DISTINCT, UNION and windows; only a type of an extension has one outside pg_catalog.
func (a *analysis) groups(t catalog.OID) {
	typ := a.env.Catalog.Type(a.types.Base(t))
	if typ == nil || catalog.IsSystemSchema(typ.Schema) {
		return
	}
	for _, op := range a.env.Catalog.OperatorsNamed(typ.Schema, "=") {
		if op.Left == typ.OID && op.Right == typ.OID {
			a.use(a.env.Catalog.Function(op.Function))
		}
	}
}

// limit is LIMIT, OFFSET and FETCH FIRST.
func (a *analysis) limit(s *scope, n *pg.SelectStmt) {
	for i, bound := range []*pg.Node{n.LimitOffset, n.LimitCount} {
		if bound == nil {
			continue
		}
		v := a.expr(s, bound)
		if v.typ != typing.Unknown && !a.types.CanCoerce(v.typ, typing.Int8, typing.Assignment) {
			failAt(location(bound), "42804", "argument of %s must be type bigint, not type %s", []string{"OFFSET", "LIMIT"}[i], a.typeName(v.typ))
		}
		a.coerce(v, typing.Int8, typing.Assignment, location(bound))
	}
}

func (a *analysis) nameWindows(s *scope, list []*pg.Node) {
	if len(list) == 0 {
		return
	}
	s.windows, s.definitions = make(map[string]*lineage, len(list)), make(map[string]*pg.WindowDef, len(list))
	for _, n := range list {
		w := n.GetWindowDef()
		if s.windows[w.Name] != nil {
			failAt(w.Location, "42P20", "window %q is already defined", w.Name)
		}
		s.windows[w.Name], s.definitions[w.Name] = &lineage{}, w
	}
}

func (a *analysis) defineWindows(s *scope, list []*pg.Node) {
	s.defining = true
	for _, n := range list {
		w := n.GetWindowDef()
		s.windows[w.Name].from = append(s.windows[w.Name].from, a.window(s, w))
	}
	s.defining = false
}

// values is VALUES: columns get the common type of their rows.
func (a *analysis) values(s *scope, n *pg.SelectStmt) *query {
	rows := make([][]value, len(n.ValuesLists))
	for i, list := range n.ValuesLists {
		a.projecting = true
		rows[i] = a.exprList(s, list.GetList().GetItems())
		a.projecting = false
		if len(rows[i]) != len(rows[0]) {
			failAt(-1, "42601", "VALUES lists must all be the same length")
		}
	}
	q := &query{}
	for i := range rows[0] {
		q.columns = append(q.columns, a.valuesColumn(rows, i))
	}
	targets := targetsOf(q.columns)
	for _, sort := range n.SortClause {
		a.sortKey(s, sort.GetSortBy(), targets)
	}
	a.limit(s, n)
	if len(n.LockingClause) > 0 {
		failAt(-1, "0A000", "FOR UPDATE cannot be applied to VALUES")
	}
	return q
}

func (a *analysis) valuesColumn(rows [][]value, i int) column {
	members := make([]value, len(rows))
	for r := range rows {
		members[r] = rows[r][i]
	}
	c := column{name: "column" + strconv.Itoa(i+1)}
	if len(rows) == 1 {
		c.typ, c.param, c.fields = members[0].typ, members[0].param, members[0].fields
	} else {
		c.typ, members = a.common("VALUES", members, -1)
	}
	c.from = union(lineages(members)...)
	return c
}

// targetsOf makes output columns addressable by name and position.
func targetsOf(columns []column) []*target {
	targets := make([]*target, len(columns))
	for i, c := range columns {
		targets[i] = &target{name: c.name, value: value{typ: c.typ, from: c.from, fields: c.fields, plain: true, origin: origin{nil, int16(i)}}}
	}
	return targets
}
